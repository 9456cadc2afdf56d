"""ALFWorld: household tasks in text, byte for byte as in TextWorld. The engine is imported on first use."""

from __future__ import annotations

from pathlib import Path

from align_echo.errors import install_line
from align_echo.wrappers.alfworld.spec import ACTION_FORMAT, CONTRACT, STEP_LIMIT, TASK_TYPES, is_invalid, task_type
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv

DEFAULT_ENGINE = "fast"

TASKS_PER_TYPE = 3
"""ALIGN trains each iteration on three training tasks of each of the six types."""


def make_env(*, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None) -> TextEnv:
    """Make an ALFWorld environment; `engine` is "fast" (the default) or "textworld".

    Raises `MissingDataError` if `data_root` holds no games, `UsageError` for another engine.
    """
    from align_echo.wrappers.alfworld.data import source
    from align_echo.wrappers.alfworld.env import AlfworldEnv

    return AlfworldEnv(source(data_root), split, step_limit, engine or DEFAULT_ENGINE)


def task_ids(*, split: str, data_root: Path | None) -> list[str]:
    """Return the sorted task ids of a split. Raises `MissingDataError` if `data_root` holds no games."""
    from align_echo.wrappers.alfworld.data import source

    return source(data_root).ids(split)


def data_source(*, data_root: Path | None) -> str:
    """Describe the games in use: "embedded games, generator 1" or "official games at <path>".

    Raises `MissingDataError`.
    """
    from align_echo.wrappers.alfworld.data import source

    return source(data_root).label


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    """Sample ALIGN's tasks of one iteration (counted from 0): three of each type, unused ones first.

    Raises `UsageError` for a negative iteration, `MissingDataError` if `data_root` holds no games.
    """
    from align_echo.base.dice import drawn

    ids = task_ids(split="train", data_root=data_root)
    tasks = []
    for kind in TASK_TYPES:
        candidates = [task_id for task_id in ids if task_type(task_id) == kind]
        seed_text = f"training tasks {seed} {kind}"
        tasks += drawn(candidates, iteration=iteration, count=TASKS_PER_TYPE, seed=seed_text)
    return tasks


def has_expert(task_id: str) -> bool:
    """Return True for every task. Raises `MissingExtraError` if the expert's package is not installed."""
    from align_echo.wrappers.alfworld.oracle import require_packages

    require_packages("ALFWorld's expert")
    return True


SPEC = EnvironmentSpec(
    name="alfworld",
    gym_id="align_echo/ALFWorld-v0",
    summary="household tasks in text (ALFWorld 0.4.2)",
    splits=("train", "valid_seen", "valid_unseen"),
    train_split="train",
    test_split="valid_unseen",
    step_limit=STEP_LIMIT,
    action_format=ACTION_FORMAT,
    contract=CONTRACT,
    is_invalid=is_invalid,
    task_type=task_type,
    make_env=make_env,
    task_ids=task_ids,
    training_tasks=training_tasks,
    data_source=data_source,
    engines=("fast", "textworld"),
    has_expert=has_expert,
    install=f"{install_line('alfworld')}, for its expert, its own engine and official games",
)
