"""Advantages: hand-computed cases, means of zero, and what is counted."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import UsageError
from align_echo.train.advantages import DELTA, group_advantages


def test_two_groups_by_hand():
    advantages = group_advantages([1.0, 0.0, 0.0, 4.0, 2.0], ["a", "a", "a", "b", "b"])
    assert advantages.values[:3] == pytest.approx([2 / 3 / (3**-0.5 + DELTA), *[-1 / 3 / (3**-0.5 + DELTA)] * 2])
    assert advantages.values[3:] == pytest.approx([1 / (2**0.5 + DELTA), -1 / (2**0.5 + DELTA)])
    assert (advantages.groups, advantages.zero_variance, advantages.singletons) == (2, 0, 0)


def test_groups_that_teach_nothing_have_advantage_0_and_are_counted():
    advantages = group_advantages([0.1, 0.1, 0.1, 0.7], ["same", "same", "same", "alone"])
    assert advantages.values == (0.0, 0.0, 0.0, 0.0)
    assert (advantages.groups, advantages.zero_variance, advantages.singletons) == (2, 1, 1)


def test_rewards_that_differ_by_rounding_alone_are_not_blown_up():
    assert max(map(abs, group_advantages([0.3, 0.1 + 0.2], ["g", "g"]).values)) < 1e-10


def test_roles_are_not_compared_with_each_other():
    apart = group_advantages([0.0, 1.0, 10.0, 11.0], [("q", "policy")] * 2 + [("q", "critic")] * 2)
    assert apart.values[:2] == apart.values[2:]
    together = group_advantages([0.0, 1.0, 10.0, 11.0], ["q"] * 4)
    assert together.values[1] < 0 < together.values[2]


groups = st.lists(st.tuples(st.floats(-10, 10), st.integers(0, 4)), max_size=40)


@given(groups, st.booleans())
def test_every_group_has_mean_0_and_keeps_its_order(pairs, scaled):
    rewards, keys = [reward for reward, _ in pairs], [key for _, key in pairs]
    values = group_advantages(rewards, keys, scaled=scaled).values
    for key in set(keys):
        inside = [(reward, value) for reward, group, value in zip(rewards, keys, values, strict=True) if group == key]
        assert statistics.fmean(value for _, value in inside) == pytest.approx(0, abs=1e-8)
        assert [value for _, value in sorted(inside)] == sorted(value for _, value in inside)


@given(groups)
def test_the_order_of_the_rows_does_not_matter(pairs):
    values = group_advantages([reward for reward, _ in pairs], [key for _, key in pairs]).values
    backwards = group_advantages([reward for reward, _ in pairs[::-1]], [key for _, key in pairs[::-1]]).values
    assert values == pytest.approx(backwards[::-1])


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_that_is_none_is_refused(reward):
    with pytest.raises(UsageError, match="reward 1 is"):
        group_advantages([0.0, reward], ["g", "g"])


def test_keys_and_rewards_must_pair():
    with pytest.raises(UsageError, match="2 rewards and 1 group keys"):
        group_advantages([0.0, 1.0], ["g"])
