"""Score of a purchase, between 0 and 1: WebShop's own formula, in pure functions.

score = type factor * (attribute hits + option hits + 1 if the price is accepted) / (attributes + options + 1). Differs
from upstream in the tagger that finds the nouns of a title: textblob (no download) instead of spaCy.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from align_echo.base.dice import Dice

# ---------------------------------------------------------------- product of the catalogue

NO_ATTRIBUTES = ("DUMMY_ATTR",)
"""Attributes of a product without any in the data, as in upstream."""


class PageNode(NamedTuple):
    """Visible text of a page. A link is a product's code; an option is a value that can be chosen."""

    kind: Literal["text", "button", "link", "option"]
    text: str


@dataclass(frozen=True)
class Product:
    """Product of the catalogue.

    `price` is in dollars and enters the reward; `price_tag` is the text on pages, a range for some. `options` are
    (name, values) in page order, all lower case. `product_category` is a path with "›" between its parts.
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    price_tag: str
    price: float
    category: str
    query: str
    product_category: str
    options: tuple[tuple[str, tuple[str, ...]], ...]
    attributes: tuple[str, ...]

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Product:
        """Build a product from the JSON of `dataclasses.asdict`."""
        options = tuple((name, tuple(values)) for name, values in record["options"])
        lists = {"bullets": tuple(record["bullets"]), "attributes": tuple(record["attributes"]), "options": options}
        return cls(**{**record, **lists})

    @property
    def document(self) -> str:
        """Searchable text: title, description, first bullet point and options, in lower case."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        return " ".join((self.title, self.description, *self.bullets[:1], options)).lower()

    @functools.cached_property
    def prose(self) -> tuple[str, str, str]:
        """Title, bullet points and description in lower case, searched for attributes."""
        return self.title.lower(), " ".join(self.bullets).lower(), self.description.lower()

    @functools.cached_property
    def option_groups(self) -> dict[str, str]:
        """Option value -> name of its group; for a value in several groups, the last."""
        return {value: name for name, values in self.options for value in values}

    @property
    def listing(self) -> tuple[PageNode, ...]:
        """Product on a page of results."""
        return (PageNode("link", self.asin), *texts(self.title, self.price_tag))

    @functools.cached_property
    def options_shown(self) -> tuple[PageNode, ...]:
        """Options on the item page: each name, then its values."""
        return tuple(
            node
            for name, values in self.options
            for node in (*texts(name), *(PageNode("option", value) for value in values))
        )

    @functools.cached_property
    def facts_shown(self) -> tuple[PageNode, ...]:
        """Title, price and rating on the item page. There are no ratings, because the data has no reviews."""
        return texts(self.title, f"Price: {self.price_tag}", "Rating: N.A.")


def texts(*lines: str) -> tuple[PageNode, ...]:
    """Make plain texts of a page, stripped, without empty ones."""
    return tuple(PageNode("text", line.strip()) for line in lines if line.strip())


# ---------------------------------------------------------------- goals of shoppers

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


# ---------------------------------------------------------------- score of a purchase, between 0 and 1

ALIKE = 85
"""Words of attributes or options are equal above this `token_set_ratio`."""

_COLOR_WORDS = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom
mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire
seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white
wine yellow
"""
COLORS = tuple(_COLOR_WORDS.split())
"""Words that upstream takes for colors, in its order."""


def score(bought: Product, chosen: Collection[str], goal: ShoppingGoal, wanted: Product) -> float:
    """Compute the score of buying a product with the chosen option values; `wanted` is the goal's product."""
    hits = attribute_hits(bought, goal.attributes) + option_hits(chosen, goal.options)
    hits += bought.price <= goal.price_upper
    return type_factor(bought, wanted) * (hits / (len(goal.attributes) + len(goal.options) + 1))


def type_factor(bought: Product, wanted: Product) -> float:
    """Rate the similarity of two products' kinds: 1, 0.5, 0.1 or 0."""
    shared = title_score(bought.title, wanted.title)
    if shared == 0:
        return 0.0
    if shared < 0.1:
        return 0.1
    same_kind = bought.query == wanted.query or shares_categories(bought, wanted) or shared > 0.2
    return 1.0 if same_kind else 0.5


def shares_categories(bought: Product, wanted: Product) -> bool:
    """Check if at least two parts of the category paths are equal, in any order."""
    return len(_parts(bought.product_category) & _parts(wanted.product_category)) >= 2


def _parts(path: str) -> set[str]:
    return {part.strip() for part in path.split("›")}


def title_score(bought: str, wanted: str) -> float:
    """Compute the share of the wanted title's nouns in the other title; 0.2 if there are none."""
    nouns = title_nouns(wanted)
    return len(set(nouns) & set(title_nouns(bought))) / len(nouns) if nouns else 0.2


@functools.lru_cache(maxsize=20_000)
def title_nouns(title: str) -> tuple[str, ...]:
    """Return the nouns and proper nouns of a title in lower case, with repeats."""
    from textblob.en import tag

    tagged = tag(title)
    return tuple(word.lower() for word, kind in tagged if kind.startswith("NN") and any(map(str.isalnum, word)))


def attribute_hits(product: Product, attributes: Sequence[str]) -> int:
    """Count the attributes the product has: among its own, or word for word in its texts."""
    from thefuzz import fuzz

    return sum(
        any(fuzz.token_set_ratio(own, attribute) > ALIKE for own in product.attributes)
        or any(attribute in text for text in product.prose)
        for attribute in attributes
    )


def option_hits(chosen: Collection[str], options: Sequence[str]) -> int:
    """Count the requested options among the chosen values, with colors reduced to their main word."""
    from thefuzz import fuzz

    values = [main_color(value) for value in chosen]
    return sum(any(fuzz.token_set_ratio(value, main_color(option)) > ALIKE for value in values) for option in options)


def main_color(value: str) -> str:
    """Return the first color of `COLORS` in a value ("dark navy blue" -> "blue"), or the value itself."""
    return next((color for color in COLORS if color in value), value)
