"""Ratios beyond float32: loss and gradient beside slow ones in exact arithmetic, wherever two models are apart."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import pytest
import torch

from align_echo.train.batching import batches, scales
from align_echo.train.forward import token_logprobs
from align_echo.train.objective import (
    LARGEST,
    ObjectiveSettings,
    batch_loss,
    calibration_weights,
    clipped_terms,
    exponential,
    kl_terms,
    near,
    ratios,
    stale_weights,
)
from tests.models.local.tiny import tiny_model
from tests.train.test_loss import some_rows

LOW, HIGH = 0.2, 0.3
APART = [0.0, 0.1, -0.1, 50.0, -50.0, 79.0, 89.0, -89.0, 100.0, 200.0, -200.0, 5000.0, -5000.0]
"""Nats between two models."""

WIDTHS = {torch.float32: 1e-5, torch.bfloat16: 1e-5, torch.float16: 1e-5, torch.float64: 1e-12}
"""Kinds of numbers, which hold all of these exactly but 0.1, and how near the results are."""

getcontext().prec = 60


def row(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor([values], dtype=dtype)


def e_to(power: float) -> Decimal:
    return Decimal(min(power, LARGEST)).exp()


def slow_term(apart: float, advantage: float) -> tuple[float, float]:
    """PPO's term and its slope in the log-probability, case by case."""
    ratio, gain = e_to(apart), Decimal(advantage)
    if advantage > 0 and apart > math.log(1 + HIGH):
        return -(1 + HIGH) * advantage, 0.0
    if advantage < 0 and apart < math.log(1 - LOW):
        return -(1 - LOW) * advantage, 0.0
    return float(-ratio * gain), float(-ratio * gain)


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0, 2.5, -2.5])
@pytest.mark.parametrize("apart", APART)
def test_a_clipped_term_and_its_slope_are_the_exact_ones(apart, advantage, level, dtype):
    logprobs = row(-1.0, dtype=dtype).requires_grad_()
    old = row(-1.0 - apart, dtype=dtype)
    exactly = float(logprobs.detach().double() - old.double())
    term = clipped_terms(ratios(logprobs, old, row(1.0), level), row(advantage), LOW, HIGH)
    value, slope = slow_term(exactly, advantage)
    assert term.item() == pytest.approx(value, rel=WIDTHS[dtype], abs=1e-30)
    within = max(WIDTHS[dtype], 0.004 if dtype is torch.bfloat16 else 0.001 if dtype is torch.float16 else 0.0)
    if abs(slope) < torch.finfo(dtype).max:  # a slope is of the kind of what it is of
        assert torch.autograd.grad(term.sum(), logprobs)[0].item() == pytest.approx(
            slope, rel=within, abs=torch.finfo(dtype).tiny
        )


@pytest.mark.parametrize("apart", APART)
def test_a_kl_estimate_and_its_slope_are_the_exact_ones_and_never_negative(apart):
    logprobs = row(-1.0 - apart).requires_grad_()
    exactly = float(row(-1.0).double() - logprobs.detach().double())
    term = kl_terms(logprobs, row(-1.0), row(1.0))
    wanted = e_to(exactly) - Decimal(exactly) - 1
    assert term.item() >= 0
    assert term.item() == pytest.approx(float(wanted), rel=1e-5)
    slope = torch.autograd.grad(term.sum(), logprobs)[0].item()
    assert slope == pytest.approx(float(1 - e_to(exactly)), rel=1e-5, abs=1e-7)


def test_a_kl_estimate_of_models_that_are_nearly_the_same_is_no_rounding():
    term = kl_terms(row(-1.0 - 2.0**-12), row(-1.0), row(1.0))
    assert term.item() == pytest.approx(2.0**-25, rel=1e-3)


@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("most", [2.0, 1e30, math.inf])
def test_weights_are_the_exact_ones_up_to_their_bound(apart, most):
    wanted = min(float(e_to(apart)), most)
    free, other = row(-1.0, dtype=torch.float64), row(-1.0 - apart, dtype=torch.float64)
    assert calibration_weights(free, other, row(1.0), most).item() == pytest.approx(wanted)
    assert stale_weights(free, other, row(1.0), "token", most).item() == pytest.approx(wanted)
    assert stale_weights(free, other, row(1.0), "sequence", most).item() == pytest.approx(wanted)


def test_a_sequence_is_as_far_off_as_its_tokens_in_the_mean():
    logprobs, old, mask = row(-1.0, -1.0, -1.0), row(-301.0, -1.0 + 299.0, 7.0), row(1.0, 1.0, 0.0)
    assert ratios(logprobs, old, mask, "sequence").tolist() == [pytest.approx([math.exp(0.5)] * 2 + [1.0])]


@pytest.mark.parametrize("exponent", [math.inf, 3e38, 81.0])
def test_what_is_held_is_held_at_one_value(exponent):
    held = exponential(row(exponent))
    assert held.item() == pytest.approx(math.exp(LARGEST), rel=1e-5)


def test_one_token_far_off_leaves_the_gradient_of_all_others_as_it_is():
    """A row whose advantage is positive: its token is clipped, and the rest of the batch learns as without it."""
    logprobs = row(-1.0, -1.0, -1.0).requires_grad_()
    old, mask = row(-1.1, -150.0, -0.9), row(1.0, 1.0, 1.0)
    terms = clipped_terms(ratios(logprobs, old, mask), row(1.0, 1.0, 1.0), LOW, HIGH)
    (slopes,) = torch.autograd.grad(terms.sum(), logprobs)
    assert slopes[0].tolist() == pytest.approx([-math.exp(0.1), 0.0, -math.exp(-0.1)])


@pytest.mark.parametrize("kind", ["policy", "moved", "expert"])
@pytest.mark.parametrize(
    "objective", [ObjectiveSettings(), ObjectiveSettings(beta=0.1), ObjectiveSettings(ratio="sequence", beta=0.1)]
)
@pytest.mark.parametrize("apart", [89.0, -89.0, 300.0])
def test_no_row_of_a_batch_has_a_gradient_that_is_no_number(apart, objective, kind):
    rows, advantages = some_rows()
    of_kind = {"policy": (False, False), "moved": (True, False), "expert": (False, True)}[kind]
    chosen = [index for index, each in enumerate(rows) if (each.moved, each.expert) == of_kind]
    rows, advantages = [rows[index] for index in chosen], [abs(advantages[index]) for index in chosen]
    model = tiny_model()
    for batch in batches(rows, advantages, scales(rows, "token"), tokens_per_batch=1000):
        logprobs, _ = token_logprobs(model, batch.ids, batch.mask)
        far = logprobs.detach() - apart
        loss = batch_loss(batch, logprobs, objective, old=far, reference=logprobs.detach(), stale=True).loss
        gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        assert all(bool(torch.isfinite(each).all()) for each in gradients if each is not None)


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("apart", [0.2, 95.0, -95.0, -500.0])
def test_a_loss_that_is_not_ours_has_our_gradient_on_what_is_near(apart, level):
    """As TRL writes it: e to the differences, then masks."""
    logprobs, advantages, mask = row(-1.0, -2.0, -3.0).requires_grad_(), row(-1.0, -1.0, -1.0), row(1.0, 0.0, 1.0)
    old, reference = row(-1.0 - apart, 0.0, -3.0 - apart), row(-1.0 + apart / 5, 0.0, -3.0)
    held = near(logprobs, mask, old_BT=old, reference_BT=reference, level=level)
    logs = held - old
    if level == "sequence":
        logs = ((logs * mask).sum(-1) / mask.sum(-1)).unsqueeze(-1)
    ratio = logs.exp()
    kl = (reference - held).exp() - (reference - held) - 1
    theirs = (-torch.min(ratio * advantages, ratio.clamp(1 - LOW, 1 + HIGH) * advantages) + 0.1 * kl) * mask
    terms = clipped_terms(ratios(logprobs, old, mask, level), advantages, LOW, HIGH)
    ours = (terms + 0.1 * kl_terms(logprobs, reference, mask)) * mask
    (wanted,), (slopes,) = (torch.autograd.grad(terms.sum(), logprobs) for terms in (ours, theirs))
    assert bool(torch.isfinite(slopes).all())
    assert torch.allclose(slopes, wanted, rtol=1e-4)


def test_words_that_a_model_rules_out_add_nothing_to_an_entropy():
    model = tiny_model()
    model.lm_head = torch.nn.Linear(32, 300)
    with torch.no_grad():
        model.lm_head.weight.zero_()
        model.lm_head.bias.fill_(-math.inf)
        model.lm_head.bias[10:14] = 0.0
    _, entropies = token_logprobs(model, torch.tensor([[11, 12, 13]]), torch.ones(1, 2))
    assert entropies.tolist() == [pytest.approx([math.log(4)] * 2)]
