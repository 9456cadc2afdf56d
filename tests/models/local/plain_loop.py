"""Generation without batches, caches and tricks, to hold the engine against: one full forward pass a token."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel, TopKLogitsWarper, TopPLogitsWarper

from align_echo.models.local.engine import TokenRequest
from align_echo.train.objective import batch_loss


@torch.inference_mode()
def logprobs_of(model: PreTrainedModel, ids: Sequence[int], temperature: float) -> torch.Tensor:
    """[T - 1]: natural log-probability of each token but the first, given those before it."""
    logits = model(input_ids=torch.tensor([list(ids)])).logits[0, :-1] / (temperature or 1.0)
    return torch.log_softmax(logits, dim=-1).gather(1, torch.tensor(list(ids[1:]))[:, None])[:, 0]


@torch.inference_mode()
def plain_reply(model: PreTrainedModel, request: TokenRequest) -> tuple[int, ...]:
    """The reply's ids: up to `max_tokens`, or the first stop id. Stop strings are left out."""
    sampling = request.sampling
    dice = random.Random(sampling.seed)
    ids = list(request.ids)
    for _ in range(sampling.max_tokens):
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
        ids.append(_next(logits, request, dice.random()))
        if ids[-1] in sampling.stop_ids:
            break
    return tuple(ids[len(request.ids) :])


def _next(logits: torch.Tensor, request: TokenRequest, uniform: float) -> int:
    sampling = request.sampling
    if sampling.temperature == 0:
        return int(logits.argmax())
    scores = (logits / sampling.temperature)[None]
    if sampling.top_k:
        scores = TopKLogitsWarper(sampling.top_k)(None, scores)
    if sampling.top_p < 1:
        scores = TopPLogitsWarper(sampling.top_p)(None, scores)
    total = 0.0
    shares = torch.softmax(scores[0].double(), dim=-1).tolist()
    for token, share in enumerate(shares):
        total += share
        if uniform < total:
            return token
    return max(token for token, share in enumerate(shares) if share > 0)


def watch_gaps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A list that receives the largest difference between the trainer's log-probabilities and the engine's of each
    micro-batch.
    """
    gaps: list[float] = []

    def lose(batch: Any, logprobs: torch.Tensor, *given: Any, **options: Any) -> Any:
        gaps.append(float(((logprobs.detach() - batch.sampled) * batch.mask).abs().max()))
        return batch_loss(batch, logprobs, *given, **options)

    monkeypatch.setattr("align_echo.train.trainer.batch_loss", lose)
    return gaps
