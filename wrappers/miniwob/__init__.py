"""MiniWoB: small tasks on web pages, in a real headless browser. The browser starts at the first reset."""

from __future__ import annotations

from pathlib import Path

from align_echo.errors import UsageError
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.miniwob.spec import (
    ACTION_FORMAT,
    CONTRACT,
    INSTALL,
    STEP_LIMIT,
    has_expert,
    is_invalid,
    task_type,
)
from align_echo.wrappers.text_env import TextEnv

TRAINING_TASKS = 24
"""Tasks of one iteration of ALIGN. ALIGN itself has no such environment; the number is ours."""


def make_env(*, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None) -> TextEnv:
    """Make a MiniWoB environment; Chromium starts at the first reset.

    Raises `UsageError` for a `data_root` (the pages are the package's own).
    """
    from align_echo.wrappers.miniwob.env import MiniWoBEnv

    _refuse_data(data_root)
    return MiniWoBEnv(split, step_limit)


def task_ids(*, split: str, data_root: Path | None) -> list[str]:
    """Return the task ids of a split, by page and seed; needs no browser. Raises `UsageError` for a `data_root`."""
    from align_echo.wrappers.miniwob import spec

    _refuse_data(data_root)
    return list(spec.task_ids(split))


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    """Sample training tasks of one iteration (counted from 0), unused ones first.

    Raises `UsageError` for a negative iteration or a `data_root`.
    """
    from align_echo.base.dice import drawn

    ids = task_ids(split="train", data_root=data_root)
    return drawn(ids, iteration=iteration, count=TRAINING_TASKS, seed=f"training tasks {seed}")


def _refuse_data(data_root: Path | None) -> None:
    if data_root is not None:
        raise UsageError("miniwob has no data of its own: leave out the data folder")


SPEC = EnvironmentSpec(
    name="miniwob",
    gym_id="align_echo/MiniWoB-v0",
    summary="web pages in a real browser (MiniWoB++ 1.1.0)",
    splits=("train", "test", "expert_train", "expert_test"),
    train_split="train",
    test_split="test",
    step_limit=STEP_LIMIT,
    action_format=ACTION_FORMAT,
    contract=CONTRACT,
    is_invalid=is_invalid,
    task_type=task_type,
    make_env=make_env,
    task_ids=task_ids,
    training_tasks=training_tasks,
    has_expert=has_expert,
    partitions=(("train", "test"), ("expert_train", "expert_test")),
    install=INSTALL,
)
