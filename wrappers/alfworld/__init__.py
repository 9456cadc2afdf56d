"""ALFWorld: household tasks in text, byte for byte as TextWorld tells them. Its engine is imported when first used."""

from __future__ import annotations

from pathlib import Path

from align_echo.errors import UsageError
from align_echo.wrappers.alfworld.spec import TASK_TYPES, task_type
from align_echo.wrappers.text_env import TextEnv

DEFAULT_ENGINE = "fast"

TASKS_PER_TYPE = 3
"""ALIGN trains each iteration on three training tasks of each of the six types."""


def make_env(*, split: str, data_root: Path | None, step_limit: int | None, engine: str | None = None) -> TextEnv:
    """An ALFWorld environment; `engine` is "fast" (the default) or "textworld".

    Raises `MissingDataError` if `data_root` holds no games, `UsageError` for another engine.
    """
    from align_echo.wrappers.alfworld.data import source
    from align_echo.wrappers.alfworld.env import AlfworldEnv

    return AlfworldEnv(source(data_root), split, step_limit, engine or DEFAULT_ENGINE)


def task_ids(*, split: str, data_root: Path | None) -> list[str]:
    """Sorted task ids of a split. Raises `MissingDataError` if `data_root` holds no games."""
    from align_echo.wrappers.alfworld.data import source

    return source(data_root).ids(split)


def data_source(*, data_root: Path | None) -> str:
    """Which games are played: "embedded games, generator 1" or "official games at <path>".

    Raises `MissingDataError`.
    """
    from align_echo.wrappers.alfworld.data import source

    return source(data_root).label


def training_tasks(*, data_root: Path | None, iteration: int, seed: int) -> list[str]:
    """ALIGN's tasks of one iteration (counted from 0): three of each type, not drawn before while there are fresh ones.

    Raises `UsageError` for a negative iteration, `MissingDataError` if `data_root` holds no games.
    """
    from align_echo.wrappers.alfworld.dice import Dice

    if iteration < 0:
        raise UsageError(f"iterations are counted from 0, not {iteration}")
    ids = task_ids(split="train", data_root=data_root)
    drawn = []
    for kind in TASK_TYPES:
        of_kind = [task_id for task_id in ids if task_type(task_id) == kind]
        count = min(TASKS_PER_TYPE, len(of_kind))
        order: list[str] = []
        lap = 0
        while of_kind and len(order) < (iteration + 1) * count:
            order += Dice(f"training tasks {seed} {kind} {lap}").shuffled(of_kind)
            lap += 1
        drawn += order[iteration * count : (iteration + 1) * count]
    return drawn
