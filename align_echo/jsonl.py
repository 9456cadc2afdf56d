"""Append-only files of one JSON record a line, safe against a process that was killed while it wrote.

A reader ignores a last line without an end; the next writer cuts it off before it appends. Several threads and
processes may append to one file: each waits until the others' lines are whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from align_echo.errors import UsageError
from align_echo.files import write_atomically
from align_echo.locking import one_writer
from align_echo.reading import first_wrong
from align_echo.redaction import without_secrets
from align_echo.regular_files import LONGEST_LINE, open_file, read_lines
from align_echo.types import Trajectory

Record = TypeVar("Record", bound=BaseModel)

BLOCK = 2**16
"""Bytes that are read at once where the end of the last whole line is looked for."""


class JsonlFile:
    """A JSONL file of pydantic records. Appending is thread-safe; file and folder appear with the first record."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: BaseModel) -> int:
        """Add one record, without keys and passwords; it is with the operating system when this returns.

        Returns where its line begins, in bytes.
        """
        return append_line(self.path, record.model_dump_json())

    def read(self, kind: type[Record]) -> list[Record]:
        """All whole records; empty if the file does not exist. Raises `UsageError` naming a line that is damaged."""
        return [record for _, record in self.entries(kind)]

    def entries(self, kind: type[Record]) -> Iterator[tuple[int, Record]]:
        """Read one whole record after the other, with where its line begins, in bytes. Raises as `read`."""
        if not self.path.exists():
            return
        start = 0
        for number, line in enumerate(read_lines(self.path, folder=self.path.parent), start=1):
            if not line.endswith(b"\n"):
                return
            yield start, self._record(line, kind, f"line {number}")
            start += len(line)

    def at(self, start: int, kind: type[Record]) -> Record:
        """Read the record whose line begins at a byte. Raises as `read`."""
        return self._record(self._line(start), kind, f"at byte {start}")

    def keep(self, starts: Iterable[int]) -> list[int]:
        """Leave the lines that begin at these bytes, in this order, and no others. Returns where they begin then."""
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
        """Whether the last line has no end, so that it is left out. Raises as `read_lines`."""
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
    """Add a text without line breaks as a line, without keys and passwords, after the last line that is whole. File and
    folder appear with the first line. The line is with the operating system when this returns: where it begins, in
    bytes.
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
    """Cut off what stands after the last line break of a file. Whoever calls holds the lock, so nobody writes it."""
    size = end = stream.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - BLOCK) if end < size else end - 1  # at first the last byte alone: mostly a line break
        stream.seek(start)
        line_break = stream.read(end - start).rfind(b"\n")
        if line_break >= 0:
            end = start + line_break + 1
            break
        end = start
    if end < size:
        stream.truncate(end)
