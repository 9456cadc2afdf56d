"""Append-only files of one JSON record a line, safe against a process that was killed while it wrote.

A reader ignores a last line without an end; the next writer cuts it off before it appends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from align_echo.errors import UsageError
from align_echo.redaction import without_secrets

Record = TypeVar("Record", bound=BaseModel)


class JsonlFile:
    """A JSONL file of pydantic records. Appending is thread-safe; file and folder appear with the first record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._repaired = False

    def append(self, record: BaseModel) -> None:
        """Add one record, without keys and passwords; it is with the operating system when this returns."""
        line = (without_secrets(record.model_dump_json()) + "\n").encode()
        with self._lock:
            if not self._repaired:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                _cut_unfinished_line(self.path)
                self._repaired = True
            with self.path.open("ab") as stream:
                stream.write(line)

    def read(self, kind: type[Record]) -> list[Record]:
        """All whole records; empty if the file does not exist. Raises `UsageError` naming a line that is damaged."""
        return list(self._records(kind))

    def _records(self, kind: type[Record]) -> Iterator[Record]:
        if not self.path.exists():
            return
        with self.path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield kind.model_validate_json(line)
                except ValidationError as error:
                    raise UsageError(f"{self.path} line {number} is damaged: {error.errors()[0]['msg']}") from error


def _cut_unfinished_line(path: Path) -> None:
    if not path.exists():
        return
    whole = path.read_bytes().rfind(b"\n") + 1
    if whole < path.stat().st_size:
        os.truncate(path, whole)
