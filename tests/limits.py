"""A bound on work that would otherwise never end, far above what the work takes on any machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cpu_seconds(limit: float) -> Iterator[None]:
    """Fail the test if this block takes more CPU seconds of the process than `limit`. For the main thread.

    For text of which a reader that is not linear would take minutes: the limit tells that from a reader that is, and
    hangs neither on the machine's speed nor on its load.
    """

    def give_up(number: int, frame: object) -> None:
        raise AssertionError(f"not done after {limit:g} CPU seconds")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
