"""Tables and progress on a terminal, without interpreting text of a run as markup or control characters.

A cell or a line may hold a name chosen by somebody for a folder, or a model's answer. Not here: plain lines, which the
streams of the command line clean (`cli/output.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from align_echo.sandbox.wording import printable


def in_one_line(text: str) -> str:
    """Remove line breaks, which a file name may contain."""
    return " ".join(text.splitlines())


class PlainConsole(Console):
    """A console that shows texts literally: without control characters, and with brackets as brackets."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    @property
    def file(self) -> IO[str]:
        """Underlying stream, which passes rich's own colour and cursor sequences through."""
        stream = super().file
        return getattr(stream, "styled", stream)

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, without control characters from texts."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
