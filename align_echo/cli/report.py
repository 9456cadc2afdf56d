"""`align-echo report`: figures of runs as one HTML file, and the pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from align_echo.cli.console import say
from align_echo.report.writing import OUT, write_report
from align_echo.rollout.display import note


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs' folders, or folders of runs.")],
    out: Annotated[Path, typer.Option("--out", help="The .html file.")] = OUT,
) -> None:
    """Draw the measurements of runs into one HTML file: effects with their controls, learning, critics."""
    written = write_report(runs, out)
    for line in written.damaged:
        note(line)
    for line in (*written.lines, f"{written.file}: open it in a browser; pictures in {written.figures}"):
        say(line)
