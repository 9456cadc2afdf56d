"""Which tasks of a split to play when not all: the same ones for the same seed, spread evenly over the task types."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest

from align_echo.errors import UsageError


def pick_tasks(
    task_ids: Sequence[str], count: int | None, *, task_type: Callable[[str], str], seed: int = 0
) -> list[str]:
    """`count` of the tasks (all for None), in the order of `task_ids`; each type gets its share, to within one.

    Raises `UsageError` if there are fewer than `count`.
    """
    if count is None:
        return list(task_ids)
    if not 1 <= count <= len(task_ids):
        raise UsageError(f"the split has {len(task_ids)} tasks: ask for 1 to {len(task_ids)}, not {count}")
    rng = random.Random(seed)
    groups: dict[str, list[str]] = {}
    for task in task_ids:
        groups.setdefault(task_type(task), []).append(task)
    shuffled = [rng.sample(group, len(group)) for _, group in sorted(groups.items())]
    rounds = chain.from_iterable(zip_longest(*shuffled))
    picked = set([task for task in rounds if task is not None][:count])
    return [task for task in task_ids if task in picked]
