"""How a verb tells what it is doing while it works: to a terminal, a log, or nobody.

`display.py` shows it. Lines of the layers below about waits (`network.LOGGER`) are printed from here too. Left out:
results, which a verb returns, and what is kept on disk.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from align_echo.network import LOGGER
from align_echo.sandbox.session import printable
from align_echo.types import Fault


class Progress:
    """What is told of a run as it goes on. A verb calls these in one thread at a time; here nobody listens."""

    def stage(self, title: str, total: int, done: int = 0) -> None:
        """A stage of `total` episodes begins, of which `done` were finished earlier."""

    def episode(self, won: bool) -> None:
        """One more episode of the stage has ended."""

    def broke(self, task_id: str, fault: Fault) -> None:
        """An episode has ended in a fault."""

    def status(self, text: str) -> None:
        """What is being done right now; "kind: 3 of 12" where it is counted."""

    def say(self, text: str) -> None:
        """A line that stays."""


SILENT = Progress()


class _Notices(logging.Handler):
    """Prints each message as one line of standard error, without anything that steers a terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"align-echo: {' '.join(printable(record.getMessage()).split())}", file=sys.stderr, flush=True)


@contextmanager
def printed_notices() -> Iterator[None]:
    """Print what the library says of its work while the block runs, however logging is set up."""
    handler, passed_on = _Notices(), LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.propagate = passed_on
        LOGGER.removeHandler(handler)
