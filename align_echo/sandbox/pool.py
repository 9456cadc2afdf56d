"""The interpreter's worker processes: one pool a process, started with the first episode and closed at exit.

A forked child cannot use its parent's pool, and must not even free what refers to it (that would end the parent's
sessions); this file sees to that. What runs in a worker is the business of `sandbox.py`.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from datetime import datetime
from typing import TYPE_CHECKING, Any

from align_echo.errors import EngineError, UsageError
from align_echo.sandbox.telemetry import stop_vain_searches

if TYPE_CHECKING:
    import pydantic_monty

MAX_WORKERS = 256
"""Sessions that can be open at once in a process; each holds a worker process of 6 to 20 MB."""

_PATIENCE = 30.0
_SUSPENSIONS = 1_000_000


class Worker:
    """A worker process checked out for one session; given back by `close`, at the latest when this is forgotten.

    Its clock stands still and its random numbers are seeded, so that an episode can be repeated. `waiting` is the
    request that its code stopped at, where it waits for the next turn.
    """

    def __init__(self, seconds: float, memory: int) -> None:
        """Limits are execution time between two requests to this process, and heap bytes.

        Raises `EngineError` if no worker can be had and `UsageError` in a forked process (see `_shared_pool`).
        """
        self.session: pydantic_monty.MontySession | None = None
        self.waiting: pydantic_monty.FunctionSnapshot | None = None
        checkout = _shared_pool().checkout(
            limits={"max_memory": memory, "max_turn_duration_secs": seconds, "max_suspensions": _SUSPENSIONS},
            os_policy={"datetime": datetime(2000, 1, 1), "sleep": "zero", "random_start": {"seed": 0}},
        )
        try:
            self.session = checkout.__enter__()
        except (OSError, TimeoutError, RuntimeError) as error:
            raise EngineError(f"no sandbox worker can be had: {error}") from error
        _workers.add(self)

    def close(self) -> None:
        """Give the worker back. Safe to call twice."""
        session, self.session, self.waiting = self.session, None, None
        if session is not None:
            session.__exit__(None, None, None)

    def __del__(self) -> None:
        self.close()


_pool: pydantic_monty.Monty | None = None
_lock = threading.Lock()
_forked = False
_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


def _shared_pool() -> pydantic_monty.Monty:
    """The process's pool, started by the first call. Raises `UsageError` in a process forked after that."""
    import pydantic_monty

    global _pool
    with _lock:
        if _forked:
            raise UsageError(
                "interfaces were already used before this process was forked, and their workers cannot be shared: "
                "start processes with multiprocessing's 'spawn' or 'forkserver' method"
            )
        if _pool is None:
            stop_vain_searches()
            try:
                pool = pydantic_monty.Monty(
                    max_processes=MAX_WORKERS, checkout_timeout=_PATIENCE, request_timeout=_PATIENCE
                )
                _pool = pool.__enter__()
            except (OSError, RuntimeError) as error:
                raise EngineError(f"the interface sandbox does not start: {error}") from error
            atexit.register(_close_pool)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_abandon_pool)
        return _pool


def _close_pool() -> None:
    global _pool
    if _pool is not None:
        for worker in list(_workers):
            worker.close()
        _pool.__exit__(None, None, None)
        _pool = None


def _abandon_pool() -> None:
    """In a forked child: leave the parent's workers alone for good."""
    global _pool, _lock, _forked
    _lock = threading.Lock()
    for worker in list(_workers):
        _never_free(worker.waiting)
        _never_free(worker.session)
        worker.session = worker.waiting = None
    _never_free(_pool)
    _pool = None
    _forked = True


def _never_free(value: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
