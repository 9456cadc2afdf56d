"""Engines that are processes of their own and slow to start: an environment leases an engine and gives it back.

When a process forks, its engines stay the parent's and the child starts its own. All are ended at exit. Left out: what
an engine is (`java.py`, `miniwob/chromium.py`).
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar


class PooledProcess(Protocol):
    """A process that can be asked for as long as it is alive, by the process that started it."""

    @property
    def alive(self) -> bool: ...
    def close(self) -> None: ...
    def leave_to_parent(self) -> None: ...


E = TypeVar("E", bound=PooledProcess)


class Pool(Generic[E]):
    """Idle engines, and those on lease."""

    def __init__(self, start: Callable[[], E]) -> None:
        self._start = start
        # Reentrant: the garbage collector may end a lease while one is being given.
        self._lock = threading.RLock()
        self._idle: list[E] = []
        self._leased: dict[E, Callable[[], object]] = {}  # with what lets its holder be forgotten

    def lease(self, holder: object) -> E:
        """An idle engine that runs, or a new one. It comes back by `give_back`, or when its holder is forgotten.

        Raises what starting an engine raises.
        """
        with self._lock:
            while self._idle:
                engine = self._idle.pop()
                if engine.alive:
                    return self._lent(engine, holder)
                engine.close()
        engine = self._start()
        with self._lock:
            return self._lent(engine, holder)

    def _lent(self, engine: E, holder: object) -> E:
        self._leased[engine] = weakref.finalize(holder, self.give_back, engine).detach
        return engine

    def give_back(self, engine: E) -> None:
        """Put a leased engine back; one that is broken, or another process's, is dropped."""
        with self._lock:
            if engine in self._leased:
                self._leased.pop(engine)()
                if engine.alive:
                    self._idle.append(engine)
                else:
                    engine.close()

    @contextmanager
    def borrowed(self) -> Iterator[E]:
        """An engine for a moment."""
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
        """Forget all engines. Called in a process that was forked off, so that it keeps none of them running."""
        atexit.unregister(self.close)
        for engine in (*self._idle, *self._leased):
            engine.leave_to_parent()
        self._idle, self._leased, self._lock = [], {}, threading.RLock()


def pool_of_process(start: Callable[[], E], forget: Callable[[], None]) -> Pool[E]:
    """A pool that ends with this process. One that is forked off calls `forget` and gets its own."""
    made = Pool(start)
    atexit.register(made.close)

    def forked() -> None:
        made.leave_to_parent()
        forget()

    os.register_at_fork(after_in_child=forked)
    return made
