"""Worker processes of the interpreter: one pool per process, started with the first episode and closed at exit.

A forked child cannot use its parent's pool, and must not even free references to it (this would end the parent's
sessions); this file ensures both. Not here: the code run in a worker (`session.py`).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import math
import os
import queue
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from align_echo.errors import EngineError, UsageError

if TYPE_CHECKING:
    import pydantic_monty

# ---------------------------------------------------------------- deadlines of sandbox processes

_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


class WorkerDeadline:
    """The time by which one worker process has to answer. Without a process id, nothing can be killed."""

    def __init__(self, process: int | None) -> None:
        self.process = process
        self.missed = False
        """True if the process was killed because it was late."""

    def end_process(self) -> None:
        """Kill the process. Its id cannot belong to another process yet: only the waiting request lets it be reaped."""
        self.missed = True
        if self.process is not None:
            with contextlib.suppress(OSError):
                os.kill(self.process, _KILL)


class DeadlineRunner:
    """A thread that sleeps until the next deadline and kills all overdue processes. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()  # reentrant: a finalizer may lock it again in this thread
        self._moments: dict[WorkerDeadline, float] = {}
        self._wakes = math.inf
        self._thread: threading.Thread | None = None

    def set(self, deadline: WorkerDeadline, seconds: float) -> None:
        """Kill the deadline's process after these seconds, unless it is lifted before."""
        moment = self._clock() + seconds
        with self._changed:
            self._moments[deadline] = moment
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sandbox deadlines", daemon=True)
                self._thread.start()
            if moment < self._wakes:
                self._changed.notify()

    def lift(self, deadline: WorkerDeadline) -> None:
        """Cancel a deadline. `missed` does not change after this."""
        with self._changed:
            self._moments.pop(deadline, None)

    def _run(self) -> None:
        with self._changed:
            while True:
                current_time = self._clock()
                for deadline, moment in list(self._moments.items()):
                    if moment <= current_time:
                        self._moments.pop(deadline, None)
                        deadline.end_process()
                self._wakes = min(list(self._moments.values()), default=math.inf)
                self._changed.wait(None if self._wakes == math.inf else max(self._wakes - current_time, 0.0))


# ---------------------------------------------------------------- stop pydantic-monty's vain searches

_NAME = "opentelemetry"


class _Thread(threading.local):
    """`inside`: this thread is running the interpreter."""

    inside = False


thread = _Thread()


class AbsentModule:
    """A finder that ends the search for the module before it begins."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return None for every other search. Raises `ModuleNotFoundError`."""
        if name == _NAME and thread.inside:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def stop_vain_searches() -> None:
    """Install the finder, unless the module is installed."""
    if importlib.util.find_spec(_NAME) is None and not any(isinstance(each, AbsentModule) for each in sys.meta_path):
        sys.meta_path.insert(0, AbsentModule())


# ---------------------------------------------------------------- worker processes of the interpreter

MAX_WORKERS = 256
"""Maximum open sessions of a process; each holds a worker process of 6 to 20 MB."""

START = 30.0
"""Seconds for a worker to start, and for a session outside of a turn to wait if all workers are busy."""

_NEXT_TRY = 2.0
_FAREWELL = 0.5
_OWN_SHARE = 0.9
_SUSPENSIONS = 1_000_000


class SandboxWorker:
    """A worker process checked out for one session; returned by `close`, at the latest on garbage collection.

    Its clock stands still and its random numbers are seeded, so that episodes are reproducible. `waiting` is the
    request at which its code waits for the next turn.
    """

    def __init__(self, seconds: float, memory: int, patience: float = START) -> None:
        """Check out a worker, waiting up to `patience` seconds for it.

        Limits are the seconds of a turn and heap bytes. The interpreter stops slightly before the first, since it
        knows the line.

        Raises `EngineError` if no worker is available and `UsageError` in a forked process (see `_shared_pool`).
        """
        self.session: pydantic_monty.MontySession | None = None
        self.waiting: pydantic_monty.FunctionSnapshot | None = None
        limits: pydantic_monty.ResourceLimits = {
            "max_memory": memory,
            "max_turn_duration_secs": _OWN_SHARE * seconds,
            "max_suspensions": _SUSPENSIONS,
        }
        self.session = _Search(_shared_pool(), limits).session(patience)
        self._deadline = WorkerDeadline(self.session.worker_pid)
        _workers.add(self)

    @property
    def late(self) -> bool:
        """True if the process was killed because it did not answer in time."""
        return self._deadline.missed

    def expect_answer(self, seconds: float) -> None:
        """Kill the process unless `answered` is called within these seconds."""
        _watch.set(self._deadline, seconds)

    def answered(self) -> None:
        """Cancel the deadline until the next `expect_answer`."""
        _watch.lift(self._deadline)

    def close(self, seconds: float = _FAREWELL) -> None:
        """Return the worker, or kill it if it does not answer within these seconds. Safe to call twice."""
        session, self.session, self.waiting = self.session, None, None
        if session is not None:
            self.expect_answer(min(seconds, _FAREWELL))
            try:
                session.__exit__(None, None, None)
            finally:
                self.answered()

    def __del__(self) -> None:
        self.close()


class _Search:
    """Search for a worker in separate threads, since a stopped worker may never answer.

    A second attempt follows if the first fails or is slow: an idle worker may be dead or stopped, a new one is not. A
    worker that comes too late is returned.
    """

    def __init__(self, pool: pydantic_monty.Monty, limits: pydantic_monty.ResourceLimits) -> None:
        self._pool = pool
        self._limits = limits
        self._answers: queue.SimpleQueue[pydantic_monty.MontySession | Exception] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._over = False

    def session(self, seconds: float) -> pydantic_monty.MontySession:
        """Return the first session available within these seconds. Raises `EngineError`."""
        first = min(seconds / 2, _NEXT_TRY)
        problem = f"none answered within {seconds:.3g} s"
        try:
            for wait in (first, seconds - first):
                threading.Thread(target=self._try, name="sandbox start", daemon=True).start()
                answer = self._answer(wait)
                if isinstance(answer, Exception):
                    problem = str(answer)
                elif answer is not None:
                    return answer
        finally:
            with self._lock:
                self._over = True
        answer = self._answer(0.0)
        if answer is None or isinstance(answer, Exception):
            raise EngineError(f"no sandbox worker can be had: {problem}")
        return answer

    def _answer(self, seconds: float) -> pydantic_monty.MontySession | Exception | None:
        try:
            return self._answers.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return None

    def _try(self) -> None:
        import pydantic_monty

        try:
            session = self._pool.checkout(
                limits=self._limits,
                os_policy={"datetime": datetime(2000, 1, 1), "sleep": "zero", "random_start": {"seed": 0}},
            ).__enter__()
        except (OSError, TimeoutError, RuntimeError, pydantic_monty.MontyError) as error:
            self._answers.put(error)
            return
        with self._lock:
            late, self._over = self._over, True
            if not late:
                self._answers.put(session)
        if late:
            session.__exit__(None, None, None)


_pool: pydantic_monty.Monty | None = None
_lock = threading.Lock()
_watch = DeadlineRunner()
_forked = False
_workers: weakref.WeakSet[SandboxWorker] = weakref.WeakSet()


def _shared_pool() -> pydantic_monty.Monty:
    """Return the process's pool, started by the first call. Raises `UsageError` in a process forked after that."""
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
                pool = pydantic_monty.Monty(max_processes=MAX_WORKERS, checkout_timeout=START, request_timeout=START)
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
    """Drop all references to the parent's workers in a forked child, without freeing them."""
    global _pool, _lock, _watch, _forked
    _lock = threading.Lock()
    _watch = DeadlineRunner()
    for worker in list(_workers):
        _never_free(worker.waiting)
        _never_free(worker.session)
        worker.session = worker.waiting = None
    _never_free(_pool)
    _pool = None
    _forked = True


def _never_free(value: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
