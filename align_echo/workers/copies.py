"""Work in forked copies of this process: each begins with all that this one holds, and ends with its answer.

For pure computing on large structures that nobody would send to another process: only answers travel. A copy must not
use what it shares with this process: open connections, devices, threads.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Generic, TypeVar

from align_echo.errors import EngineError

Answer = TypeVar("Answer")


def usable_cores() -> int:
    """How many cores forked copies can use; 1 where processes are not forked: other systems than Linux, and processes
    that may have no children."""
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        return 1
    return len(os.sched_getaffinity(0))


@dataclass
class _Copy(Generic[Answer]):
    """One copy at work; `process` None for work that was done here. `answer` holds what came of it, once it ended."""

    process: ForkProcess | None
    ear: Connection | None
    answer: list[Answer]


class Copies(Generic[Answer]):
    """At most `count` copies at a time. Answers come in the order in which the work was given. `with` ends the copies
    that are still at work."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._given: list[_Copy[Answer]] = []

    def __enter__(self) -> Copies[Answer]:
        return self

    def __exit__(self, *error: object) -> None:
        for copy in self._given:
            if copy.process is not None and copy.ear is not None:
                copy.process.kill()
                copy.process.join()
                copy.ear.close()

    def give(self, work: Callable[[], Answer]) -> None:
        """Have work done by a copy, once fewer than `count` are at work. Raises what a copy raised."""
        while len(self._at_work()) >= self._count:
            self._listen()
        ear, mouth = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=_work, args=(work, ear, mouth), daemon=True)
        with warnings.catch_warnings():
            # Python warns of forks beside other threads: a copy uses nothing that one of them may hold locked.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        mouth.close()
        self._given.append(_Copy(process, ear, []))

    def keep(self, answer: Answer) -> None:
        """Take in the answer to work that was done here, in its turn."""
        self._given.append(_Copy(None, None, [answer]))

    def answers(self) -> Iterator[tuple[Answer, bool]]:
        """All answers, each with whether a copy gave it. Raises what a copy raised, `EngineError` for one that ended
        without an answer."""
        while self._at_work():
            self._listen()
        return ((copy.answer[0], copy.process is not None) for copy in self._given)

    def _at_work(self) -> dict[Connection, _Copy[Answer]]:
        return {copy.ear: copy for copy in self._given if copy.ear is not None}

    def _listen(self) -> None:
        """Take in the answers of copies that have one, waiting for the first."""
        at_work = self._at_work()
        for ear in wait(list(at_work)):
            assert isinstance(ear, Connection)
            copy = at_work[ear]
            assert copy.process is not None
            try:
                answer, error = ear.recv()
            except EOFError:
                copy.process.join()
                ended = f"a copy of this process ended with status {copy.process.exitcode} and no answer"
                raise EngineError(ended) from None
            copy.process.join()
            ear.close()
            copy.ear = None
            if error is not None:
                raise error
            copy.answer.append(answer)


def _work(work: Callable[[], Answer], ear: Connection, mouth: Connection) -> None:
    """What a copy does. Ctrl-C is the first process's business, which ends its copies."""
    ear.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # going through what was there before would copy its memory
    told: tuple[Answer | None, Exception | None]
    try:
        told = work(), None
    except Exception as error:
        told = None, error
    mouth.send(told)
