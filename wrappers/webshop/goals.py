"""Goals: what a shopper is told to buy, from instructions that people wrote or from one for every choice of options.

Every draw is seeded by what it is for, so a goal's bound does not depend on how many products were read before it, and
index i is the same goal in every process. The order is upstream's own: its shuffle has a fixed seed.
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
"""The bound of a goal that names no price, in dollars."""

SHUFFLE_SEED = 233
_BOUNDS = tuple(10.0 * step for step in range(1, 100))


@dataclass(frozen=True)
class Instruction:
    """What was written for a product, with the attributes and option values that it asks for."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShoppingGoal:
    """A task. `row` is the product's place in the catalogue; a price up to `price_upper` dollars is in order.

    `weight` is how often upstream draws it relative to others; here every goal is drawn alike.
    """

    row: int
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    price_upper: float
    weight: float = 1.0

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> ShoppingGoal:
        """A goal from the JSON that `dataclasses.asdict` made of one."""
        lists = {"attributes": tuple(record["attributes"]), "options": tuple(record["options"])}
        return cls(**{**record, **lists})


def human_goals(row: int, product: Product, instructions: Sequence[Instruction]) -> Iterator[ShoppingGoal]:
    """One goal for each instruction that names an attribute."""
    for number, written in enumerate(instructions):
        if written.attributes:
            bound, price_text = price_bound(product.price, f"{product.asin} {number}")
            text = written.text.strip(".") + price_text
            yield ShoppingGoal(row, text, written.attributes, written.options, bound)


def synthetic_goals(row: int, product: Product, written: Instruction) -> Iterator[ShoppingGoal]:
    """One goal for each choice of one value from every group of options."""
    bound, price_text = price_bound(product.price, f"{product.asin} synthetic")
    groups = sorted(product.options)
    for values in itertools.product(*(values for _, values in groups)):
        chosen = ", and ".join(f"{name}: {value}" for (name, _), value in zip(groups, values, strict=True))
        with_options = f" with {chosen}" if chosen else ""
        yield ShoppingGoal(row, f"{written.text}{with_options}{price_text}", written.attributes, values, bound)


def weighted(goals: Sequence[ShoppingGoal]) -> list[ShoppingGoal]:
    """Synthetic goals with their weights: the mean of 1 / how many goals ask for an attribute."""
    uses = Counter(attribute for goal in goals for attribute in goal.attributes)
    return [
        replace(goal, weight=sum(1 / uses[attribute] for attribute in goal.attributes) / len(goal.attributes))
        for goal in goals
    ]


def price_bound(price: float, seed: str) -> tuple[float, str]:
    """The most that may be paid, in dollars, and the words that say so.

    The larger of two of the next four multiples of 10 (up to 990) above the price; none where fewer than two are left.
    """
    above = [bound for bound in _BOUNDS if bound > price][:4]
    if len(above) < 2:
        return NO_BOUND, ""
    bound = max(Dice(f"bound {seed}").shuffled(above)[:2])
    return bound, f", and price lower than {bound:.2f} dollars"


def price_between(low: float, high: float, asin: str) -> float:
    """The price of a product with a range of prices, in dollars."""
    return Dice(f"price {asin}").between(low, high)


def in_order(goals: Iterable[ShoppingGoal]) -> list[ShoppingGoal]:
    """Goals in the order that their indices count."""
    order = list(goals)
    random.Random(SHUFFLE_SEED).shuffle(order)
    return order
