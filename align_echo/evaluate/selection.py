"""Pick some tasks of a split: the same for the same seed, spread evenly over the task types."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest

from align_echo.errors import UsageError


def pick_tasks(
    task_ids: Sequence[str], count: int | None, *, task_type: Callable[[str], str], seed: int = 0
) -> list[str]:
    """Pick `count` tasks (None: all), in the order of `task_ids`; each type gets its share, to within one.

    Raises `UsageError` if there are fewer than `count`.
    """
    if count is None:
        return list(task_ids)
    return pick_round_tasks(task_ids, count, 1, task_type=task_type, seed=seed)


def pick_round_tasks(
    task_ids: Sequence[str], count: int, number: int, *, task_type: Callable[[str], str], seed: int = 0
) -> list[str]:
    """Pick tasks for a round (from 1) as `pick_tasks` does, without repeats of earlier rounds while there are new
    tasks.

    Raises `UsageError` if there are fewer than `count`.
    """
    if not 1 <= count <= len(task_ids):
        raise UsageError(f"the split has {len(task_ids)} tasks: ask for 1 to {len(task_ids)}, not {count}")
    rng = random.Random(seed)
    groups: dict[str, list[str]] = {}
    for task in task_ids:
        groups.setdefault(task_type(task), []).append(task)
    shuffled = [rng.sample(group, len(group)) for _, group in sorted(groups.items())]
    spread = [task for task in chain.from_iterable(zip_longest(*shuffled)) if task is not None]
    picked = {spread[index % len(spread)] for index in range((number - 1) * count, number * count)}
    return [task for task in task_ids if task in picked]
