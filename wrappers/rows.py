"""Read users' files with one JSON object a line: valid rows, and what is wrong with the others.

An invalid row is skipped and does not affect the rest of its file; a file without a valid row is refused. A file may
also be one JSON array, be compressed by gzip, or begin with a byte order mark.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar

from align_echo.errors import MissingDataError, UsageError
from align_echo.reading import parse_json
from align_echo.regular_files import open_file

Row = TypeVar("Row")

LONGEST_LINE = 16 * 2**20
"""Longest line in bytes. A file that is one JSON array may be a hundred times as long."""

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class RowsResult(NamedTuple, Generic[Row]):
    """Rows of a file. `damage` describes the first skipped row; "" if none was skipped."""

    rows: list[Row]
    left_out: int
    damage: str

    @property
    def note(self) -> str:
        """Say how many rows were skipped, and why the first was; "" if none was."""
        return f"{self.left_out} damaged rows left out ({self.damage})" if self.left_out else ""


def read_rows(file: Path, read: Callable[[dict[str, Any], int, int], Row], kind: str) -> RowsResult[Row]:
    """Read the rows of a file. `read` makes a row of an object, its line and its index, or raises `ValueError`.

    Lines are counted from 1; the index, from 0, counts the lines that are not blank.

    `kind` is the word for the rows. Raises `MissingDataError` for a file that cannot be read, and `UsageError` for a
    file without a valid row, naming the fault of the first.
    """
    rows: list[Row] = []
    left_out, damage = 0, ""
    try:
        for index, (number, line) in enumerate(_lines(file)):
            try:
                rows.append(read(_record(line), number, index))
            except ValueError as error:
                left_out, damage = left_out + 1, damage or f"{file} line {number} is damaged: {_reason(error)}"
    except (OSError, EOFError) as error:
        raise MissingDataError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not rows:
        raise UsageError(damage or f"{file} holds no {kind}")
    return RowsResult(rows, left_out, damage)


def _lines(file: Path) -> Iterator[tuple[int, bytes | Any]]:
    """Yield the number and the bytes of each line that is not blank; for a JSON array its entries."""
    if not file.is_file():
        raise MissingDataError(f"{file} is not a file")
    with open_file(file) as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        stream: Any = gzip.GzipFile(fileobj=plain) if packed else plain
        start = stream.read(4096)
        stream.seek(0)
        if start.startswith(_UTF16):
            text = _bounded(stream).decode("utf-16", "replace")
            yield from enumerate((line.encode() for line in text.splitlines() if line.strip()), start=1)
        elif start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"[" and (array := _array(stream)) is not None:
            yield from enumerate(array, start=1)
        else:
            stream.seek(0)
            yield from _bounded_lines(stream)


def _bounded(stream: BinaryIO) -> bytes:
    content = stream.read(100 * LONGEST_LINE + 1)
    if len(content) > 100 * LONGEST_LINE:
        raise UsageError(f"{stream.name} is longer than {100 * LONGEST_LINE} bytes: write one JSON object a line")
    return content


def _array(stream: BinaryIO) -> list[Any] | None:
    """Return the entries of a JSON array; None if the file is lines and the first is no object."""
    try:
        parsed = parse_json(_bounded(stream).decode("utf-8-sig"))
    except ValueError:
        return None
    return parsed if isinstance(parsed, list) and all(isinstance(entry, dict) for entry in parsed) else None


def _bounded_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise UsageError(f"{stream.name} line {number} is longer than {LONGEST_LINE} bytes")
        if line.strip():
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _record(line: bytes | Any) -> dict[str, Any]:
    record = parse_json(line.decode()) if isinstance(line, bytes) else line
    if not isinstance(record, dict):
        raise ValueError("it holds no names and values")
    return record


def _reason(error: ValueError) -> str:
    return f"{error.msg} (column {error.colno})" if isinstance(error, json.JSONDecodeError) else str(error)
