"""How log w_t is spread over the tokens of won revisions: the quantiles that a step keeps, and which tokens count."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from align_echo.tokens import TokenSequence
from align_echo.train.batching import batches
from align_echo.train.objective import ObjectiveSettings, batch_loss
from align_echo.train.rows import Row
from align_echo.train.signals import QUANTILES, LossSummary, Signals

TOKENS = 101


def of_rows(*rows: Row) -> Signals:
    """The signals of rows, each in a batch of its own, of whose tokens the model is certain (log-probability 0)."""
    losses = LossSummary()
    for batch in batches(rows, [1.0] * len(rows), [1.0] * len(rows), tokens_per_batch=1):
        certain = torch.zeros_like(batch.mask).requires_grad_()
        losses.add(batch, batch_loss(batch, certain, ObjectiveSettings()), torch.zeros_like(batch.mask))
    return losses.read()


def revision(logprobs: list[float], *, moved: bool = True, reward: float = 1.0) -> Row:
    count = len(logprobs)
    ids, mask = tuple(range(count + 1)), (0, *[1] * count)
    return Row(TokenSequence(ids, mask, (0.0, *logprobs), ((1, count + 1),)), "policy", "g", reward, moved=moved)


def test_quantiles_are_over_all_tokens_of_won_revisions_in_all_batches():
    drawn = [-value / 10 for value in range(TOKENS)]  # log w_t is 0 - drawn: 0 to 10
    others = [revision([-50.0] * 9, moved=False), revision([-50.0] * 9, reward=0.0)]
    told = of_rows(revision(drawn[:60]), revision(drawn[60:]), *others)
    found = {name: told[f"log_w_t/{name}"] for name in QUANTILES}
    assert found == pytest.approx({"p05": 0.5, "p25": 2.5, "p50": 5.0, "p75": 7.5, "p95": 9.5})
    assert told["log_w_t"] == pytest.approx(5.0)


def test_a_step_without_a_won_revision_has_none():
    assert not [name for name in of_rows(revision([-1.0] * 3, reward=0.5)) if name.startswith("log_w_t")]
