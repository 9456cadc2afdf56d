"""Kill worker processes that do not answer in time, whatever blocks them: a loop, a stop signal, swapped memory.

The interpreter checks its own clock, which helps only while it runs. So a thread of this process watches the clock
too, and kills a worker at its deadline. The request that waits for that worker then fails at once.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable

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
