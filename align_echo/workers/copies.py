"""Run work in forked copies of this process. Each copy starts with this process's memory and returns one answer.

For pure computation on large structures that would be expensive to send to another process: only answers are sent. A
copy must not use what it shares with this process: open connections, devices, threads.
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
    """Return the number of cores that forked copies can use.

    1 if processes are not forked: on systems other than Linux, and in processes that may have no children.
    """
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        return 1
    return len(os.sched_getaffinity(0))


@dataclass
class _Copy(Generic[Answer]):
    """One running copy, or work done in this process (`process` None). `answer` holds the result after the copy ended.
    """

    process: ForkProcess | None
    ear: Connection | None
    answer: list[Answer]


class ForkPool(Generic[Answer]):
    """At most `count` copies at a time. Answers come in the order in which work was submitted. `with` kills running
    copies.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._given: list[_Copy[Answer]] = []

    def __enter__(self) -> ForkPool[Answer]:
        return self

    def __exit__(self, *error: object) -> None:
        for copy in self._given:
            if copy.process is not None and copy.ear is not None:
                copy.process.kill()
                copy.process.join()
                copy.ear.close()

    def give(self, work: Callable[[], Answer]) -> None:
        """Submit work to a new copy, as soon as fewer than `count` are running. Raises the exception of a failed copy.
        """
        while len(self._at_work()) >= self._count:
            self._listen()
        ear, mouth = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=_work, args=(work, ear, mouth), daemon=True)
        with warnings.catch_warnings():
            # Python warns about forks beside other threads. A copy uses no lock that another thread may hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        mouth.close()
        self._given.append(_Copy(process, ear, []))

    def keep(self, answer: Answer) -> None:
        """Add an answer computed in this process, in its turn."""
        self._given.append(_Copy(None, None, [answer]))

    def answers(self) -> Iterator[tuple[Answer, bool]]:
        """Return all answers, each with a flag: True if a copy computed it.

        Raises the exception of a failed copy, and `EngineError` for a copy that ended without an answer.
        """
        while self._at_work():
            self._listen()
        return ((copy.answer[0], copy.process is not None) for copy in self._given)

    def _at_work(self) -> dict[Connection, _Copy[Answer]]:
        return {copy.ear: copy for copy in self._given if copy.ear is not None}

    def _listen(self) -> None:
        """Read the answers of the copies that have finished; wait for the first."""
        at_work = self._at_work()
        for ear in wait(list(at_work)):
            assert isinstance(ear, Connection)
            copy = at_work[ear]
            assert copy.process is not None
            try:
                answer, error = ear.recv()
            except EOFError:
                copy.process.join()
                message = f"a copy of this process ended with status {copy.process.exitcode} and no answer"
                raise EngineError(message) from None
            copy.process.join()
            ear.close()
            copy.ear = None
            if error is not None:
                raise error
            copy.answer.append(answer)


def _work(work: Callable[[], Answer], ear: Connection, mouth: Connection) -> None:
    """Run the work of a copy and send its answer. Ignore Ctrl-C: the parent process handles it and ends its copies."""
    ear.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # collecting the parent's objects would copy their memory
    outcome: tuple[Answer | None, Exception | None]
    try:
        outcome = work(), None
    except Exception as error:
        outcome = None, error
    mouth.send(outcome)
