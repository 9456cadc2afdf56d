"""Report what a command is doing: to a terminal, a log, or nobody.

`rollout/display.py` shows it. Notices of lower layers about waits and memory (`network.LOGGER`) are printed from here
too. Not here: results, returned by the command, and files.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from align_echo.base.network import LOGGER
from align_echo.errors import printable
from align_echo.types import Fault


class Spent(Protocol):
    """What a run has spent so far, in words for a line of progress and for the end; "" for nothing."""

    @property
    def in_short(self) -> str: ...

    @property
    def in_full(self) -> str: ...


class Progress:
    """Receiver of a run's progress. Methods are called by one thread at a time; this class ignores them."""

    def stage(self, title: str, total: int, done: int = 0) -> None:
        """Begin a stage of `total` episodes, `done` of them finished earlier."""

    def episode(self, won: bool | None) -> None:
        """Count a finished episode of the stage; `won` is None for one that ended in a fault."""

    def broke(self, task_id: str, fault: Fault) -> None:
        """Count an episode that ended in a fault."""

    def status(self, text: str) -> None:
        """Show the current activity; "kind: 3 of 12" if counted."""

    def say(self, text: str) -> None:
        """Print a permanent line."""

    def watch(self, spent: Spent) -> None:
        """Show what is spent with the progress and at the end."""


SILENT = Progress()


class _Notices(logging.Handler):
    """Prints each message as one line on standard error, without terminal control characters."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"align-echo: {' '.join(printable(record.getMessage()).split())}", file=sys.stderr, flush=True)


@contextmanager
def printed_notices() -> Iterator[None]:
    """Print the library's notices during the block, regardless of the logging setup."""
    handler, passed_on, level = _Notices(), LOGGER.propagate, LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.propagate = False
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.propagate = passed_on
        LOGGER.setLevel(level)
        LOGGER.removeHandler(handler)
