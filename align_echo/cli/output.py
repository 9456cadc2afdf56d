"""Output streams without keys, passwords and terminal control characters, also in tracebacks."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO, cast

from align_echo.errors import printable, redacted


class _Redacting:
    """A text stream that removes secrets from its output, and otherwise behaves like the underlying stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(redacted(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Cleaning(_Redacting):
    """A text stream that also removes terminal control characters, except for a progress bar that redraws its line.

    `styled` is the same stream for trusted text (`align_echo/rollout/display.py`).
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.styled = _Redacting(stream)
        self._holds_text = False

    def write(self, text: str) -> int:
        redrawn = "\r" if text.startswith("\r") and self._stream.isatty() and not self._holds_text else ""
        super().write(redrawn + printable(text[len(redrawn) :]))
        if text and not redrawn:
            self._holds_text = not text.endswith("\n")
        return len(text)


@contextmanager
def redacted_output() -> Iterator[None]:
    """Remove secrets and control characters from standard output and standard error inside the block."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and cast(TextIO, _Cleaning(stream)) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def redact_tracebacks() -> None:
    """Print the traceback of a fatal error without secrets and control characters from now on."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if sys.stderr is not None:
            sys.stderr.write(redacted(printable("".join(traceback.format_exception(kind, error, trace)))))

    sys.excepthook = show
