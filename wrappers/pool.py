"""Pool of engine processes that are slow to start: an environment leases an engine and gives it back.

After a fork, engines stay with the parent and the child starts its own. All engines end at exit. The engines themselves
are in `java.py` and `miniwob/chromium.py`.
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
