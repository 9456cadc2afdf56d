"""How a verb tells what it is doing while it works: to a terminal, a log, or nobody.

`display.py` shows it. Left out: results, which a verb returns, and what is kept on disk.
"""

from __future__ import annotations

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
