"""Progress as somebody sees it who waits: live counts on a terminal, plain lines elsewhere, on standard error.

Left out: results, which go to standard output (the command line).
"""

from __future__ import annotations

import sys
from collections import Counter
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from align_echo.faults import BROKE, fault_text
from align_echo.grammar import quantity
from align_echo.progress import Progress
from align_echo.terminal import PlainConsole, in_one_line
from align_echo.types import Fault

LINES_PER_STAGE = 4


def note(line: str) -> None:
    """One line of comment on what goes on."""
    print(in_one_line(line), file=sys.stderr, flush=True)


class Display(Progress):
    """Progress of a run. On a terminal one line that moves; elsewhere a few plain lines a stage. `opening`, if any, is
    said before all else, and not of a run that is refused.
    """

    def __init__(self, opening: str = "") -> None:
        self._opening = opening
        self._console = PlainConsole(stderr=True)
        title, status = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[status]}"))
        columns = (title, BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), status)
        self._live = Bars(*columns, console=self._console, transient=True)
        self._bar: TaskID | None = None
        self._title = ""
        self._kind = ""
        self._done = 0
        self._total = 0
        self._won = 0
        self._broken: Counter[str] = Counter()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()
        if error is None and self._broken["agent"]:
            count = self._broken["agent"]
            where = quantity(count, "episode")
            note(f"{BROKE['agent']} in {where}, without a score: the trajectories hold the tracebacks")

    def stage(self, title: str, total: int, done: int = 0) -> None:
        """Begin a stage of `total` episodes, of which `done` were finished earlier."""
        self._open()
        self._title, self._total, self._done, self._won = title, total, done, 0
        if not self._console.is_terminal:
            note(f"{title}: {quantity(total, 'episode')}" + (f", {done} of them finished earlier" if done else ""))
            return
        if self._bar is not None:
            self._live.remove_task(self._bar)
        self._bar = self._live.add_task(title, total=total, completed=done, status="")

    def episode(self, won: bool) -> None:
        """One more episode has ended."""
        self._done += 1
        self._won += won
        if self._bar is not None:
            self._live.update(self._bar, completed=self._done, status=f"won {self._won}")
        elif self._done == self._total or self._done % max(1, self._total // LINES_PER_STAGE) == 0:
            note(f"{self._title}: {self._done}/{self._total}, won {self._won}")

    def broke(self, task_id: str, fault: Fault) -> None:
        """An episode has ended in a fault. The first by each source is told at once, later ones are counted."""
        if fault.source not in self._broken:
            self.say(f"{task_id}: {fault_text(fault)}; the episode has no score")
        self._broken.update([fault.source])

    @property
    def agent_broke(self) -> bool:
        """Whether the agent's own code failed in any episode."""
        return bool(self._broken["agent"])

    def status(self, text: str) -> None:
        """What is being done right now. Off a terminal only a new kind of work is a line ("kind: 3 of 12")."""
        self._open()
        if self._bar is not None:
            self._live.update(self._bar, status=text)
            return
        kind = text.partition(":")[0]
        if kind != self._kind:
            note(text)
        self._kind = kind

    def say(self, text: str) -> None:
        """A line that stays."""
        self._open()
        if self._console.is_terminal:
            self._live.console.print(in_one_line(text))
        else:
            note(text)

    def _open(self) -> None:
        opening, self._opening = self._opening, ""
        if opening:
            self.say(opening)
