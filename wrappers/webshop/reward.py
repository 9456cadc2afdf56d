"""Score of a purchase, between 0 and 1: WebShop's own formula, in pure functions.

score = type factor * (attribute hits + option hits + 1 if the price is accepted) / (attributes + options + 1). Differs
from upstream in the tagger that finds the nouns of a title: textblob (no download) instead of spaCy.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence

from thefuzz import fuzz

from align_echo.wrappers.webshop.goals import ShoppingGoal
from align_echo.wrappers.webshop.products import Product

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
    return sum(
        any(fuzz.token_set_ratio(own, attribute) > ALIKE for own in product.attributes)
        or any(attribute in text for text in product.prose)
        for attribute in attributes
    )


def option_hits(chosen: Collection[str], options: Sequence[str]) -> int:
    """Count the requested options among the chosen values, with colors reduced to their main word."""
    values = [main_color(value) for value in chosen]
    return sum(any(fuzz.token_set_ratio(value, main_color(option)) > ALIKE for value in values) for option in options)


def main_color(value: str) -> str:
    """Return the first color of `COLORS` in a value ("dark navy blue" -> "blue"), or the value itself."""
    return next((color for color in COLORS if color in value), value)
