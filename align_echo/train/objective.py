"""Losses as pure functions of log-probabilities. All tensors are [B, T] over target tokens unless stated otherwise.

`mask` is 1 on tokens sampled by the model; values outside it, even NaN, change neither loss nor gradient. All terms are
to be minimised. Numbers are float32 or better: half precision overflows at e^11 and has three digits. Ratios of
probabilities are capped at e^`LARGEST`, near the end of float32, with their gradient (`exponential`). So loss and
gradient are finite for any two models, and exact wherever the clip, an advantage of 0 or a bound decides. Not here:
forward passes and the choice of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from pydantic import Field

from align_echo.errors import UsageError
from align_echo.registry import attempt, with_article
from align_echo.train.advantages import TRIED
from align_echo.train.batching import TensorBatch, build_batch
from align_echo.types import Frozen

MOST_WEIGHT = 2.0
"""ICRL's upper bound on the weight of a token."""

LUFFY_GAMMA = 0.1

LARGEST = 80.0
"""Logarithm of the largest ratio. float32 ends at e^88.7; the rest is for sums and products of ratios."""

KlEstimator = Literal["k1", "k3"]
RatioLevel = Literal["token", "sequence"]


def exponential(exponents: torch.Tensor) -> torch.Tensor:
    """Return e to these exponents, capped at e^`LARGEST`.

    The gradient is the value itself, also at the cap: far outliers are still pulled back.
    """
    return _held(exponents).exp()


def _held(exponents: torch.Tensor) -> torch.Tensor:
    """Cap exponents at `LARGEST`, with a gradient of 1 everywhere."""
    finite = exponents.clamp(max=torch.finfo(exponents.dtype).max)
    return torch.where(finite > LARGEST, finite - finite.detach() + LARGEST, finite)


def log_ratios(over_BT: torch.Tensor, under_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Subtract log-probabilities [B, T], with 0 outside the mask, in float32 or better."""
    wide = torch.promote_types(over_BT.dtype, torch.float32)
    return torch.where(mask_BT.bool(), over_BT.to(wide) - under_BT.to(wide), 0.0)


def ratios(
    logprobs_BT: torch.Tensor, old_BT: torch.Tensor, mask_BT: torch.Tensor, level: RatioLevel = "token"
) -> torch.Tensor:
    """Compute pi / pi_old of each token [B, T], 1 outside the mask.

    "sequence" (GSPO): the geometric mean over a row's tokens, the same for each, with gradient through all of them.
    """
    return exponential(_averaged(log_ratios(logprobs_BT, old_BT, mask_BT), mask_BT, level))


def _averaged(logs_BT: torch.Tensor, mask_BT: torch.Tensor, level: RatioLevel) -> torch.Tensor:
    """Return log ratios; at level "sequence", each token has the mean of its row."""
    if level == "token":
        return logs_BT
    return (logs_BT.sum(-1) / mask_BT.sum(-1).clamp_min(1)).unsqueeze(-1) * mask_BT


def near(
    logprobs_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    *,
    old_BT: torch.Tensor | None,
    reference_BT: torch.Tensor | None,
    level: RatioLevel = "token",
) -> torch.Tensor:
    """Limit log-probabilities [B, T] for a loss of another library that exponentiates their differences.

    They are 0 outside the mask, and moved if a ratio to `old_BT` or of `reference_BT` would exceed e^`LARGEST`. The
    gradient is 1, so the other loss gets the gradient of ours, as long as old and reference differ by less than twice
    `LARGEST`.
    """
    moved_BT = torch.where(mask_BT.bool(), logprobs_BT, 0.0)
    if old_BT is not None:
        over_BT = _averaged(log_ratios(moved_BT.detach(), old_BT, mask_BT), mask_BT, level)
        moved_BT = moved_BT - (over_BT - LARGEST).clamp_min(0)
    if reference_BT is not None:
        under_BT = log_ratios(reference_BT, moved_BT.detach(), mask_BT)
        moved_BT = moved_BT + (under_BT - LARGEST).clamp_min(0)
    return moved_BT


def clipped_terms(ratio_BT: torch.Tensor, advantages_BT: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Compute PPO's term -min(ratio A, clip(ratio) A) [B, T]. ECHO equation 9, ICRL equation 2.

    The ratio is clipped to [1 - low, 1 + high]. With a positive advantage the gradient ends at 1 + high; with a
    negative advantage it grows with the ratio. Raises `UsageError` for an empty interval.
    """
    if not (0 <= low <= 1 and high >= 0):
        raise UsageError(f"clip bounds {low}, {high}: low must lie in [0, 1], high must not be negative")
    clipped_BT = ratio_BT.clamp(1 - low, 1 + high)
    return -torch.minimum(ratio_BT * advantages_BT, clipped_BT * advantages_BT)


def is_outside(ratio_BT: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Mark tokens [B, T] with a ratio outside the bounds of the clip, whatever their advantage."""
    return (ratio_BT < 1 - low) | (ratio_BT > 1 + high)


def is_clipped(ratio_BT: torch.Tensor, advantages_BT: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Mark tokens [B, T] without gradient because of the clip."""
    too_low = (ratio_BT < 1 - low) & (advantages_BT < 0)
    return too_low | ((ratio_BT > 1 + high) & (advantages_BT > 0))


def shaped(probabilities: torch.Tensor, gamma: float = LUFFY_GAMMA) -> torch.Tensor:
    """Compute p / (p + gamma): LUFFY's shaping of an expert's tokens, which raises unlikely ones."""
    return probabilities / (probabilities + gamma)


def kl_terms(
    logprobs_BT: torch.Tensor, reference_BT: torch.Tensor, mask_BT: torch.Tensor, estimator: KlEstimator = "k3"
) -> torch.Tensor:
    """Estimate KL(policy || reference) [B, T] from samples of the policy, 0 outside the mask.

    With d = log reference - log policy: "k1" is -d (unbiased, may be negative), "k3" is exp(d) - d - 1 (unbiased, never
    negative, less noisy). Schulman, "Approximating KL divergence" (2020).
    """
    d = log_ratios(reference_BT, logprobs_BT, mask_BT)
    return -d if estimator == "k1" else _held(d).expm1() - d


def stale_weights(
    logprobs_BT: torch.Tensor,
    sampled_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    level: RatioLevel = "token",
    most: float = MOST_WEIGHT,
) -> torch.Tensor:
    """Compute the weights min(pi_old / pi_b, most) [B, T] of stale tokens: 1 outside the mask, without gradient.

    Earlier weights b sampled the tokens (`sampled_BT`); pi_old are the weights before the first update with them
    (`logprobs_BT`). The ratio pi / pi_b is the product of pi / pi_old and pi_old / pi_b. PPO clips the product, which
    ties the policy to outdated weights: a token moved beyond the clip by the step in between has no gradient. Here only
    the first factor is clipped (`clipped_terms`), so the bounds are around the current weights. The second is a weight,
    truncated from above so that a rare token cannot dominate the step. At the first update pi = pi_old, and the
    gradient is the policy gradient up to the truncation: E_b[(pi / pi_b) A grad log pi] = E_pi[A grad log pi]. This is
    the decoupled objective of Hilton et al., "Batch size-invariance for policy optimization" (2022, equation 4), with
    truncated weights.

    A `moved` row needs no such weight: its w_t (`calibration_weights`) is pi_old without the critique over pi_b with
    it, the same second factor for any weights b. "sequence": as in `ratios`. Raises `UsageError` if `most` is not above
    0.
    """
    if not most > 0:
        raise UsageError(f"the bound of the weights must be above 0, not {most}")
    ratio_BT = ratios(logprobs_BT.detach(), sampled_BT, mask_BT, level)
    return torch.where(mask_BT.bool(), ratio_BT.clamp(max=most), 1.0)


def calibration_weights(
    free_BT: torch.Tensor, conditioned_BT: torch.Tensor, mask_BT: torch.Tensor, most: float = MOST_WEIGHT
) -> torch.Tensor:
    """Compute w_t [B, T] = min(pi(y_t | q, y_<t) / pi(y_t | q, c, y_<t), most): 1 outside the mask, without gradient.

    Both arguments are log-probabilities of the model that played: without the critique, and with it. ICRL (paper 4)
    equations 4 and 6. Raises `UsageError` if `most` is not above 0.
    """
    if not most > 0:
        raise UsageError(f"the bound of the weights must be above 0, not {most}")
    ratio_BT = exponential(log_ratios(free_BT, conditioned_BT, mask_BT).detach())
    return torch.where(mask_BT.bool(), ratio_BT.clamp(max=most), 1.0)


# ---------------------------------------------------------------- loss


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

    `loss` is its share of the step's loss, a scalar with gradient (`summed`). All else is [B, T-1] without gradient, or
    None to leave out its signals: `ratio` before clipping, tokens `outside` its bounds, tokens `clipped` (without
    gradient), `kl` estimates (None without a reference), `weights` w_t (1 if unweighted), `log_weights` log w_t before
    its bound (0 if unweighted), `mismatch` |log pi - log pi at sampling|, and stale tokens `cut` by the bound on their
    weight.
    """

    loss: torch.Tensor
    ratio: torch.Tensor | None = None
    outside: torch.Tensor | None = None
    clipped: torch.Tensor | None = None
    kl: torch.Tensor | None = None
    weights: torch.Tensor | None = None
    log_weights: torch.Tensor | None = None
    mismatch: torch.Tensor | None = None
    cut: torch.Tensor | None = None


class LossFunction(Protocol):
    """Function of a micro-batch that returns its share of the step's loss; `batch_loss` is ours."""

    def __call__(
        self,
        batch: TensorBatch,
        logprobs: torch.Tensor,
        objective: ObjectiveSettings,
        /,
        *,
        old: torch.Tensor,
        reference: torch.Tensor | None,
        stale: bool,
    ) -> BatchLoss:
        """Compute the loss. The arguments are those of `batch_loss`; `old` is never None."""


def summed(terms_BT: torch.Tensor, batch: TensorBatch) -> torch.Tensor:
    """Add up the losses [B, T-1] of the tokens in the mask, each with its weight in the step: a scalar.

    So the loss of a step does not depend on its division into micro-batches. Raises `UsageError` for another shape.
    """
    if terms_BT.shape != batch.mask.shape:
        shape, expected = list(terms_BT.shape), list(batch.mask.shape)
        raise UsageError(f"the losses of tokens have the shape {shape}, and must have that of the mask, {expected}")
    return (torch.where(batch.mask.bool(), terms_BT, 0.0) * batch.scale).sum()


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
        loss=summed(terms, batch),
        ratio=ratio.detach(),
        outside=is_outside(ratio.detach(), low, high) & compared,
        clipped=is_clipped(ratio.detach(), batch.advantages, low, high) & compared,
        kl=None if kl is None else kl.detach(),
        weights=weights,
        log_weights=torch.where(compared & batch.moved, old - batch.sampled, 0.0).detach(),
        mismatch=torch.where(as_sampled, (old - batch.sampled).abs(), 0.0),
        cut=as_sampled & (weights >= objective.max_weight) & stale,
    )


def checked_loss(name: str, result: object) -> BatchLoss:
    """Check what the loss of a method returned. Raises `UsageError`."""
    if not isinstance(result, BatchLoss):
        raise UsageError(f"the loss of {name} gives {with_article(type(result).__name__)}, and must give a BatchLoss")
    if not isinstance(result.loss, torch.Tensor) or result.loss.shape != () or not result.loss.requires_grad:
        raise UsageError(f"the loss of {name} must be a scalar tensor with a gradient: see objective.summed")
    return result


def try_loss(name: str, loss: LossFunction, objective: ObjectiveSettings) -> None:
    """Try a method's loss on two rows. Raises `UsageError` if it fails, or loss or gradient are not finite."""
    batch = build_batch([TRIED[0], TRIED[1]], [1.0, -1.0], [0.5, 0.5])
    logprobs = batch.sampled.clone().requires_grad_()
    reference = batch.sampled if objective.beta else None

    def tried() -> BatchLoss:
        return loss(batch, logprobs, objective, old=logprobs.detach(), reference=reference, stale=False)

    failure = f"the loss of {name} fails"
    result = checked_loss(name, attempt(tried, failure)).loss
    (gradient,) = attempt(lambda: torch.autograd.grad(result, logprobs), failure)
    if not math.isfinite(float(result.detach())) or not gradient.isfinite().all():
        raise UsageError(f"the loss of {name} and its gradient must be finite numbers: on two rows they are not")
