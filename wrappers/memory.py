"""What is kept in memory from one episode to the next: at most so many bytes in this process, whatever it is.

What was used least recently is dropped first; whoever still plays with it keeps it alive until then. Thread-safe: two
threads that need the same thing at once may both make it. Left out: what is kept on disk (`cache.py`).
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
"""Names the bound in megabytes (10**6 bytes); 0 keeps nothing."""

DEFAULT_MEGABYTES = 400
"""Room for the 134 games of a test split of ALFWorld, which take 1 to 2 MB each once they were played for long."""

Thing = TypeVar("Thing")


@dataclass
class _Entry:
    thing: Any
    bytes: int


class Memory:
    """Things by their keys, and how large each was when it was last used; `bound` is in bytes."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """The size of all that is kept."""
        return self._bytes

    def __len__(self) -> int:
        """How many things are kept."""
        return len(self._entries)

    def recall(self, key: Hashable, make: Callable[[], Thing], size: Callable[[Thing], int]) -> Thing:
        """The thing of a key, which is made if it is not kept. `size` is asked at every use: a thing may grow.

        Raises what `make` raises.
        """
        with self._lock:
            entry = self._entries.get(key)
        if entry is None:
            entry = _Entry(make(), 0)
        thing: Thing = entry.thing
        self._keep(key, entry, size(thing))
        return thing

    def _keep(self, key: Hashable, entry: _Entry, size: int) -> None:
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
    """Bytes that `$ALIGN_ECHO_GAME_MEMORY` allows. Raises `UsageError` for what is no number of megabytes."""
    given = os.environ.get(VARIABLE, "").strip()
    if not given:
        return DEFAULT_MEGABYTES * 10**6
    if not given.isdecimal() or len(given) > 7:
        raise UsageError(f"${VARIABLE} is a whole number of megabytes, 0 or more, not {given!r}")
    return int(given) * 10**6


_memories: list[Memory] = []


def memory() -> Memory:
    """That of this process; the variable is read when it is first asked for. Raises `UsageError`."""
    if not _memories:
        _memories.append(Memory(memory_bound()))
    return _memories[0]
