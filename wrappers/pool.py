"""Pool of engine processes that are slow to start: an environment leases an engine and gives it back.

After a fork, engines stay with the parent and the child starts its own. All engines end at exit. The engines themselves
are in `java.py` and `miniwob/chromium.py`.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from align_echo.errors import UsageError


class PooledProcess(Protocol):
    """Process that answers while it is alive, to the process that started it."""

    @property
    def alive(self) -> bool: ...
    def close(self) -> None: ...
    def leave_to_parent(self) -> None: ...


E = TypeVar("E", bound=PooledProcess)


class EnginePool(Generic[E]):
    """Idle engines, and those on lease."""

    def __init__(self, start: Callable[[], E]) -> None:
        self._start = start
        # Reentrant: the garbage collector may end a lease while another is being granted.
        self._lock = threading.RLock()
        self._idle: list[E] = []
        self._leased: dict[E, Callable[[], object]] = {}  # value: detaches the finalizer of the holder

    def lease(self, holder: object) -> E:
        """Return an idle running engine, or a new one. It comes back by `give_back`, or when its holder is
        garbage-collected.

        Raises the errors of starting an engine.
        """
        with self._lock:
            while self._idle:
                engine = self._idle.pop()
                if engine.alive:
                    return self._record_lease(engine, holder)
                engine.close()
        engine = self._start()
        with self._lock:
            return self._record_lease(engine, holder)

    def _record_lease(self, engine: E, holder: object) -> E:
        self._leased[engine] = weakref.finalize(holder, self.give_back, engine).detach
        return engine

    def give_back(self, engine: E) -> None:
        """Put a leased engine back; an engine that is broken, or another process's, is dropped."""
        with self._lock:
            if engine in self._leased:
                self._leased.pop(engine)()
                if engine.alive:
                    self._idle.append(engine)
                else:
                    engine.close()

    @contextmanager
    def borrowed(self) -> Iterator[E]:
        """Lease an engine for the duration of a `with` block."""
        engine = self.lease(self)
        try:
            yield engine
        finally:
            self.give_back(engine)

    def close(self) -> None:
        """End all of this process's engines."""
        with self._lock:
            engines, self._idle, self._leased = [*self._idle, *self._leased], [], {}
        for engine in engines:
            engine.close()

    def leave_to_parent(self) -> None:
        """Forget all engines. Call it in a forked child, so that the child keeps none of them running."""
        atexit.unregister(self.close)
        for engine in (*self._idle, *self._leased):
            engine.leave_to_parent()
        self._idle, self._leased, self._lock = [], {}, threading.RLock()


def make_process_pool(start: Callable[[], E], forget: Callable[[], None]) -> EnginePool[E]:
    """Make a pool that ends with this process. A forked child calls `forget` and gets its own."""
    pool = EnginePool(start)
    atexit.register(pool.close)

    def forked() -> None:
        pool.leave_to_parent()
        forget()

    os.register_at_fork(after_in_child=forked)
    return pool


# ---------------------------------------------------------------- memory

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
