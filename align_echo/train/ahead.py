"""Play the next batch on a thread while the trainer learns from the current one.

The engines hold their own copy of the weights, and nobody publishes new ones meanwhile, so playing and learning share
only the machine. A batch played ahead is one batch stale; the loss corrects for it (`objective.stale_weights`). Not
here: batches more than one behind, and partial batches.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

from align_echo.halting import Halt, under, wait_for_result
from align_echo.train.rows import RolloutBatch


@dataclass(frozen=True)
class _UnderWay:
    number: int
    steps: int
    halt: Halt
    future: Future[RolloutBatch]


class AheadWorker:
    """A thread that plays at most one batch ahead. `play` plays a batch by its number."""

    def __init__(self, play: Callable[[int], RolloutBatch]) -> None:
        self._play = play
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="next-batch")
        self._next: _UnderWay | None = None

    def begin(self, number: int, steps: int) -> None:
        """Start playing a batch. The engines hold the weights after `steps` steps, and keep them until `take`."""
        halt = Halt()
        with under(halt):
            future = self._threads.submit(copy_context().run, self._play, number)
        self._next = _UnderWay(number, steps, halt, future)

    def settle(self) -> None:
        """Wait until a batch under way no longer needs the engines."""
        if self._next is not None:
            self._next.future.exception()

    def take(self, number: int) -> tuple[RolloutBatch, int] | None:
        """Return a batch and the number of steps behind the weights that played it; None if it was never begun.

        Waits for the batch and raises its errors.
        """
        under_way = self._next
        if under_way is None or under_way.number != number:
            return None
        batch = wait_for_result(under_way.future)
        self._next = None
        return batch, under_way.steps

    def close(self) -> None:
        """Stop the batch under way and wait for its threads to end."""
        if self._next is not None:
            self._next.halt.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
