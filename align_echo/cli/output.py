"""What the command line prints holds no key and no password: both of its streams take them out, tracebacks too."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO, cast

from align_echo.redaction import redacted


class _Redacting:
    """A stream of text that takes secrets out of whatever is written; in all else the stream behind it."""

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


@contextmanager
def redacted_output() -> Iterator[None]:
    """Standard output and standard error take secrets out while the block runs."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and cast(TextIO, _Redacting(stream)) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def redact_tracebacks() -> None:
    """From now on an error that ends the process is printed without secrets."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if sys.stderr is not None:
            sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))

    sys.excepthook = show
