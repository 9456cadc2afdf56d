"""The score of a purchase, branch by branch, against values worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from align_echo.wrappers.webshop.reward import (
    Product,
    ShoppingGoal,
    attribute_hits,
    main_color,
    option_hits,
    score,
    shares_categories,
    title_nouns,
    title_score,
    type_factor,
)

LAMP = Product(
    asin="B000000001",
    title="Brass Desk Lamp",
    description="A lamp with a Linen Shade.",
    bullets=("Dimmable in three steps", "Energy Saving bulb"),
    price_tag="$30.0",
    price=30.0,
    category="garden",
    query="desk lamps",
    product_category="Home › Lighting › Desk Lamps",
    options=(("color", ("dark navy", "white")), ("size", ("large",))),
    attributes=("easy to clean", "tea tree"),
)
TWELVE_NOUNS = "Alpha Bravo Charlie Delta Echo Foxtrot Golf Hotel India Juliet Kilo Lima"


def goal(**changes: object) -> ShoppingGoal:
    wanted = ShoppingGoal(0, "i need a lamp", ("easy to clean", "linen shade"), ("dark navy", "large"), 40.0)
    return replace(wanted, **changes)  # type: ignore[arg-type]


def like(**changes: object) -> Product:
    return replace(LAMP, **changes)  # type: ignore[arg-type]


def test_the_wanted_product_with_the_wanted_options_scores_one():
    assert score(LAMP, ("dark navy", "large"), goal(), LAMP) == 1.0


@pytest.mark.parametrize(
    ("chosen", "changes", "expected"),
    [
        ((), {}, 3 / 5),
        (("large",), {}, 4 / 5),
        (("dark navy", "large"), {"price_upper": 29.99}, 4 / 5),
        (("dark navy", "large"), {"price_upper": 30.0}, 1.0),
        (("dark navy", "large"), {"attributes": ("easy to clean", "gold plated")}, 4 / 5),
        ((), {"attributes": ("gold plated",), "options": (), "price_upper": 10.0}, 0.0),
        ((), {"attributes": ("easy to clean",), "options": ()}, 1.0),
    ],
)
def test_each_hit_counts_one_over_all_that_was_asked_and_the_price(chosen, changes, expected):
    assert score(LAMP, chosen, goal(**changes), LAMP) == pytest.approx(expected, abs=1e-12)


def test_the_type_factor_multiplies_the_hits():
    stranger = like(title="Kilo Shelf", query="shelves", product_category="Office")
    wanted = like(title=TWELVE_NOUNS)
    assert score(stranger, ("dark navy", "large"), goal(), wanted) == pytest.approx(0.1)


# ---------------------------------------------------------------- type


def factor(bought: str, wanted: str, query: str = "other", path: str = "Other") -> float:
    return type_factor(like(title=bought, query=query, product_category=path), like(title=wanted))


def test_the_nouns_of_the_titles_here_are_these():
    assert title_nouns("Oak table and lamp") == ("oak", "table", "lamp")
    assert title_nouns(TWELVE_NOUNS) == tuple(TWELVE_NOUNS.lower().split())
    assert title_nouns("running very quickly") == ()
    assert title_nouns("lamp lamp table") == ("lamp", "lamp", "table")


def test_a_title_that_shares_more_than_a_fifth_of_the_nouns_is_enough():
    assert title_score("glass lamp", "oak table and lamp") == pytest.approx(1 / 3)
    assert factor("glass lamp", "oak table and lamp") == 1.0


def test_little_in_common_halves_the_score_unless_query_or_categories_match():
    bought = "Kilo Lima"
    assert title_score(bought, TWELVE_NOUNS) == pytest.approx(2 / 12)
    assert factor(bought, TWELVE_NOUNS) == 0.5
    assert factor(bought, TWELVE_NOUNS, query="desk lamps") == 1.0
    assert factor(bought, TWELVE_NOUNS, path="Lighting › Bedroom › Home") == 1.0


def test_exactly_a_fifth_is_not_more_than_a_fifth():
    five = "Alpha Bravo Charlie Delta Echo"
    assert title_score("Alpha Shelf", five) == 0.2
    assert factor("Alpha Shelf", five) == 0.5


def test_below_a_tenth_the_factor_is_a_tenth_even_with_the_same_query():
    assert title_score("Kilo Shelf", TWELVE_NOUNS) == pytest.approx(1 / 12)
    assert factor("Kilo Shelf", TWELVE_NOUNS, query="desk lamps") == 0.1


def test_nothing_in_common_is_zero_even_with_the_same_query_and_categories():
    same = {"query": "desk lamps", "path": LAMP.product_category}
    assert title_score("Wool Carpet", "Brass Lamp") == 0
    assert factor("Wool Carpet", "Brass Lamp", **same) == 0.0


def test_a_wanted_title_without_nouns_counts_as_a_fifth():
    assert title_score("Wool Carpet", "running very quickly") == 0.2
    assert factor("Wool Carpet", "running very quickly") == 0.5
    assert factor("Wool Carpet", "running very quickly", query="desk lamps") == 1.0


def test_a_repeated_noun_counts_each_time_in_the_wanted_title_and_once_when_shared():
    assert title_score("lamp", "lamp lamp table") == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("Desk Lamps › Home", True),
        ("Home›Lighting", True),
        ("Home › Home › Garden", False),
        ("Home", False),
        ("", False),
    ],
)
def test_two_parts_of_the_path_in_any_order_make_the_same_category(path, shared):
    assert shares_categories(like(product_category=path), LAMP) is shared


# ---------------------------------------------------------------- attributes


@pytest.mark.parametrize(
    ("asked", "hits"),
    [
        ("easy to clean", 1),
        ("Easy Clean!", 1),
        ("easy", 1),
        ("easy cleaning", 0),
        ("brass desk", 1),
        ("three steps", 1),
        ("energy saving", 1),
        ("linen shade", 1),
        ("Linen Shade", 0),
        ("steps energy", 1),
        ("gold", 0),
    ],
)
def test_an_attribute_is_met_by_a_like_attribute_or_word_for_word_in_a_text(asked, hits):
    assert attribute_hits(LAMP, (asked,)) == hits


def test_a_product_without_attributes_is_looked_up_in_its_texts_alone():
    assert attribute_hits(like(attributes=("DUMMY_ATTR",)), ("linen shade", "easy to clean")) == 1


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("value", "color"),
    [
        ("dark navy", "dark"),
        ("navy blue", "blue"),
        ("violet lavender", "lavender"),
        ("123alabaster", "alabaster"),
        ("washed", "ash"),
        ("8 ounce", "8 ounce"),
        ("", ""),
    ],
)
def test_a_color_is_the_first_of_the_list_that_stands_in_the_value(value, color):
    assert main_color(value) == color


@pytest.mark.parametrize(
    ("chosen", "asked", "hits"),
    [
        (("pack of 12", "grey", "xl"), ("grey", "xl", "pack of 12"), 3),
        (("pack of 12", "blue", "xl"), ("grey", "xl", "pack of 12"), 2),
        (("light blue",), ("navy blue",), 1),
        (("powder snow",), ("cool powder snow",), 1),
        (("xl",), ("xl", "xl"), 2),
        ((), ("xl",), 0),
        (("xl",), (), 0),
        (("small",), ("x-small",), 1),
        (("large",), ("small",), 0),
    ],
)
def test_an_option_is_met_by_any_chosen_value_that_is_alike(chosen, asked, hits):
    assert option_hits(chosen, asked) == hits
