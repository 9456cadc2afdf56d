"""One process at a time works in a run's folder or appends to a file. A killed process leaves no lock behind, and no
lock is a file.

A folder itself is locked (`flock`), by its process: whoever opens the same folder again in the same process shares
the lock. A file is locked by whoever has it open, for as long as it takes to append to it. Left out: file systems
without such locks (some network ones) and Windows, where nothing is locked.
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
_held: dict[_Key, tuple[int, int]] = {}
"""Device and inode of each folder that this process holds: its file descriptor, and how many hold it."""


class FolderLock:
    """A folder that no other process may work in, until this is closed or forgotten."""

    def __init__(self, path: Path) -> None:
        """The folder must exist. Raises `UsageError` if another process holds it."""
        self._key: _Key | None = None
        with _lock:
            descriptor = os.open(path, os.O_RDONLY)
            about = os.fstat(descriptor)
            key = about.st_dev, about.st_ino
            if key in _held:
                os.close(descriptor)
                descriptor, count = _held[key]
                _held[key] = descriptor, count + 1
            else:
                _take(descriptor, path)
                _held[key] = descriptor, 1
            self._key = key

    def close(self) -> None:
        """Let others in. Safe to call twice."""
        with _lock:
            key, self._key = self._key, None
            if key is None:
                return
            descriptor, count = _held.pop(key)
            if count > 1:
                _held[key] = descriptor, count - 1
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
    """Raises `UsageError` if another process holds the folder. One that is not there is free."""
    if path.is_dir():
        FolderLock(path).close()


@contextmanager
def one_writer(descriptor: int) -> Iterator[None]:
    """Wait until nobody else holds the open file, in this process or another, and hold it while the block runs."""
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
