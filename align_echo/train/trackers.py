"""Trackers that a run reports to, by the integrations of `transformers`: which there are, and where they write.

    tensorboard    events in `tensorboard/` of the run's folder
    wandb          its own files in `wandb/` there, and its server unless $WANDB_MODE is offline
    trackio        its own data folder ($TRACKIO_DIR)
    mlflow         as its own variables say

Projects are called align-echo and runs as their folder. Left out: what is reported (`RoleTrainer.log`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from align_echo import stopping
from align_echo.errors import UsageError, first_line

TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
"""Trackers that a run can report to; the package that each needs has its name."""

PROJECT = "align-echo"
TENSORBOARD, WANDB = "tensorboard", "wandb"
"""Trackers whose files are in the run's folder, in folders of their names."""

TRACKIO = "trackio"

SENDING = 10.0
"""Seconds in which a tracker sends the rest when a run is stopped."""


def why_unusable(names: Sequence[str]) -> list[str]:
    """For each tracker that cannot be used, why it cannot and what to do."""
    reasons = []
    for name in names:
        if name not in TRACKERS:
            reasons.append(f"unknown tracker {name!r}; known: {', '.join(TRACKERS)}")
        elif find_spec(name) is None:
            reasons.append(f"{name} is not installed: pip install {name}")
    return reasons


@contextmanager
def tracking(names: Sequence[str], folder: Path, begun_at: int) -> Iterator[list[Any]]:
    """Begin to report a run that has `begun_at` steps behind it; the callbacks that a trainer needs beside those of
    `reported_by_name`. What was begun is ended when the block is left. What trackers print goes to standard error.

    Raises `UsageError` where W&B does not let a run begin.
    """
    if not names:
        yield []
        return
    stopping.take_time(SENDING)
    with redirect_stdout(sys.stderr):
        board = _tensorboard(folder, begun_at) if TENSORBOARD in names else None
        if WANDB in names:
            _begin_wandb(folder)
        try:
            yield [board] if board else []
        finally:
            if board is not None and board.tb_writer is not None:
                board.tb_writer.close()
            _finish(names)


def reported_by_name(names: Sequence[str]) -> list[str]:
    """Trackers that `transformers` is to set up by their names alone."""
    return [name for name in names if name != TENSORBOARD]


def _tensorboard(folder: Path, begun_at: int) -> Any:
    """A callback that writes events to the run's folder, where those of steps that are made again no longer count."""
    board: Any = import_module("torch.utils.tensorboard")
    integrations: Any = import_module("transformers.integrations")
    events = str(folder / TENSORBOARD)
    callback = integrations.TensorBoardCallback(board.SummaryWriter(events, purge_step=begun_at + 1))
    callback.logging_dir = events
    return callback


def _begin_wandb(folder: Path) -> None:
    """A run of W&B whose files are in the run's folder. Raises `UsageError` without a key for its server, if online."""
    wandb: Any = import_module(WANDB)
    try:
        wandb.init(project=os.environ.get("WANDB_PROJECT", PROJECT), name=folder.name, dir=str(folder))
    except wandb.Error as error:
        raise UsageError(
            f"report_to: wandb cannot begin ({first_line(error)}): run `wandb login`, or set WANDB_MODE=offline"
        ) from error


def _finish(names: Sequence[str]) -> None:
    """End the runs of trackers that would go on to the end of the process, and take in the next run."""
    if WANDB in names:
        import_module(WANDB).finish()
    if TRACKIO in names:
        trackio: Any = import_module(TRACKIO)
        if trackio.context_vars.current_run.get() is not None:
            trackio.finish()
