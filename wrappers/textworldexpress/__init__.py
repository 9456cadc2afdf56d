"""TextWorldExpress: eight small text games, played by the real simulator. Its engine is imported on first use."""

from __future__ import annotations

from pathlib import Path

from align_echo.errors import UsageError
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv
from align_echo.wrappers.textworldexpress import spec

TRAINING_TASKS = 3
"""Tasks of each game in one iteration of ALIGN, as many as its ALFWorld runs take of each type."""


def make_env(*, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None) -> TextEnv:
    """Make a TextWorldExpress environment; Java starts at the first reset.

    Raises `UsageError` for a `data_root` (there is no data but the engine's own).
    """
    from align_echo.wrappers.textworldexpress.env import ExpressEnv

    _refuse_data(data_root)
    return ExpressEnv(split, step_limit)


def task_ids(*, split: str, data_root: Path | None) -> list[str]:
    """Return the task ids of a split, by game and seed; needs no Java. Raises `UsageError` for a `data_root`."""
    _refuse_data(data_root)
    return list(spec.task_ids(split))


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    """Sample ALIGN's tasks of one iteration (counted from 0): training seeds of every game.

    Unused seeds come first. Raises `UsageError` for a negative iteration or a `data_root`.
    """
    from align_echo.base.dice import drawn

    _refuse_data(data_root)
    tasks = []
    for game in spec.GAMES:
        text = f"training tasks {seed} {game}"
        seeds = drawn(spec.SEEDS["train"], iteration=iteration, count=TRAINING_TASKS, seed=text)
        tasks += [f"{game}/{number}" for number in seeds]
    return tasks


def _refuse_data(data_root: Path | None) -> None:
    if data_root is not None:
        raise UsageError("textworldexpress has no data of its own: leave out the data folder")


SPEC = EnvironmentSpec(
    name="textworldexpress",
    gym_id="align_echo/TextWorldExpress-v0",
    summary="eight small text games (TextWorldExpress 1.1.0)",
    splits=tuple(spec.SEEDS),
    train_split="train",
    test_split="test",
    step_limit=spec.STEP_LIMIT,
    action_format=spec.ACTION_FORMAT,
    contract=spec.CONTRACT,
    is_invalid=spec.is_invalid,
    task_type=spec.task_type,
    make_env=make_env,
    task_ids=task_ids,
    training_tasks=training_tasks,
    measures_distance=False,
    install=spec.INSTALL,
)
