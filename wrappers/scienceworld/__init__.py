"""ScienceWorld: school experiments in text, played by the real simulator. Its engine is imported on first use."""

from __future__ import annotations

from pathlib import Path

from align_echo.errors import UsageError
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.scienceworld.spec import ACTION_FORMAT, CONTRACT, INSTALL, STEP_LIMIT, is_invalid, task_type
from align_echo.wrappers.text_env import TextEnv


def make_env(*, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None) -> TextEnv:
    """Make a ScienceWorld environment; Java starts at the first reset.

    Raises `UsageError` for a `data_root` (there is no data but the engine's own).
    """
    from align_echo.wrappers.scienceworld.env import ScienceWorldEnv

    _refuse_data(data_root)
    return ScienceWorldEnv(split, step_limit)


def task_ids(*, split: str, data_root: Path | None) -> list[str]:
    """Return the task ids of a split, by task and variation; needs no Java. Raises `UsageError` for a `data_root`."""
    from align_echo.wrappers.scienceworld import tasks

    _refuse_data(data_root)
    return list(tasks.task_ids(split))


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    """Sample ALIGN's tasks of one iteration (counted from 0): one training variation of each of the 30 tasks.

    Unused variations come first. Raises `UsageError` for a negative iteration or a `data_root`.
    """
    from align_echo.base.dice import drawn
    from align_echo.wrappers.scienceworld.tasks import VARIATIONS, variations

    _refuse_data(data_root)
    tasks = []
    for name in VARIATIONS:
        seed_text = f"training tasks {seed} {name}"
        [variation] = drawn(variations(name, "train"), iteration=iteration, count=1, seed=seed_text)
        tasks.append(f"{name}/easy/{variation}")
    return tasks


def _refuse_data(data_root: Path | None) -> None:
    if data_root is not None:
        raise UsageError("scienceworld has no data of its own: leave out the data folder")


SPEC = EnvironmentSpec(
    name="scienceworld",
    gym_id="align_echo/ScienceWorld-v0",
    summary="school experiments in text (ScienceWorld 1.2.3)",
    splits=("train", "dev", "test", "align_test"),
    train_split="train",
    test_split="align_test",
    step_limit=STEP_LIMIT,
    action_format=ACTION_FORMAT,
    contract=CONTRACT,
    is_invalid=is_invalid,
    task_type=task_type,
    make_env=make_env,
    task_ids=task_ids,
    training_tasks=training_tasks,
    measures_distance=False,
    partitions=(("train", "dev", "test"), ("train", "dev", "align_test")),
    install=INSTALL,
)
