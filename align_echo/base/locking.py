"""Locks for run folders and files: one process at a time. A killed process leaves no lock, and no lock is a file.

A folder is locked itself (`flock`), by process: opening it again in the same process shares the lock. A file is locked
by its open descriptor while appending. Not supported: file systems without such locks (some network ones) and Windows,
where nothing is locked. The package filelock locks a file that it leaves behind; a run's
folder holds only the run's files.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from align_echo.errors import UsageError

_Key = tuple[int, int]

_lock = threading.RLock()
_locked: dict[_Key, tuple[int, int]] = {}
"""Locked folders by device and inode: file descriptor, and number of `FolderLock` objects."""


class FolderLock:
    """A folder locked against other processes, until closed or garbage-collected."""

    def __init__(self, path: Path) -> None:
        """Lock an existing folder. Raises `UsageError` if another process holds it."""
        self._key: _Key | None = None
        with _lock:
            descriptor = os.open(path, os.O_RDONLY)
            about = os.fstat(descriptor)
            key = about.st_dev, about.st_ino
            if key in _locked:
                os.close(descriptor)
                descriptor, count = _locked[key]
                _locked[key] = descriptor, count + 1
            else:
                _take(descriptor, path)
                _locked[key] = descriptor, 1
            self._key = key

    def close(self) -> None:
        """Release the lock. Safe to call twice."""
        with _lock:
            key, self._key = self._key, None
            if key is None:
                return
            descriptor, count = _locked.pop(key)
            if count > 1:
                _locked[key] = descriptor, count - 1
            else:
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def check_free(path: Path) -> None:
    """Raise `UsageError` if another process holds the folder. A missing folder is free."""
    if path.is_dir():
        FolderLock(path).close()


@contextmanager
def one_writer(descriptor: int) -> Iterator[None]:
    """Wait until nobody else holds the open file, in this process or another, and hold it during the block."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:  # a file system without locks
        yield
        return
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _take(descriptor: int, path: Path) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return
        os.close(descriptor)
        raise UsageError(
            f"another process is at work in {path}: wait until it has ended, or name another --out"
        ) from error
