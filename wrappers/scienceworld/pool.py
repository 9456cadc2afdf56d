"""The simulators of this process: an environment leases one and gives it back, so that Java starts seldom.

A process that forks leaves its simulators to the parent: the child starts its own. All are ended at exit.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from align_echo.wrappers.scienceworld.jvm import Simulator


class Pool:
    """Idle simulators, and those on lease."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Simulator] = []
        self._leased: list[Simulator] = []

    def lease(self) -> Simulator:
        """An idle simulator that runs, or a new one. Raises `MissingExtraError`, `EngineError`."""
        with self._lock:
            while self._idle:
                simulator = self._idle.pop()
                if simulator.alive:
                    self._leased.append(simulator)
                    return simulator
                simulator.close()
        simulator = Simulator()
        with self._lock:
            self._leased.append(simulator)
        return simulator

    def give_back(self, simulator: Simulator) -> None:
        """Put a leased simulator back; one that is broken, or another process's, is dropped."""
        with self._lock:
            if simulator in self._leased:
                self._leased.remove(simulator)
                if simulator.alive:
                    self._idle.append(simulator)
                else:
                    simulator.close()

    @contextmanager
    def borrowed(self) -> Iterator[Simulator]:
        """A simulator for a moment."""
        simulator = self.lease()
        try:
            yield simulator
        finally:
            self.give_back(simulator)

    def close(self) -> None:
        """End all of this process's simulators."""
        with self._lock:
            known, self._idle, self._leased = self._idle + self._leased, [], []
        for simulator in known:
            simulator.close()

    def leave_to_parent(self) -> None:
        """In a process that was forked off: forget all, and keep none of them running."""
        atexit.unregister(self.close)
        for simulator in self._idle + self._leased:
            simulator.leave_to_parent()
        self._idle, self._leased, self._lock = [], [], threading.Lock()


@functools.cache
def pool() -> Pool:
    """This process's pool."""
    made = Pool()
    atexit.register(made.close)

    def forked() -> None:
        made.leave_to_parent()
        pool.cache_clear()

    os.register_at_fork(after_in_child=forked)
    return made
