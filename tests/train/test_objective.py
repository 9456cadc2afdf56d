"""Losses: hand-computed cases, identities, and that nothing outside the mask counts."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.errors import UsageError
from align_echo.train.objective import (
    calibration_weights,
    clipped_terms,
    is_clipped,
    is_outside,
    kl_terms,
    ratios,
    shaped,
    stale_weights,
)

LOW, HIGH = 0.2, 0.3


def gradient(loss: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(loss, of)[0]


def row(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


def test_the_clipped_term_by_hand():
    ratio = row(0.5, 1.0, 2.0, 0.5, 1.0, 2.0)
    advantage = row(1.0, 1.0, 1.0, -1.0, -1.0, -1.0)
    assert clipped_terms(ratio, advantage, LOW, HIGH).tolist() == [[-0.5, -1.0, -1.3, 0.8, 1.0, 2.0]]
    assert is_clipped(ratio, advantage, LOW, HIGH).tolist() == [[False, False, True, True, False, False]]
    assert is_outside(ratio, LOW, HIGH).tolist() == [[True, False, True, True, False, True]]


def test_clipped_tokens_and_no_others_are_without_gradient():
    ratio = row(0.5, 1.0, 2.0, 0.5, 1.0, 2.0).requires_grad_()
    advantage = row(1.0, 1.0, 1.0, -1.0, -1.0, -1.0)
    slope = gradient(clipped_terms(ratio, advantage, LOW, HIGH).sum(), ratio)
    assert ((slope == 0) == is_clipped(ratio, advantage, LOW, HIGH)).all()


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_at_the_weights_of_sampling_the_gradient_is_the_policy_gradient(level):
    logprobs = row(-1.0, -2.0, -3.0).requires_grad_()
    mask = row(1, 0, 1)
    advantages = row(2.0, 2.0, 2.0)
    ratio = ratios(logprobs, logprobs.detach(), mask, level)
    loss = clipped_terms(ratio, advantages, LOW, HIGH)[mask.bool()].mean()
    assert gradient(loss, logprobs).tolist() == [[-1.0, 0.0, -1.0]]


def test_ratios_by_hand():
    logprobs, old, mask = row(-1.0, -2.0, -9.0), row(-2.0, -5.0, -1.0), row(1, 1, 0)
    assert ratios(logprobs, old, mask).tolist() == [pytest.approx([math.e, math.e**3, 1.0])]
    assert ratios(logprobs, old, mask, "sequence").tolist() == [pytest.approx([math.e**2, math.e**2, 1.0])]


@settings(max_examples=30)
@given(st.floats(-5, 0), st.floats(-5, 0))
def test_kl_estimates(logprob, reference):
    mask = row(1)
    k1, k3 = (kl_terms(row(logprob), row(reference), mask, name).item() for name in ("k1", "k3"))
    assert k1 == pytest.approx(logprob - reference)
    assert k3 >= 0
    assert k3 == pytest.approx(math.exp(reference - logprob) - 1 + k1, abs=1e-9)


def test_both_kl_estimates_have_the_divergence_as_their_mean():
    policy, reference = torch.tensor([0.5, 0.3, 0.2]).double().log(), torch.tensor([0.2, 0.2, 0.6]).double().log()
    exact = (policy.exp() * (policy - reference)).sum()
    for name in ("k1", "k3"):
        estimates = kl_terms(policy[None], reference[None], torch.ones(1, 3), name)
        assert (policy.exp() * estimates).sum() == pytest.approx(exact)


def test_calibration_weights_by_hand():
    free, conditioned = row(-1.0, -1.0, -3.0, -1.0), row(-2.0, -1.0, -1.0, -9.0)
    weights = calibration_weights(free, conditioned, row(1, 1, 1, 0))
    assert weights.tolist() == [pytest.approx([2.0, 1.0, math.exp(-2), 1.0])]


def test_calibration_weights_carry_no_gradient():
    free = row(-1.0).requires_grad_()
    assert not calibration_weights(free, row(-1.5), row(1)).requires_grad


def test_the_weights_of_stale_tokens_by_hand():
    now, sampled, mask = row(-1.0, -2.0, -1.0, -1.0), row(-2.0, -1.0, -1.0, -9.0), row(1, 1, 1, 0)
    assert stale_weights(now, sampled, mask).tolist() == [pytest.approx([2.0, math.exp(-1), 1.0, 1.0])]
    whole = stale_weights(now, sampled, row(1, 1, 0, 0), "sequence", most=5.0)  # exp((1 - 1) / 2)
    assert whole.tolist() == [pytest.approx([1.0, 1.0, 1.0, 1.0])]
    assert not stale_weights(now.requires_grad_(), sampled, mask).requires_grad
    with pytest.raises(UsageError, match="bound of the weights"):
        stale_weights(now, sampled, mask, most=0.0)


def test_stale_tokens_weighed_have_the_gradient_of_fresh_ones_in_the_mean():
    """Over all tokens, by how likely the earlier weights sample each: nothing is truncated here."""
    logits = row(0.3, -0.2, 0.1).requires_grad_()
    earlier, advantages = row(0.0, 0.4, -0.1).log_softmax(-1), row(1.0, -2.0, 0.5)
    wanted = gradient(-(logits.log_softmax(-1).exp() * advantages).sum(), logits)
    logprobs, mask = logits.log_softmax(-1), row(1, 1, 1)
    ratio = ratios(logprobs, logprobs.detach(), mask)
    terms = clipped_terms(ratio, advantages, LOW, HIGH) * stale_weights(logprobs, earlier, mask)
    assert torch.allclose(gradient((earlier.exp() * terms).sum(), logits), wanted)


def test_luffys_shaping_lifts_what_is_unlikely():
    probabilities = torch.tensor([0.01, 0.9], requires_grad=True)
    slope = gradient(shaped(probabilities).sum(), probabilities)
    assert shaped(torch.tensor(0.1)).item() == pytest.approx(0.5)
    assert slope[0] > slope[1]


@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 1e30])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_what_stands_outside_the_mask_changes_neither_loss_nor_gradient(garbage, level):
    def loss_and_gradient(outside: float) -> tuple[float, list[list[float]]]:
        logprobs = row(-1.0, outside, -3.0).requires_grad_()
        old, mask = row(-1.1, outside, -2.5), row(1, 0, 1)
        terms = clipped_terms(ratios(logprobs, old, mask, level), row(1.0, 1.0, 1.0), LOW, HIGH)
        terms = terms * calibration_weights(old, row(-1.0, outside, -2.0), mask)
        loss = (terms + 0.1 * kl_terms(logprobs, old, mask))[mask.bool()].mean()
        return loss.item(), gradient(loss, logprobs).tolist()

    assert loss_and_gradient(garbage) == loss_and_gradient(-2.0)


def test_bounds_that_hold_nothing_are_refused():
    with pytest.raises(UsageError, match="clip bounds"):
        clipped_terms(row(1.0), row(1.0), 1.5, HIGH)
    with pytest.raises(UsageError, match="bound of the weights"):
        calibration_weights(row(0.0), row(0.0), row(1), most=0.0)
