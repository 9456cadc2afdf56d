"""What the command line shows: live counts on a terminal, plain lines elsewhere, and how a stop is reported.

Results go to standard output, progress and notes to standard error.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from align_echo.errors import AgentError, EngineError, ModelError, UsageError
from align_echo.faults import BROKE, fault_text
from align_echo.progress import Progress
from align_echo.runs import CONFIG
from align_echo.types import Fault, Usage

MIN_WIDTH = 132
"""Width of tables where there is no terminal to ask."""

WIDEST = 1000
"""Characters that a line of a table may have."""

LINES_PER_STAGE = 4


def stdout() -> Console:
    """Where results go."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=max(console.width, MIN_WIDTH))


def note(line: str) -> None:
    """One line of comment on what goes on."""
    print(line, file=sys.stderr, flush=True)


def print_whole(table: Table) -> None:
    """Print a table with longer lines rather than figures that are cut off."""
    console = stdout()
    whole = console.measure(table, options=console.options.update(width=WIDEST)).maximum
    console.width = max(console.width, whole)
    console.print(table)


class Display(Progress):
    """Progress of a run. On a terminal one line that moves; elsewhere a few plain lines a stage."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
        self._live = Bars(*columns, TextColumn("{task.fields[status]}"), console=self._console, transient=True)
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
            note(f"{BROKE['agent']} in {count} episodes, which have no score: their trajectories hold tracebacks")

    def stage(self, title: str, total: int, done: int = 0) -> None:
        """Begin a stage of `total` episodes, of which `done` were finished earlier."""
        self._title, self._total, self._done, self._won = title, total, done, 0
        if not self._console.is_terminal:
            note(f"{title}: {total} episodes" + (f", {done} of them finished earlier" if done else ""))
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
        if self._bar is not None:
            self._live.update(self._bar, status=text)
            return
        kind = text.partition(":")[0]
        if kind != self._kind:
            note(text)
        self._kind = kind

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._console.is_terminal:
            self._live.console.print(text, markup=False)
        else:
            note(text)


def leave(*, agent_broke: bool, trouble: str = "", warning: str = "") -> None:
    """The end of a verb that plays: exit status 1 if the agent's own code failed in any episode, or if an interface did
    not work, which the last line then says (`trouble`). A `warning` is said and changes no status."""
    if warning:
        note(warning)
    if trouble:
        note(trouble)
    if agent_broke or trouble:
        raise typer.Exit(1)


def cost(usage: Usage) -> None:
    """Say what was spent, if anything was."""
    if usage.prompt_tokens:
        tokens = usage.prompt_tokens + usage.completion_tokens
        print(f"tokens: {tokens:,}; cost: ${usage.cost_usd:.4f} where the price is known")


def run_folder(out: Path | None, resume: bool, verb: str, environment: str) -> Path:
    """The folder that a run goes to. Raises `UsageError` for a run to go on with that is not named."""
    if resume and out is None:
        raise UsageError("--resume needs the folder to go on with: add --out DIR")
    return out or new_folder(verb, environment)


def new_folder(verb: str, environment: str) -> Path:
    """A name for a run's folder that tells when it began, to the microsecond: many may begin at once. Nothing is made.
    Its characters are those that every file system takes.
    """
    plain = re.sub(r"[^\w.-]+", "-", environment)
    return Path("runs") / f"{verb}-{plain}-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """Turn Ctrl-C into a line that says how to go on and exit status 130; a broken agent, model or engine says it too.
    A run that had not begun has nothing to go on with.
    """
    hint = f"what is finished is kept; to go on, repeat the command with: --resume --out {out}"
    try:
        yield
    except KeyboardInterrupt:
        note(f"stopped; {hint}" if (out / CONFIG).exists() else "stopped before anything was written")
        raise typer.Exit(130) from None
    except (AgentError, EngineError, ModelError) as error:
        if not (out / CONFIG).exists():
            raise
        raise type(error)(f"{error}; {hint}") from error
