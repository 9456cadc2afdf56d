"""Shopping goals, from human instructions or from a synthetic one for every choice of options.

Every draw is seeded by its purpose, so a goal's price bound does not depend on the number of products read before it,
and index i is the same goal in every process. The order is upstream's own: its shuffle has a fixed seed.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from align_echo.dice import Dice
from align_echo.wrappers.webshop.products import Product

NO_BOUND = 1_000_000.0
"""Bound of a goal without a price, in dollars."""

SHUFFLE_SEED = 233
_BOUNDS = tuple(10.0 * step for step in range(1, 100))


@dataclass(frozen=True)
class ShoppingInstruction:
    """Text written for a product, with the attributes and option values it asks for."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShoppingGoal:
    """Task. `row` is the product's row in the catalogue; a price up to `price_upper` dollars is accepted.

    `weight` is upstream's relative sampling frequency; here all goals are sampled alike.
    """

    row: int
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    price_upper: float
    weight: float = 1.0

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> ShoppingGoal:
        """Build a goal from the JSON of `dataclasses.asdict`."""
        lists = {"attributes": tuple(record["attributes"]), "options": tuple(record["options"])}
        return cls(**{**record, **lists})


def human_goals(row: int, product: Product, instructions: Sequence[ShoppingInstruction]) -> Iterator[ShoppingGoal]:
    """Yield a goal for each instruction that names an attribute."""
    for number, written in enumerate(instructions):
        if written.attributes:
            bound, price_text = price_bound(product.price, f"{product.asin} {number}")
            text = written.text.strip(".") + price_text
            yield ShoppingGoal(row, text, written.attributes, written.options, bound)


def synthetic_goals(row: int, product: Product, written: ShoppingInstruction) -> Iterator[ShoppingGoal]:
    """Yield a goal for each choice of one value from every group of options."""
    bound, price_text = price_bound(product.price, f"{product.asin} synthetic")
    groups = sorted(product.options)
    for values in itertools.product(*(values for _, values in groups)):
        chosen = ", and ".join(f"{name}: {value}" for (name, _), value in zip(groups, values, strict=True))
        with_options = f" with {chosen}" if chosen else ""
        yield ShoppingGoal(row, f"{written.text}{with_options}{price_text}", written.attributes, values, bound)


def add_weights(goals: Sequence[ShoppingGoal]) -> list[ShoppingGoal]:
    """Add weights to synthetic goals: the mean of 1 / number of goals that ask for an attribute."""
    uses = Counter(attribute for goal in goals for attribute in goal.attributes)
    return [
        replace(goal, weight=sum(1 / uses[attribute] for attribute in goal.attributes) / len(goal.attributes))
        for goal in goals
    ]


def price_bound(price: float, seed: str) -> tuple[float, str]:
    """Draw the highest allowed price, in dollars, and its wording.

    It is the larger of two of the next four multiples of 10 (up to 990) above the price; there is no bound if fewer
    than two are left.
    """
    above = [bound for bound in _BOUNDS if bound > price][:4]
    if len(above) < 2:
        return NO_BOUND, ""
    bound = max(Dice(f"bound {seed}").shuffled(above)[:2])
    return bound, f", and price lower than {bound:.2f} dollars"


def price_between(low: float, high: float, asin: str) -> float:
    """Draw the price of a product with a range of prices, in dollars."""
    return Dice(f"price {asin}").between(low, high)


def sort_goals(goals: Iterable[ShoppingGoal]) -> list[ShoppingGoal]:
    """Sort goals in the order of their indices."""
    order = list(goals)
    random.Random(SHUFFLE_SEED).shuffle(order)
    return order
