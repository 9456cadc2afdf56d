"""Seeded random choices, identical on every Python version: only `random.Random.random` is guaranteed to be stable."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from align_echo.errors import UsageError

T = TypeVar("T")


class Dice:
    """Random choices that depend only on the seed text."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability

    def below(self, bound: int) -> int:
        """Return an integer in [0, bound)."""
        return int(self._random.random() * bound)

    def between(self, low: float, high: float) -> float:
        """Return a number in [low, high), rounded to two digits."""
        return round(low + self._random.random() * (high - low), 2)

    def pick(self, items: Sequence[T]) -> T:
        """Pick an item."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order."""
        pool = list(items)
        return [pool.pop(self.below(len(pool))) for _ in range(len(pool))]


def drawn(items: Sequence[T], *, iteration: int, count: int, seed: str) -> list[T]:
    """Draw `count` items for an iteration (counted from 0), without repetition until all items have been drawn.

    Returns at most all items; an empty list if there are none. Raises `UsageError` for a negative iteration.
    """
    if iteration < 0:
        raise UsageError(f"iterations are counted from 0, not {iteration}")
    count = min(count, len(items))
    order: list[T] = []
    lap = 0
    while items and len(order) < (iteration + 1) * count:
        order += Dice(f"{seed} {lap}").shuffled(items)
        lap += 1
    return order[iteration * count : (iteration + 1) * count]
