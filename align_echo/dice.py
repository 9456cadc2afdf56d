"""Seeded choices that are the same on every Python: only `random.Random.random` is promised not to change."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from align_echo.errors import UsageError

T = TypeVar("T")


class Dice:
    """Choices that depend on the seed text only."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self._random.random() < probability

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""
        return int(self._random.random() * bound)

    def between(self, low: float, high: float) -> float:
        """A number in [low, high), rounded to two digits."""
        return round(low + self._random.random() * (high - low), 2)

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in a random order."""
        pool = list(items)
        return [pool.pop(self.below(len(pool))) for _ in range(len(pool))]


def drawn(items: Sequence[T], *, iteration: int, count: int, seed: str) -> list[T]:
    """The items of one iteration (counted from 0): `count` of them, none drawn before while there are fresh ones.

    At most as many as there are; nothing of nothing. Raises `UsageError` for a negative iteration.
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
