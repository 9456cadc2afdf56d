"""Trackers for a run's signals, by the integrations of `transformers`.

    tensorboard    events in `tensorboard/` of the run's folder
    wandb          files in `wandb/` of the run's folder, and its server unless $WANDB_MODE is offline
    trackio        its own data folder ($TRACKIO_DIR)
    mlflow         as its own variables say

Projects are named align-echo, runs like their folder. Not here: the reported values (`RoleTrainer.log`).
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

from align_echo.base import halting
from align_echo.errors import UsageError, first_line

TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
"""Known trackers; each needs the package of its name."""

PROJECT = "align-echo"
TENSORBOARD, WANDB = "tensorboard", "wandb"
"""Trackers with files in the run's folder, in subfolders of their names."""

TRACKIO = "trackio"

SENDING = 10.0
"""Seconds for a tracker to send the rest when a run is stopped."""


def why_unusable(names: Sequence[str]) -> list[str]:
    """Explain for each unusable tracker what is wrong and what to do."""
    reasons = []
    for name in names:
        if name not in TRACKERS:
            reasons.append(f"unknown tracker {name!r}; known: {', '.join(TRACKERS)}")
        elif find_spec(name) is None:
            reasons.append(f"{name} is not installed: pip install {name}")
    return reasons


@contextmanager
def tracking(names: Sequence[str], folder: Path, begun_at: int) -> Iterator[list[Any]]:
    """Start trackers for a run with `begun_at` steps behind it, and stop them at the end of the block.

    Yields the callbacks for a trainer beside those of `reported_by_name`. Trackers print to standard error. Raises
    `UsageError` if W&B refuses to start.
    """
    if not names:
        yield []
        return
    halting.take_time(SENDING)
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
    """List the trackers for `transformers` to set up by name."""
    return [name for name in names if name != TENSORBOARD]


def _tensorboard(folder: Path, begun_at: int) -> Any:
    """Build a callback that writes events to the run's folder and discards those of repeated steps."""
    board: Any = import_module("torch.utils.tensorboard")
    integrations: Any = import_module("transformers.integrations")
    events = str(folder / TENSORBOARD)
    callback = integrations.TensorBoardCallback(board.SummaryWriter(events, purge_step=begun_at + 1))
    callback.logging_dir = events
    return callback


def _begin_wandb(folder: Path) -> None:
    """Start W&B with files in the run's folder. Raises `UsageError` if it is online and has no key."""
    wandb: Any = import_module(WANDB)
    try:
        wandb.init(project=os.environ.get("WANDB_PROJECT", PROJECT), name=folder.name, dir=str(folder))
    except wandb.Error as error:
        raise UsageError(
            f"report_to: wandb cannot begin ({first_line(error)}): run `wandb login`, or set WANDB_MODE=offline"
        ) from error


def _finish(names: Sequence[str]) -> None:
    """End the runs of trackers that would otherwise record the next run of this process too."""
    if WANDB in names:
        import_module(WANDB).finish()
    if TRACKIO in names:
        trackio: Any = import_module(TRACKIO)
        if trackio.context_vars.current_run.get() is not None:
            trackio.finish()
