"""Shared by the verbs: printing results, choosing a run's folder, and reporting progress and a stop.

Results go to standard output, progress and notes to standard error (`align_echo/rollout/display.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.table import Table

from align_echo.base import halting
from align_echo.errors import AgentError, EngineError, ModelError, UsageError
from align_echo.rollout.display import Display, PlainConsole, in_one_line, note
from align_echo.run_dir import CONFIG, check_room, episodes_kept, how_to_go_on, stop_line
from align_echo.types import Usage

MIN_WIDTH = 132
"""Width of tables without a terminal."""

WIDEST = 1000
"""Most characters of a table's line."""


def stdout() -> PlainConsole:
    """Return a console for results."""
    console = PlainConsole()
    return console if console.is_terminal else PlainConsole(width=max(console.width, MIN_WIDTH))


def say(line: str) -> None:
    """Print one line of results that names a file."""
    print(in_one_line(line))


def print_whole(table: Table) -> None:
    """Print a table with longer lines rather than truncated figures."""
    console = stdout()
    full_width = console.measure(table, options=console.options.update(width=WIDEST)).maximum
    console.width = max(console.width, full_width)
    console.print(table)


def leave(*, agent_broke: bool, trouble: str = "", warning: str = "") -> None:
    """End a verb that plays: exit status 1 if the agent's own code failed in any episode, or if an interface failed.

    `trouble` is the last line about a failed interface. A `warning` is printed without changing the status.
    """
    if warning:
        note(warning)
    if trouble:
        note(trouble)
    if agent_broke or trouble:
        raise typer.Exit(1)


def cost(usage: Usage | None, spent: str = "") -> None:
    """Print the cost, if there was any: what was `spent` at endpoints by role, else the usage."""
    print("".join(f"{line}\n" for line in (usage or Usage()).lines(spent)), end="")


def run_folder(out: Path | None, resume: bool, verb: str, environment: str) -> Path:
    """Return the folder of a run.

    Raises `UsageError` for --resume without a folder, and for a folder that cannot be written to.
    """
    if resume and out is None:
        raise UsageError("--resume needs the folder to go on with: add --out DIR")
    path = out or new_folder(verb, environment)
    check_room(path)
    return path


def new_folder(verb: str, environment: str) -> Path:
    """Return a name for a run's folder with its start time in microseconds, since several may start at once. Nothing is
    created. All file systems allow its characters.
    """
    plain = re.sub(r"[^\w.-]+", "-", environment)
    return Path("runs") / f"{verb}-{plain}-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"


@contextmanager
def run_display(out: Path, *, resume: bool) -> Iterator[Display]:
    """Show the progress of a run that plays episodes into a folder: how many are there already when it resumes, and how
    to resume after a stop.
    """
    with resumable(out), Display(f"going on with {out}: {episodes_kept(out)}" if resume else "") as display:
        yield display


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """Turn a stop (Ctrl-C, SIGTERM) into an exit status and a line about the saved episodes and how to resume.

    A broken agent, model or engine gives the same line. A run that has not started cannot be resumed.
    """
    try:
        with halting.said_by(lambda kept: stop_line(out, kept)):
            yield
    except KeyboardInterrupt as stop:
        note(stop_line(out, getattr(stop, "__notes__", ())))
        raise typer.Exit(halting.status()) from None
    except (AgentError, EngineError, ModelError) as error:
        if not (out / CONFIG).exists():
            raise
        words = [note for note in getattr(error, "__notes__", ()) if "\n" not in note.strip()]  # no traceback
        raise type(error)(f"{error}; {how_to_go_on(out, words)}") from error


