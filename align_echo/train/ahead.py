"""The next harvest is played while the trainer learns from the one before: on a thread, with the weights of before.

The engines that play have weights of their own, which nobody publishes meanwhile, so that learning and playing share
nothing but the machine. What is played so is one harvest stale; the loss corrects for it (`objective.stale_weights`).
Left out: harvests that are more than one behind, and partial ones.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

from align_echo.halting import Halt, under, wait_for_result
from align_echo.train.rows import Harvest


@dataclass(frozen=True)
class _UnderWay:
    number: int
    steps: int
    halt: Halt
    future: Future[Harvest]


class Ahead:
    """At most one harvest of `play`, by its number, on a thread of its own."""

    def __init__(self, play: Callable[[int], Harvest]) -> None:
        self._play = play
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="next-harvest")
        self._next: _UnderWay | None = None

    def begin(self, number: int, steps: int) -> None:
        """Play this harvest from now on. The engines hold the weights that so many steps made, and keep them until it
        is taken.
        """
        halt = Halt()
        with under(halt):
            future = self._threads.submit(copy_context().run, self._play, number)
        self._next = _UnderWay(number, steps, halt, future)

    def settle(self) -> None:
        """Wait until the harvest under way, if any, needs the engines no more."""
        if self._next is not None:
            self._next.future.exception()

    def take(self, number: int) -> tuple[Harvest, int] | None:
        """The harvest of this number, and how many steps had made the weights that played it; None if it was not begun.

        Waits for its end, and raises what it raised.
        """
        begun = self._next
        if begun is None or begun.number != number:
            return None
        harvest = wait_for_result(begun.future)
        self._next = None
        return harvest, begun.steps

    def close(self) -> None:
        """Give up what is under way, and wait for its threads to see it."""
        if self._next is not None:
            self._next.halt.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
