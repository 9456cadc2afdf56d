"""Rewards of critiques: hand-computed cases and the papers' identities."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import UsageError
from align_echo.train.rewards import linear_gain, revision_reward, saturation_gain

scores = st.floats(0, 1)


def test_the_gain_by_hand():
    assert saturation_gain(0.0, 1.0) == pytest.approx(math.log(11))
    assert saturation_gain(0.9, 0.95) == pytest.approx(math.log(0.2 / 0.15))
    assert saturation_gain(0.1, 0.15) == pytest.approx(math.log(1.0 / 0.95))
    assert saturation_gain(0.25, 0.75, eta=0.25) == pytest.approx(math.log(2))


@given(scores, scores, scores)
def test_the_gain_is_additive_along_a_path(start, middle, end):
    whole = saturation_gain(start, end)
    assert saturation_gain(start, middle) + saturation_gain(middle, end) == pytest.approx(whole, abs=1e-12)


@given(scores, scores)
def test_the_gain_is_antisymmetric_finite_and_of_the_sign_of_the_change(before, after):
    gain = saturation_gain(before, after)
    assert gain == pytest.approx(-saturation_gain(after, before), abs=1e-12)
    assert math.isfinite(gain)
    assert gain * (after - before) >= 0


@given(st.floats(0, 0.8), st.floats(0.01, 0.1), st.floats(0.01, 0.1))
def test_the_same_step_earns_more_nearer_to_a_full_score(score, step, further):
    assert saturation_gain(score + further, score + further + step) > saturation_gain(score, score + step)


def test_the_linear_gain_is_the_difference():
    assert linear_gain(0.25, 0.75) == 0.5
    assert linear_gain(0.75, 0.25) == -0.5


def test_a_revision_that_succeeds_earns_1_and_others_their_change():
    assert revision_reward(0.0, 1.0) == 1.0
    assert revision_reward(0.75, 1.0) == 1.0
    assert revision_reward(0.25, 0.5) == 0.25
    assert revision_reward(0.5, 0.25) == -0.25
    assert revision_reward(0.0, 0.0) == 0.0


@pytest.mark.parametrize("reward", [saturation_gain, linear_gain, revision_reward])
@pytest.mark.parametrize(("before", "after"), [(-0.1, 0.5), (0.5, 1.5), (math.nan, 0.5), (0.5, math.nan)])
def test_scores_out_of_range_are_refused(reward, before, after):
    with pytest.raises(UsageError, match=r"must lie in \[0, 1\]"):
        reward(before, after)


@pytest.mark.parametrize("eta", [0.0, -1.0, math.nan])
def test_an_eta_without_room_is_refused(eta):
    with pytest.raises(UsageError, match="eta must be above 0"):
        saturation_gain(0.0, 1.0, eta=eta)
