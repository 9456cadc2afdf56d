"""Tables and progress on a terminal, in which no text of a run is taken for an instruction.

What a cell or a line says may be a name that somebody gave a folder, or an answer of a model. Left out: plain lines,
which the streams of the command line clean (`cli/output.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from align_echo.sandbox.wording import printable


def in_one_line(text: str) -> str:
    """Return text without line breaks, which the name of a file may have."""
    return " ".join(text.splitlines())


class PlainConsole(Console):
    """A console that shows texts as they are: without control characters, and brackets as brackets."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    @property
    def file(self) -> IO[str]:
        """The stream behind, which lets through the sequences that colour and move what is shown."""
        stream = super().file
        return getattr(stream, "styled", stream)

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, with texts that steer nothing."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
