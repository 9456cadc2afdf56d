"""The loss of real forward passes: equal to an unpadded reference, and blind to what was not sampled."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from align_echo.tokens import TokenSequence
from align_echo.train.batching import Normalisation, batches, scales
from align_echo.train.forward import check_parts, token_logprobs
from align_echo.train.objective import ObjectiveSettings, batch_loss, shaped
from align_echo.train.rows import Role, Row
from tests.models.local.tiny import tiny_model

Scaling = tuple[Normalisation, bool]
"""How rows are averaged, and whether over both roles together."""


def row(dice: random.Random, role: Role = "policy", *, moved: bool = False, expert: bool = False) -> Row:
    length = dice.randint(4, 20)
    start = dice.randint(1, length - 2)
    mask = [0] * start + [int(dice.random() < 0.6) for _ in range(length - start - 1)] + [1]
    tokens = TokenSequence(
        ids=tuple(dice.randrange(3, 290) for _ in range(length)),
        mask=tuple(mask),
        logprobs=tuple(-6.0 * value * dice.random() for value in mask),
        turns=((start, length),),
    )
    return Row(tokens, role, "g", 0.0, moved=moved, expert=expert)


def alike(role: Role, prompt: tuple[int, ...], rests: Sequence[tuple[int, ...]], **kind: bool) -> list[Row]:
    """Rows that begin with one prompt, and of the rest of which every token was sampled."""
    rows_drawn = []
    for rest in rests:
        ids, nothing = (*prompt, *rest), (0,) * len(prompt)
        logprobs = (*[0.0] * len(prompt), *(-0.1 * first for first in range(1, len(rest) + 1)))
        turns = ((len(prompt), len(ids)),)
        rows_drawn.append(
            Row(TokenSequence(ids, (*nothing, *(1 for _ in rest)), logprobs, turns), role, "h", 0.0, **kind)
        )
    return rows_drawn


def some_rows(seed: int = 0) -> tuple[list[Row], list[float]]:
    """Some that have nothing in common, and some that begin alike: one is the beginning of another, two are the same,
    two have one token of their own, one of these in the place where others have many.
    """
    dice = random.Random(seed)
    rows = [row(dice) for _ in range(4)] + [row(dice, "critic") for _ in range(3)]
    rows += [row(dice, moved=True) for _ in range(2)] + [row(dice, expert=True)]
    prompt = tuple(range(30, 41))
    rows += alike("policy", prompt, [(50, 51, 52, 53, 54), (50,), (50, 51), (60, 61, 62), (60, 61, 62), (70,)])
    rows += alike("policy", prompt, [(80, 81)], moved=True) + alike("policy", prompt, [(90, 91)], expert=True)
    rows += alike("critic", (*prompt[:6], 3, 4), [(50, 51), (52,)])
    return rows, [dice.uniform(-2, 2) for _ in rows]


def gradients(
    model: Any,
    objective: ObjectiveSettings,
    size: int,
    sharing: bool,
    scaling: Scaling,
    shift: float,
    stale: bool = False,
) -> tuple[float, list[torch.Tensor]]:
    """Loss and gradient of a step, its rows in batches of a size, as trees or each by itself; `shift`
    moves the old log-probabilities.
    """
    rows, advantages = some_rows()
    total = 0.0
    summed = [torch.zeros_like(parameter) for parameter in model.parameters()]
    scale = scales(rows, scaling[0], together=scaling[1])
    divided = batches(rows, advantages, scale, tokens_per_batch=size, share=sharing)
    assert {batch.role for batch in divided if batch.tree} == ({"policy", "critic"} if sharing else set())
    for batch in divided:
        logprobs, _ = token_logprobs(model, batch.ids, batch.mask, tree=batch.tree)
        old = logprobs.detach() + shift
        loss = batch_loss(batch, logprobs, objective, old=old, reference=old - 0.3, stale=stale).loss
        for mine, each in zip(summed, torch.autograd.grad(loss, list(model.parameters())), strict=True):
            mine += each
        total += float(loss.detach())
    return total, summed


def reference(
    model: Any, objective: ObjectiveSettings, scaling: Scaling, shift: float, stale: bool = False
) -> tuple[float, list[torch.Tensor]]:
    """The same, row by row without padding, from the model's logits, every term written out."""
    rows, advantages = some_rows()
    normalisation, together = scaling
    low, high = 1 - objective.clip_low, 1 + objective.clip_high
    roles = [row.role for row in rows]
    total = torch.zeros(())
    for row, advantage in zip(rows, advantages, strict=True):
        ids, places = torch.tensor(row.tokens.ids), [index for index, on in enumerate(row.tokens.mask) if on]
        logprobs = model(input_ids=ids[None]).logits[0].log_softmax(-1)
        in_mean = [other for other, role in zip(rows, roles, strict=True) if together or role == row.role]
        scale = 1 / (len(in_mean) * len(places))
        if normalisation == "token":
            scale = 1 / sum(sum(other.tokens.mask) for other in in_mean)
        own = torch.stack([logprobs[position - 1, ids[position]] for position in places])
        ratio = (own - own.detach() - shift).exp()
        if objective.ratio == "sequence":
            ratio = (own - own.detach() - shift).mean().exp().expand(len(places))
        sampled = torch.tensor([row.tokens.logprobs[position] for position in places])
        since = own.detach() + shift - sampled
        if objective.ratio == "sequence":
            since = since.mean().expand(len(places))
        for position, logprob, each, moved in zip(places, own, ratio, since.exp(), strict=True):
            term = -min(each * advantage, each.clamp(low, high) * advantage)
            if row.moved and objective.reweigh:
                weight = math.exp(float(logprob.detach()) + shift - row.tokens.logprobs[position])
                term = term * min(objective.max_weight, weight)
            if stale and objective.corrected and not row.moved:
                term = term * min(objective.max_weight, float(moved))
            if row.expert:
                term = -(logprob if objective.expert == "likelihood" else shaped(logprob.exp())) * advantage
            away = (logprob.detach() + shift - 0.3) - logprob
            term = term + objective.beta * (-away if objective.kl == "k1" else away.exp() - away - 1)
            total = total + scale * term
    return float(total.detach()), list(torch.autograd.grad(total, list(model.parameters())))


OBJECTIVES = {
    "grpo": ObjectiveSettings(),
    "kl": ObjectiveSettings(beta=0.1),
    "k1": ObjectiveSettings(beta=0.1, kl="k1"),
    "gspo": ObjectiveSettings(ratio="sequence"),
    "not reweighed": ObjectiveSettings(reweigh=False),
    "weights held lower": ObjectiveSettings(max_weight=0.3),
    "uneven clip": ObjectiveSettings(clip_low=0.1, clip_high=0.18),
    "likelihood": ObjectiveSettings(expert="likelihood"),
}


@pytest.mark.parametrize("scaling", [("sequence", False), ("token", False), ("sequence", True), ("token", True)])
@pytest.mark.parametrize("shift", [0.15, *(pytest.param(shift, marks=pytest.mark.long) for shift in (0.0, -0.3))])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_batches_give_the_loss_and_gradient_of_rows_alone(name, shift, scaling):
    model = torch.nn.Module.to(tiny_model(), torch.float64)
    wanted, wanted_gradients = reference(model, OBJECTIVES[name], scaling, shift)
    for size, sharing in ((20, False), (20, True), (1000, False), (1000, True)):
        loss, found_gradients = gradients(model, OBJECTIVES[name], size, sharing, scaling, shift)
        assert loss == pytest.approx(wanted, abs=1e-6)
        for found_gradient, other in zip(found_gradients, wanted_gradients, strict=True):
            assert float((found_gradient - other).abs().max()) <= 1e-6


STALE = {
    "grpo": ObjectiveSettings(),
    "gspo": ObjectiveSettings(ratio="sequence"),
    "not reweighed": ObjectiveSettings(reweigh=False),
    "uncorrected": ObjectiveSettings(corrected=False),
}


@pytest.mark.parametrize("name", STALE)
def test_rows_that_earlier_weights_sampled_count_by_how_much_likelier_they_became(name):
    model = torch.nn.Module.to(tiny_model(), torch.float64)
    scaling: Scaling = ("token", False)
    wanted, wanted_gradients = reference(model, STALE[name], scaling, 0.15, stale=True)
    loss, found_gradients = gradients(model, STALE[name], 1000, True, scaling, 0.15, stale=True)
    assert loss == pytest.approx(wanted, abs=1e-6)
    for found_gradient, other in zip(found_gradients, wanted_gradients, strict=True):
        assert float((found_gradient - other).abs().max()) <= 1e-6
    fresh, _ = gradients(model, STALE[name], 1000, True, scaling, 0.15)
    assert (fresh == loss) == (name == "uncorrected")


def test_only_sampled_tokens_are_learned_from():
    rows, advantages = some_rows()
    (batch,) = batches(rows[:1], advantages[:1], [1.0], tokens_per_batch=100)
    model = tiny_model()
    logprobs, entropies = token_logprobs(model, batch.ids, batch.mask)
    assert ((logprobs != 0) == batch.mask.bool()).all()
    assert ((entropies > 0) == batch.mask.bool()).all()
    logits = model(input_ids=batch.ids).logits[:, :-1].log_softmax(-1)
    wanted = logits.gather(-1, batch.ids[:, 1:, None]).squeeze(-1)
    assert torch.allclose(logprobs, wanted * batch.mask, atol=1e-5)


def test_a_temperature_is_that_of_sampling():
    model, ids = tiny_model(), torch.tensor([[5, 6, 7, 8]])
    logprobs, _ = token_logprobs(model, ids, torch.ones(1, 3), temperature=0.5)
    wanted = (model(input_ids=ids).logits[:, :-1] / 0.5).log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    assert torch.allclose(logprobs, wanted, atol=1e-5)


def test_the_mismatch_with_sampling_is_shown_for_rows_as_sampled_alone():
    rows, advantages = some_rows()
    for batch in batches(rows, advantages, scales(rows, "token"), tokens_per_batch=1000):
        logprobs, _ = token_logprobs(tiny_model(), batch.ids, batch.mask)
        loss = batch_loss(batch, logprobs, ObjectiveSettings())
        assert loss.mismatch is not None
        shown = (loss.mismatch > 0).any(-1, keepdim=True)
        assert (shown == ~(batch.moved | batch.expert)).all()


def test_the_head_is_checked_against_the_models_own_logits():
    model = tiny_model()
    check_parts(model, torch.tensor([3, 4, 5]))

    def capped(module: Any, arguments: Any, output: Any) -> Any:
        output.logits = output.logits.tanh()
        return output

    model.register_forward_hook(capped)
    with pytest.raises(ValueError, match="changes its logits"):
        check_parts(model, torch.tensor([3, 4, 5]))
