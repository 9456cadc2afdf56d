"""Conversations whose history is rewritten: a row for each context, with the loss of the conversation as a whole."""

from __future__ import annotations

import pytest
import torch

from align_echo.errors import UsageError
from align_echo.tokens import join
from align_echo.train.batching import Normalisation, batches, scales
from align_echo.train.forward import token_logprobs
from align_echo.train.objective import ObjectiveSettings, batch_loss
from align_echo.train.rows import Row, policy_row, without_critique
from align_echo.train.trainer import useful
from align_echo.types import Step, Tokens, Trajectory
from tests.models.local.tiny import tiny_model

FIRST = Tokens(context_ids=(10, 11, 12, 13), sampled_ids=(20, 21, 2), logprobs=(-1.0, -2.0, -0.5))
SECOND = Tokens(start=7, context_ids=(14, 15), sampled_ids=(22, 2), logprobs=(-1.5, -0.7))
THIRD = Tokens(start=11, context_ids=(16,), sampled_ids=(23, 24, 2), logprobs=(-3.0, -0.2, -0.1))
GROWN = join([FIRST, SECOND, THIRD])
AGAIN = join(
    [
        FIRST,
        SECOND.model_copy(update={"start": 3, "context_ids": GROWN.ids[3:9]}),
        THIRD.model_copy(update={"start": 5, "context_ids": GROWN.ids[5:12]}),
    ]
)
"""The same calls, as if the template had written the past anew at each, and in the same way."""
OTHER = join([FIRST])


def gradient(row: Row, normalisation: Normalisation, ratio: str) -> tuple[float, torch.Tensor]:
    """The loss of a step with this row beside another, and its gradient in all weights."""
    model = tiny_model()
    rows = [row, Row(OTHER, "policy", "a", 0.0)]
    scale = scales(rows, normalisation)
    chosen = useful(rows, [1.0, -1.0], scale, ["policy"], every=False)
    settings, total = ObjectiveSettings.model_validate({"ratio": ratio}), 0.0
    for batch in batches(*chosen, tokens_per_batch=20, share=False):
        logprobs, _ = token_logprobs(model, batch.ids, batch.mask)
        loss = batch_loss(batch, logprobs, settings, old=batch.sampled).loss
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    return total, torch.cat([weights.grad.flatten() for weights in model.parameters() if weights.grad is not None])


@pytest.mark.parametrize("normalisation", ["token", "sequence"])
def test_rows_of_contexts_have_the_loss_and_the_gradient_of_the_conversation(normalisation):
    assert [context.ids for context in AGAIN.contexts()][-1] == GROWN.ids
    grown, again = (gradient(Row(tokens, "policy", "a", 1.0), normalisation, "token") for tokens in (GROWN, AGAIN))
    assert again[0] == pytest.approx(grown[0], abs=1e-6)
    assert float(grown[1].abs().max()) > 1e-3
    assert torch.allclose(again[1], grown[1], atol=1e-6, rtol=0)


def test_turns_are_counted_through_all_contexts():
    rows, *rest = useful([Row(AGAIN, "policy", "a", 1.0)], [1.0], [1.0], ["policy"], every=False)
    turns = {turn for batch in batches(rows, *rest, tokens_per_batch=99) for turn in batch.turn.flatten().tolist()}
    assert turns == {-1, 0, 1, 2}


def episode(*calls: Tokens) -> Trajectory:
    steps = (Step(reply="x", action="x", observation="", raw_observation="", tokens=call) for call in calls)
    return Trajectory(
        environment="room", split="train", task_id="t", agent="a", goal="", initial_observation="", steps=tuple(steps)
    )


def test_a_critique_is_taken_out_of_every_context_or_the_episode_is_refused():
    critique, opening = FIRST.model_copy(update={"context_ids": (10, 99, 98, 12, 13)}), (10, 12, 13)
    later = Tokens(start=4, context_ids=(30, 31), sampled_ids=(22, 2), logprobs=(-1.5, -0.7))
    attempt = episode(critique, later)
    moved = without_critique(policy_row(attempt, "t"), attempt, opening).tokens
    assert [context.ids for context in moved.contexts()] == [(10, 12, 13, 20, 21, 2), (10, 12, 30, 31, 22, 2)]
    elsewhere = episode(critique, later.model_copy(update={"start": 1}))
    with pytest.raises(UsageError, match="writes the critique elsewhere in later turns"):
        without_critique(policy_row(elsewhere, "t"), elsewhere, opening)
