"""Goals: texts, bounds and order; the same in every process."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.wrappers.webshop.reward import (
    NO_BOUND,
    ShoppingGoal,
    ShoppingInstruction,
    add_weights,
    human_goals,
    price_between,
    price_bound,
    sort_goals,
    synthetic_goals,
)
from tests.wrappers.webshop.test_reward import LAMP

SHUFFLED = [5, 9, 0, 1, 4, 7, 6, 3, 8, 2]
"""What `random.seed(233); random.shuffle(list(range(10)))` gives."""


@given(st.floats(min_value=0, max_value=979.99), st.text(max_size=5))
def test_a_bound_is_the_larger_of_two_of_the_four_next_tens(price, seed):
    bound, text = price_bound(price, seed)
    above = [ten for ten in range(10, 1000, 10) if ten > price][:4]
    assert bound in above[1:]
    assert text == f", and price lower than {bound:.2f} dollars"


@pytest.mark.parametrize("price", [980, 985.5, 990, 5000])
def test_dear_products_have_no_bound(price):
    assert price_bound(price, "x") == (NO_BOUND, "")


def test_a_price_just_below_that_has_the_only_bound_left():
    assert price_bound(979.0, "x") == (990.0, ", and price lower than 990.00 dollars")


def test_every_possible_bound_is_drawn():
    assert {price_bound(5.0, str(seed))[0] for seed in range(100)} == {20.0, 30.0, 40.0}


def test_a_price_lies_in_its_range():
    assert all(10 <= price_between(10, 12, str(seed)) <= 12 for seed in range(50))
    assert len({price_between(10, 12, str(seed)) for seed in range(50)}) > 20


def test_only_instructions_that_ask_for_an_attribute_become_goals():
    instructions = [ShoppingInstruction("..a lamp..", ("brass",), ("xl",)), ShoppingInstruction("a shelf", ())]
    (goal,) = human_goals(7, LAMP, instructions)
    assert goal.instruction == f"a lamp, and price lower than {goal.price_upper:.2f} dollars"
    assert (goal.row, goal.attributes, goal.options, goal.weight) == (7, ("brass",), ("xl",), 1.0)


def test_a_synthetic_goal_stands_for_each_choice_of_options():
    product = replace(LAMP, options=(("size", ("s", "l")), ("color", ("red",))))
    goals = list(synthetic_goals(0, product, ShoppingInstruction("Find me brass lamps", ("brass",))))
    bound = f", and price lower than {goals[0].price_upper:.2f} dollars"
    assert [goal.instruction for goal in goals] == [
        f"Find me brass lamps with color: red, and size: s{bound}",
        f"Find me brass lamps with color: red, and size: l{bound}",
    ]
    assert [goal.options for goal in goals] == [("red", "s"), ("red", "l")]


def test_a_product_without_options_has_one_synthetic_goal():
    (goal,) = synthetic_goals(0, replace(LAMP, options=()), ShoppingInstruction("Find me lamps", ("brass",)))
    assert goal.instruction.startswith("Find me lamps, and price lower than ")


def test_a_weight_is_the_mean_of_one_over_how_often_each_attribute_is_asked():
    goals = [ShoppingGoal(0, "", ("a", "b"), (), 1.0), ShoppingGoal(0, "", ("a",), (), 1.0)]
    assert [goal.weight for goal in add_weights(goals)] == [pytest.approx((1 / 2 + 1) / 2), 1 / 2]


def test_the_order_is_that_of_a_shuffle_with_upstreams_seed():
    goals = [ShoppingGoal(number, "", ("a",), (), 1.0) for number in range(10)]
    assert [goal.row for goal in sort_goals(goals)] == SHUFFLED
    assert sorted(goal.row for goal in sort_goals(goals)) == list(range(10))
