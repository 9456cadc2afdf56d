"""Read files in third-party folders safely: only regular files, within size limits, inside their folder.

A pipe would block forever, a device or an endless line would fill memory, and a link may lead to any file of this
machine. Each is a `UsageError` in one line. Not here: the files' contents.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from align_echo.errors import UsageError

LONGEST_LINE = 64 * 2**20
"""Maximum bytes of a line of records: an episode of hundreds of turns with all tokens has a tenth of that."""

LARGEST_FILE = 256 * 2**20
"""Maximum bytes of a file read at once."""


def open_file(path: Path, *, folder: Path | None = None) -> BufferedReader:
    """Open a file for reading. With `folder`, a link out of it is refused.

    Raises `UsageError` for anything but a regular file, and `OSError` as `open`.
    """
    if folder is not None and not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{path} leads out of {folder}: put the file itself there")
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{path} is not a regular file: take it out of the folder")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, *, folder: Path | None = None) -> bytes:
    """Read a whole file. Raises as `open_file`, and `UsageError` for a file of more than `LARGEST_FILE` bytes."""
    with open_file(path, folder=folder) as stream:
        content = stream.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise UsageError(f"{path} is larger than {LARGEST_FILE // 2**20} MiB: it is no such file")
    return content


def read_text(path: Path) -> str:
    """Read a whole file of UTF-8. Raises as `read_bytes`, and `UnicodeDecodeError`."""
    return read_bytes(path).decode()


def read_lines(path: Path, *, folder: Path | None = None) -> Iterator[bytes]:
    """Read a file line by line. Raises as `open_file`, and `UsageError` for a line beyond `LONGEST_LINE` bytes."""
    with open_file(path, folder=folder) as stream:
        number = 0
        while line := stream.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise UsageError(f"{path} line {number} is longer than {LONGEST_LINE // 2**20} MiB: it is no record")
            yield line
