"""Which tasks there are, by id, and how each is made from its id alone: `<family>/<train or test>-<index>`.

Left out: upstream's own tasks (`upstream.py`).
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
"""Raised when the same id becomes another task."""

TRAINING_SETS = 5
"""Training tasks, in sets as large as the test's."""

ALIGN_TRAINING = (4, 5)
"""Tasks of each family in ALIGN's training split, by their index, as in its public code; the others are its test."""

_MAKERS: dict[str, Callable[[int, Dice, str], ToolTask]] = dict(
    zip(FAMILIES, (messages.make, plants.make, trade.make, travel.make, web.make), strict=True)
)

_ID = re.compile(rf"({'|'.join(FAMILIES)})/(train|test)-(0|[1-9][0-9]{{0,3}})")


def split_ids(split: str) -> list[str]:
    """The task ids of a split, family by family."""
    sets = TRAINING_SETS if split == "train" else 1
    name = "train" if split == "train" else "test"
    ids = [f"{family}/{name}-{index}" for family, count in FAMILIES.items() for index in range(count * sets)]
    return ids if split in ("train", "test") else align_half(ids, split)


def align_half(ids: list[str], split: str) -> list[str]:
    """ALIGN's part of test tasks: `align_train` holds two of each family, any other split the rest."""
    of_families = (_of(ids, family) for family in FAMILIES)
    training = {own[index] for own in of_families for index in ALIGN_TRAINING if index < len(own)}
    return [task for task in ids if (task in training) == (split == "align_train")]


def _of(ids: list[str], family: str) -> list[str]:
    return [task for task in ids if task.startswith(f"{family}/")]


def is_ours(task_id: str) -> bool:
    """Whether an id is that of a task made here, to which a way is known."""
    return _ID.fullmatch(task_id) is not None


@lru_cache(maxsize=512)
def made(task_id: str) -> ToolTask:
    """The task of an id. Raises `UsageError` for no such id."""
    parts = _ID.fullmatch(task_id)
    if parts is None:
        raise UsageError(f"there is no task {task_id[:80]!r}; see tasks() for the ids")
    family, split, index = parts.groups()
    return _MAKERS[family](int(index), Dice(f"m3tooleval {GENERATOR} {task_id}"), split)
