"""Show progress to the user on standard error: live counts on a terminal, plain lines elsewhere.

Not here: results, which go to standard output (the command line).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import IO, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.segment import Segment

from align_echo.base.progress import Progress, Spent
from align_echo.errors import printable
from align_echo.registry import quantity
from align_echo.rollout.faults import BROKE, fault_text
from align_echo.types import Fault

# ---------------------------------------------------------------- terminal


def in_one_line(text: str) -> str:
    """Remove line breaks, which a file name may contain."""
    return " ".join(text.splitlines())


class PlainConsole(Console):
    """A console that shows texts literally: without control characters, and with brackets as brackets."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    @property
    def file(self) -> IO[str]:
        """Underlying stream, which passes rich's own colour and cursor sequences through."""
        stream = super().file
        return getattr(stream, "styled", stream)

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, without control characters from texts."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


# ---------------------------------------------------------------- show progress to the user on standard error

LINES_PER_STAGE = 4


def note(line: str) -> None:
    """Print one line about the progress."""
    print(in_one_line(line), file=sys.stderr, flush=True)


class Display(Progress):
    """Progress of a run: a live line on a terminal, a few plain lines per stage elsewhere.

    `opening` is printed before anything else, and not for a refused run.
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
        self._lost = 0
        self._broken: Counter[str] = Counter()
        self._spent: Spent | None = None

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
        """Begin a stage of `total` episodes, `done` of them finished earlier."""
        self._open()
        self._title, self._total, self._done, self._won, self._lost = title, total, done, 0, 0
        if not self._console.is_terminal:
            note(f"{title}: {quantity(total, 'episode')}" + (f", {done} of them finished earlier" if done else ""))
            return
        if self._bar is not None:
            self._live.remove_task(self._bar)
        self._bar = self._live.add_task(title, total=total, completed=done, status="")

    def episode(self, won: bool | None) -> None:
        """Count a finished episode; `won` is None for one that ended in a fault, which has no score."""
        self._done += 1
        self._won += bool(won)
        self._lost += won is None
        line = self._with_spending(f"won {self._won}" + f", {self._lost} broke" * bool(self._lost))
        if self._bar is not None:
            self._live.update(self._bar, completed=self._done, status=line)
        elif self._done == self._total or self._done % max(1, self._total // LINES_PER_STAGE) == 0:
            note(f"{self._title}: {self._done}/{self._total}, {line}")

    def broke(self, task_id: str, fault: Fault) -> None:
        """Count an episode that ended in a fault. Print the first fault of each source at once."""
        if fault.source not in self._broken:
            self.say(f"{task_id}: {fault_text(fault)}; the episode has no score")
        self._broken.update([fault.source])

    @property
    def agent_broke(self) -> bool:
        """True if the agent's own code failed in any episode."""
        return bool(self._broken["agent"])

    def status(self, text: str) -> None:
        """Show the current activity. Outside a terminal, print a line only for a new kind of work ("kind: 3 of 12")."""
        self._open()
        if self._bar is not None:
            self._live.update(self._bar, status=self._with_spending(text))
            return
        kind = text.partition(":")[0]
        if kind != self._kind:
            note(text)
        self._kind = kind

    def say(self, text: str) -> None:
        """Print a permanent line."""
        self._open()
        if self._console.is_terminal:
            self._live.console.print(in_one_line(text))
        else:
            note(text)

    def watch(self, spent: Spent) -> None:
        """Show what is spent with each count."""
        self._spent = spent

    @property
    def spent(self) -> str:
        """What the run has spent at endpoints, by role; "" for nothing."""
        return self._spent.in_full if self._spent else ""

    def _with_spending(self, text: str) -> str:
        spent = self._spent.in_short if self._spent else ""
        return f"{text}; {spent}" if spent else text

    def _open(self) -> None:
        opening, self._opening = self._opening, ""
        if opening:
            self.say(opening)
