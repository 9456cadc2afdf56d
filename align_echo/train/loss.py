"""The loss of a micro-batch, from the pure functions of `objective.py`, with figures about it.

Not here: forward passes of reference models and earlier weights. Their log-probabilities are arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field

from align_echo.train.batching import TensorBatch
from align_echo.train.objective import (
    LUFFY_GAMMA,
    MOST_WEIGHT,
    KlEstimator,
    RatioLevel,
    calibration_weights,
    clipped_terms,
    is_clipped,
    is_outside,
    kl_terms,
    ratios,
    shaped,
    stale_weights,
)
from align_echo.types import Frozen


class ObjectiveSettings(Frozen):
    """Settings of the loss."""

    clip_low: float = Field(default=0.2, ge=0, le=1)
    """Lower bound of the ratio: 1 - clip_low."""
    clip_high: float = Field(default=0.2, ge=0)
    """Upper bound of the ratio: 1 + clip_high."""
    ratio: RatioLevel = "token"
    """Ratio of each token, or of the whole sequence (GSPO)."""
    beta: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the KL term; 0 leaves it out."""
    kl: KlEstimator = "k3"
    """Estimator of the KL term."""
    reweigh: bool = True
    """Weigh tokens sampled under a critique by w_t (ICRL)."""
    max_weight: float = Field(default=MOST_WEIGHT, gt=0)
    """Upper bound of w_t, and of the weight of stale tokens."""
    corrected: bool = True
    """Weigh tokens sampled by earlier weights by pi / pi at sampling (`step.ahead`)."""
    expert: Literal["shaped", "likelihood"] = "shaped"
    """Loss of an expert's tokens: their shaped probability (LUFFY) or their log-likelihood."""
    gamma: float = Field(default=LUFFY_GAMMA, gt=0, allow_inf_nan=False)
    """Gamma of the shaping p / (p + gamma)."""


@dataclass(frozen=True)
class BatchLoss:
    """The loss of a micro-batch, with figures about it.

    `loss` is its share of the step's loss, a scalar with gradient. All else is [B, T-1] without gradient: `ratio`
    before clipping, tokens `outside` its bounds, tokens `clipped` (without gradient), `kl` estimates (None without a
    reference), `weights` w_t (1 if unweighted), `log_weights` log w_t before its bound (0 if unweighted), `mismatch`
    |log pi - log pi at sampling|, and stale tokens `cut` by the bound on their weight.
    """

    loss: torch.Tensor
    ratio: torch.Tensor
    outside: torch.Tensor
    clipped: torch.Tensor
    kl: torch.Tensor | None
    weights: torch.Tensor
    log_weights: torch.Tensor
    mismatch: torch.Tensor
    cut: torch.Tensor


def batch_loss(
    batch: TensorBatch,
    logprobs: torch.Tensor,
    objective: ObjectiveSettings,
    *,
    old: torch.Tensor | None = None,
    reference: torch.Tensor | None = None,
    stale: bool = False,
) -> BatchLoss:
    """Compute the loss of a micro-batch.

    `logprobs` [B, T-1] have a gradient. `old` are those of the weights before the first update with these rows (None:
    `logprobs` itself), `reference` those of the reference model (needed unless beta is 0). `stale` rows were sampled by
    still earlier weights.
    """
    mask = batch.mask
    old = logprobs.detach() if old is None else old
    low, high = objective.clip_low, objective.clip_high
    ratio = ratios(logprobs, old, mask, objective.ratio)
    terms = clipped_terms(ratio, batch.advantages, low, high)
    weights = torch.ones_like(mask)
    if stale and objective.corrected:
        since = stale_weights(old, batch.sampled, mask, objective.ratio, objective.max_weight)
        weights = torch.where(batch.moved, weights, since)
    if objective.reweigh:
        calibrated = calibration_weights(old, batch.sampled, mask, objective.max_weight)
        weights = torch.where(batch.moved, calibrated, weights)
    terms = terms * weights
    if bool(batch.expert.any()):
        liked = logprobs if objective.expert == "likelihood" else shaped(logprobs.exp(), objective.gamma)
        terms = torch.where(batch.expert, -liked * batch.advantages, terms)
    kl: torch.Tensor | None = None
    if objective.beta:
        if reference is None:
            raise ValueError("a beta above 0 needs the reference's log-probabilities")
        kl = kl_terms(logprobs, reference, mask, objective.kl)
        terms = terms + objective.beta * kl
    counted = mask.bool()
    compared = counted & ~batch.expert
    as_sampled = compared & ~batch.moved
    return BatchLoss(
        loss=(torch.where(counted, terms, 0.0) * batch.scale).sum(),
        ratio=ratio.detach(),
        outside=is_outside(ratio.detach(), low, high) & compared,
        clipped=is_clipped(ratio.detach(), batch.advantages, low, high) & compared,
        kl=None if kl is None else kl.detach(),
        weights=weights,
        log_weights=torch.where(compared & batch.moved, old - batch.sampled, 0.0).detach(),
        mismatch=torch.where(as_sampled, (old - batch.sampled).abs(), 0.0),
        cut=as_sampled & (weights >= objective.max_weight) & stale,
    )
