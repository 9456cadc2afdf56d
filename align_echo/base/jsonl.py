"""Append-only files with one JSON record per line, safe against a process killed while writing.

Readers ignore an unfinished last line; the next writer removes it before appending. Threads and processes may append
to one file: each waits until the others' lines are complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from align_echo.base.files import LONGEST_LINE, open_file, read_lines, write_atomically
from align_echo.base.locking import one_writer
from align_echo.base.plain_yaml import first_wrong
from align_echo.errors import UsageError, without_secrets
from align_echo.types import Trajectory

Record = TypeVar("Record", bound=BaseModel)

BLOCK = 2**16
"""Bytes read at once while searching for the end of the last complete line."""


class JsonlFile:
    """A JSONL file of pydantic records. Appending is thread-safe; the first record creates file and folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: BaseModel) -> int:
        """Append a record, without keys and passwords. The data is with the operating system on return.

        Return the start of its line in bytes.
        """
        return append_line(self.path, record.model_dump_json())

    def read(self, kind: type[Record]) -> list[Record]:
        """Read all complete records; empty if the file does not exist. Raises `UsageError` naming a damaged line."""
        return [record for _, record in self.entries(kind)]

    def entries(self, kind: type[Record]) -> Iterator[tuple[int, Record]]:
        """Yield the complete records one after another, each with the start of its line in bytes. Raises as `read`."""
        if not self.path.exists():
            return
        start = 0
        for number, line in enumerate(read_lines(self.path, folder=self.path.parent), start=1):
            if not line.endswith(b"\n"):
                return
            yield start, self._record(line, kind, f"line {number}")
            start += len(line)

    def at(self, start: int, kind: type[Record]) -> Record:
        """Read the record whose line starts at this byte. Raises as `read`."""
        return self._record(self._line(start), kind, f"at byte {start}")

    def keep(self, starts: Iterable[int]) -> list[int]:
        """Keep only the lines that start at these bytes, in this order. Return their new starts."""
        wanted = iter(starts)
        first = next(wanted, None)
        if first is None:
            self.path.unlink(missing_ok=True)
            return []
        write_atomically(self.path, (self._line(start).decode() for start in chain((first,), wanted)))
        lengths = [len(line) for line in read_lines(self.path, folder=self.path.parent)]
        return list(accumulate(lengths[:-1], initial=0))

    @property
    def is_cut(self) -> bool:
        """True if the last line is unfinished and therefore ignored. Raises as `read_lines`."""
        if not self.path.exists():
            return False
        with open_file(self.path, folder=self.path.parent) as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(size - 1, 0))
            return stream.read(1) not in (b"", b"\n")

    def _line(self, start: int) -> bytes:
        with open_file(self.path, folder=self.path.parent) as stream:
            stream.seek(start)
            return stream.readline(LONGEST_LINE + 1)

    def _record(self, line: bytes, kind: type[Record], where: str) -> Record:
        try:
            return kind.model_validate_json(line, strict=issubclass(kind, Trajectory))
        except ValidationError as error:
            raise UsageError(
                f"{self.path} {where} is damaged: {first_wrong(error)}; take the line out, or name another --out"
            ) from error


def append_line(path: Path, text: str) -> int:
    """Append a line of text, without keys and passwords, after the last complete line. Return its start in bytes.

    The text has no line breaks. The first line creates file and folder. The data is with the operating system on
    return.
    """
    line = (without_secrets(text) + "\n").encode()
    try:
        stream = path.open("a+b")
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a+b")
    with stream, one_writer(stream.fileno()):
        _cut_unfinished_line(stream)
        start = stream.seek(0, os.SEEK_END)
        stream.write(line)
        stream.flush()
    return start


def _cut_unfinished_line(stream: BinaryIO) -> None:
    """Remove text after the last line break. The caller holds the lock, so nobody is writing it."""
    size = end = stream.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - BLOCK) if end < size else end - 1  # first only the last byte, usually a line break
        stream.seek(start)
        line_break = stream.read(end - start).rfind(b"\n")
        if line_break >= 0:
            end = start + line_break + 1
            break
        end = start
    if end < size:
        stream.truncate(end)
