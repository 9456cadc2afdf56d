"""In-memory cache between episodes, with a limit in bytes for the whole process.

The least recently used entry is dropped first; an object in use stays alive. Thread-safe: two threads that need the
same object at once may both build it. Not here: caches on disk (`cache.py`).
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from align_echo.errors import UsageError

VARIABLE = "ALIGN_ECHO_GAME_MEMORY"
"""Environment variable with the limit in megabytes (10**6 bytes); 0 disables the cache."""

DEFAULT_MEGABYTES = 400
"""Room for the 134 games of a test split of ALFWorld, which grow to 1 to 2 MB each."""

Value = TypeVar("Value")


@dataclass
class _Entry:
    value: Any
    bytes: int


class MemoryCache:
    """Objects by key, with the size of each at its last use; `bound` is in bytes."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """Total size of the cached objects."""
        return self._bytes

    def __len__(self) -> int:
        """Count the cached objects."""
        return len(self._entries)

    def recall(self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """Return the object for a key, building it with `make` if it is not cached. `size` is called at every use,
        because an object may grow.

        Raises the errors of `make`.
        """
        with self._lock:
            entry = self._entries.get(key)
        if entry is None:
            entry = _Entry(make(), 0)
        value: Value = entry.value
        self._store(key, entry, size(value))
        return value

    def _store(self, key: Hashable, entry: _Entry, size: int) -> None:
        with self._lock:
            if (before := self._entries.pop(key, None)) is not None:
                self._bytes -= before.bytes
            entry.bytes = size
            self._entries[key] = entry
            self._bytes += size
            while self._bytes > self.bound and self._entries:
                _, dropped = self._entries.popitem(last=False)
                self._bytes -= dropped.bytes


def memory_bound() -> int:
    """Return the limit in bytes from `$ALIGN_ECHO_GAME_MEMORY`. Raises `UsageError` if it is no number of megabytes."""
    configured = os.environ.get(VARIABLE, "").strip()
    if not configured:
        return DEFAULT_MEGABYTES * 10**6
    if not configured.isdecimal() or len(configured) > 7:
        raise UsageError(f"${VARIABLE} is a whole number of megabytes, 0 or more, not {configured!r}")
    return int(configured) * 10**6


_memories: list[MemoryCache] = []


def memory() -> MemoryCache:
    """Return this process's cache; the variable is read on the first call. Raises `UsageError`."""
    if not _memories:
        _memories.append(MemoryCache(memory_bound()))
    return _memories[0]
