"""Task ids, and generation of a task from its id alone: `<family>/<train or test>-<index>`.

Upstream's own tasks are in `upstream.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from align_echo.dice import Dice
from align_echo.errors import UsageError
from align_echo.wrappers.m3tooleval import messages, plants, trade, travel, web
from align_echo.wrappers.m3tooleval.spec import FAMILIES
from align_echo.wrappers.m3tooleval.task import ToolTask

GENERATOR = 1
"""Version to raise whenever an id becomes another task."""

TRAINING_SETS = 5
"""Number of training sets, each as large as the test set."""

ALIGN_TRAINING = (4, 5)
"""Indices of each family's tasks in ALIGN's training split, as in its public code; the others are its test split."""

_MAKERS: dict[str, Callable[[int, Dice, str], ToolTask]] = dict(
    zip(FAMILIES, (messages.make, plants.make, trade.make, travel.make, web.make), strict=True)
)

_ID = re.compile(rf"({'|'.join(FAMILIES)})/(train|test)-(0|[1-9][0-9]{{0,3}})")


def split_ids(split: str) -> list[str]:
    """Return the task ids of a split, family by family."""
    sets = TRAINING_SETS if split == "train" else 1
    name = "train" if split == "train" else "test"
    ids = [f"{family}/{name}-{index}" for family, count in FAMILIES.items() for index in range(count * sets)]
    return ids if split in ("train", "test") else align_half(ids, split)


def align_half(ids: list[str], split: str) -> list[str]:
    """Select ALIGN's part of test tasks: `align_train` holds two of each family, any other split the rest."""
    of_families = (_in_family(ids, family) for family in FAMILIES)
    training = {own[index] for own in of_families for index in ALIGN_TRAINING if index < len(own)}
    return [task for task in ids if (task in training) == (split == "align_train")]


def _in_family(ids: list[str], family: str) -> list[str]:
    return [task for task in ids if task.startswith(f"{family}/")]


def is_ours(task_id: str) -> bool:
    """Check if an id is that of a generated task, with a known solution."""
    return _ID.fullmatch(task_id) is not None


@lru_cache(maxsize=512)
def make_task(task_id: str) -> ToolTask:
    """Generate the task of an id. Raises `UsageError` for an unknown id."""
    parts = _ID.fullmatch(task_id)
    if parts is None:
        raise UsageError(f"there is no task {task_id[:80]!r}; see tasks() for the ids")
    family, split, index = parts.groups()
    return _MAKERS[family](int(index), Dice(f"m3tooleval {GENERATOR} {task_id}"), split)
