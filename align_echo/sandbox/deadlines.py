"""Ends worker processes that do not answer in time, whatever keeps them: a loop, a stop signal, swapped memory.

The interpreter watches its own clock, which helps only while it runs. So a thread of this process watches the clock
too, and kills a worker whose moment has come. The request that waits for that worker then fails at once.
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


class Deadline:
    """The moment by which one worker process has to answer. Without a process id nothing can be ended."""

    def __init__(self, process: int | None) -> None:
        self.process = process
        self.missed = False
        """Whether the process was ended because it was late."""

    def end_process(self) -> None:
        """Kill the process. It cannot be another one by now: only who waits for an answer of it lets it be reaped."""
        self.missed = True
        if self.process is not None:
            with contextlib.suppress(OSError):
                os.kill(self.process, _KILL)


class Watch:
    """A thread that sleeps until the first deadline, and ends the processes of all that are over. Safe to share."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()  # of a lock that a finalizer may take once more in the same thread
        self._moments: dict[Deadline, float] = {}
        self._wakes = math.inf
        self._thread: threading.Thread | None = None

    def set(self, deadline: Deadline, seconds: float) -> None:
        """End the deadline's process after these seconds, unless it is lifted before."""
        moment = self._clock() + seconds
        with self._changed:
            self._moments[deadline] = moment
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sandbox deadlines", daemon=True)
                self._thread.start()
            if moment < self._wakes:
                self._changed.notify()

    def lift(self, deadline: Deadline) -> None:
        """Leave the process alone. From now on `missed` stays what it is."""
        with self._changed:
            self._moments.pop(deadline, None)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = self._clock()
                for deadline, moment in list(self._moments.items()):
                    if moment <= now:
                        self._moments.pop(deadline, None)
                        deadline.end_process()
                self._wakes = min(list(self._moments.values()), default=math.inf)
                self._changed.wait(None if self._wakes == math.inf else max(self._wakes - now, 0.0))
