"""M3ToolEval: five families of tasks for several tools called in turn. Tasks are generated on demand."""

from __future__ import annotations

from pathlib import Path

from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.m3tooleval.spec import (
    ACTION_FORMAT,
    CONTRACT,
    ENGINES,
    FAMILIES,
    SPLITS,
    STEP_LIMIT,
    is_invalid,
    task_type,
)
from align_echo.wrappers.m3tooleval.tasks import is_ours, make_task, split_ids
from align_echo.wrappers.text_env import TextEnv

TRAINING_TASKS = 2
"""Tasks of each family in one iteration of ALIGN: ten in all, as in its runs."""


def make_env(*, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None) -> TextEnv:
    """Make an M3ToolEval environment; `engine` sets the form of calls and the check of answers, "text" by default.

    Raises `MissingDataError` if `data_root` holds no loadable tasks, `UsageError` for another engine.
    """
    from align_echo.wrappers.m3tooleval.env import ToolEnv
    from align_echo.wrappers.m3tooleval.upstream import upstream_tasks

    ids = task_ids(split=split, data_root=data_root)
    find = make_task if data_root is None else upstream_tasks(data_root).__getitem__
    return ToolEnv(ids, find, step_limit, engine)


def task_ids(*, split: str, data_root: Path | None) -> list[str]:
    """Return the task ids of a split, family by family. Raises `MissingDataError` as `make_env`."""
    from align_echo.wrappers.m3tooleval.tasks import align_half
    from align_echo.wrappers.m3tooleval.upstream import upstream_tasks

    if data_root is None:
        return split_ids(split)
    return align_half(list(upstream_tasks(data_root)), "align_train" if split == "train" else split)


def data_source(*, data_root: Path | None) -> str:
    """Describe the tasks in use: "generated tasks" or "upstream's tasks at <path>"."""
    return "generated tasks" if data_root is None else f"upstream's tasks at {data_root.absolute()}"


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    """Sample ALIGN's tasks of one iteration (counted from 0): two of each family, unused ones first.

    With upstream's tasks, it is always all ten of the training split. Raises `UsageError` for a negative iteration,
    `MissingDataError` as `make_env`.
    """
    from align_echo.base.dice import drawn

    ids = task_ids(split="train", data_root=data_root)
    tasks = []
    for family in FAMILIES:
        candidates = [task for task in ids if task_type(task) == family]
        tasks += drawn(candidates, iteration=iteration, count=TRAINING_TASKS, seed=f"training tasks {seed} {family}")
    return tasks


SPEC = EnvironmentSpec(
    name="m3tooleval",
    gym_id="align_echo/M3ToolEval-v0",
    summary="tasks for several tools in turn (M3ToolEval)",
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
    engines=ENGINES,
    has_expert=is_ours,
    partitions=(("train", "test"), ("train", "align_train", "align_test")),
)
