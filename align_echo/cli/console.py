"""What verbs share: how results are printed, where a run goes, and how its progress and a stop are reported.

Results go to standard output, progress and notes to standard error (`align_echo/display.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.table import Table

from align_echo import stopping
from align_echo.display import Display, note
from align_echo.errors import AgentError, EngineError, ModelError, UsageError
from align_echo.runs import CONFIG, check_room, episodes_kept, how_to_go_on, stop_line
from align_echo.terminal import PlainConsole, in_one_line
from align_echo.types import Usage

MIN_WIDTH = 132
"""Width of tables where there is no terminal to ask."""

WIDEST = 1000
"""Characters that a line of a table may have."""


def stdout() -> PlainConsole:
    """Where results go."""
    console = PlainConsole()
    return console if console.is_terminal else PlainConsole(width=max(console.width, MIN_WIDTH))


def say(line: str) -> None:
    """Print one line of results that names a file."""
    print(in_one_line(line))


def print_whole(table: Table) -> None:
    """Print a table with longer lines rather than figures that are cut off."""
    console = stdout()
    whole = console.measure(table, options=console.options.update(width=WIDEST)).maximum
    console.width = max(console.width, whole)
    console.print(table)


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
    print(f"{usage.in_words}\n" * bool(usage.in_words), end="")


def run_folder(out: Path | None, resume: bool, verb: str, environment: str) -> Path:
    """Return the folder that a run goes to.

    Raises `UsageError` for a run to go on with that is not named, and for a folder that nothing can be written to.
    """
    if resume and out is None:
        raise UsageError("--resume needs the folder to go on with: add --out DIR")
    path = out or new_folder(verb, environment)
    check_room(path)
    return path


def new_folder(verb: str, environment: str) -> Path:
    """A name for a run's folder that tells when it began, to the microsecond: many may begin at once. Nothing is made.
    Its characters are those that every file system takes.
    """
    plain = re.sub(r"[^\w.-]+", "-", environment)
    return Path("runs") / f"{verb}-{plain}-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"


@contextmanager
def run_display(out: Path, *, resume: bool) -> Iterator[Display]:
    """Show the progress of a run that plays episodes into a folder: how many were kept, if it goes on, and how to go on
    if it is stopped.
    """
    with resumable(out), Display(f"going on with {out}: {episodes_kept(out)}" if resume else "") as display:
        yield display


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """Turn a stop (Ctrl-C, SIGTERM) into a line that says what is kept and how to go on, and into an exit status; a
    broken agent, model or engine says it too. A run that had not begun has nothing to go on with.
    """
    try:
        with stopping.said_by(lambda kept: stop_line(out, kept)):
            yield
    except KeyboardInterrupt as stop:
        note(stop_line(out, getattr(stop, "__notes__", ())))
        raise typer.Exit(stopping.status()) from None
    except (AgentError, EngineError, ModelError) as error:
        if not (out / CONFIG).exists():
            raise
        words = [note for note in getattr(error, "__notes__", ()) if "\n" not in note.strip()]  # no traceback
        raise type(error)(f"{error}; {how_to_go_on(out, words)}") from error


