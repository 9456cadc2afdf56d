"""Mathematics: one problem, one reply, checked by math-verify. Problems are generated, or read from a file of rows."""

from __future__ import annotations

from pathlib import Path

from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.mathematics.spec import (
    ACTION_FORMAT,
    CONTRACT,
    INSTALL,
    SPLITS,
    STEP_LIMIT,
    is_invalid,
    task_type,
)
from align_echo.wrappers.text_env import TextEnv

TRAINING_TASKS = 24
"""Tasks of one iteration of ALIGN, two of each kind. ALIGN itself has no such environment; the number is ours."""


def make_env(*, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None) -> TextEnv:
    """Make a math environment; the verifier starts with the first reply that holds an answer.

    Raises `MissingDataError` or `UsageError` for a `data_root` without readable problems.
    """
    from align_echo.wrappers.mathematics.env import MathEnv
    from align_echo.wrappers.mathematics.problems import problems

    return MathEnv(problems(split, data_root), step_limit)


def task_ids(*, split: str, data_root: Path | None) -> list[str]:
    """Return the task ids of a split in a fixed order. Raises as `make_env`."""
    from align_echo.wrappers.mathematics import problems

    return problems.task_ids(split, data_root)


def data_source(*, data_root: Path | None) -> str:
    """Describe the problems in use: "generated problems, generator 1" or "problems at <path>". Raises as `make_env`."""
    from align_echo.wrappers.mathematics.problems import label

    return label(data_root)


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    """Sample training tasks of one iteration (counted from 0), unused ones first.

    Raises `UsageError` for a negative iteration, otherwise as `make_env`.
    """
    from align_echo.base.dice import drawn

    ids = task_ids(split="train", data_root=data_root)
    return drawn(ids, iteration=iteration, count=TRAINING_TASKS, seed=f"training tasks {seed}")


SPEC = EnvironmentSpec(
    name="math",
    gym_id="align_echo/Math-v0",
    summary="one problem, one boxed answer (math-verify 0.9.0)",
    splits=SPLITS,
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
    data_source=data_source,
    lists_actions=False,
    install=INSTALL,
)
