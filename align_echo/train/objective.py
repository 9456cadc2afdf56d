"""The losses, as pure functions of log-probabilities. All tensors are [B, T] over target tokens unless said otherwise.

`mask` is 1 on the tokens that the model sampled; whatever stands elsewhere, NaN too, changes neither loss nor gradient.
Everything is to be minimised. Numbers are float32 at least: half precision ends at e^11 and tells 1.000 from 1.004 at
best. A ratio of probabilities is held at e^`LARGEST`, beyond which float32 ends, and its gradient is held with it
(`exponential`): so whatever two models are apart, loss and gradient are numbers, and are the exact ones wherever the
clip, an advantage of 0 or a bound decides. Left out: forward passes, and which rows there are.
"""

from __future__ import annotations

from typing import Literal

import torch

from align_echo.errors import UsageError

MOST_WEIGHT = 2.0
"""ICRL's upper bound on the weight of a token."""

LUFFY_GAMMA = 0.1

LARGEST = 80.0
"""The logarithm of the largest ratio. The greatest number of float32 is e^88.7: sums and products of ratios have the
rest."""

KlEstimator = Literal["k1", "k3"]
RatioLevel = Literal["token", "sequence"]


def exponential(exponents: torch.Tensor) -> torch.Tensor:
    """Return e to these exponents, held at e^`LARGEST`. The gradient is the value itself, where it is held too: what is
    far off is still pulled back.
    """
    return _held(exponents).exp()


def _held(exponents: torch.Tensor) -> torch.Tensor:
    """Return the exponents, none above `LARGEST`, with a gradient of 1 everywhere."""
    finite = exponents.clamp(max=torch.finfo(exponents.dtype).max)
    return torch.where(finite > LARGEST, finite - finite.detach() + LARGEST, finite)


def log_ratios(over_BT: torch.Tensor, under_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Return log-probabilities less others [B, T], 0 outside the mask, in float32 or better."""
    wide = torch.promote_types(over_BT.dtype, torch.float32)
    return torch.where(mask_BT.bool(), over_BT.to(wide) - under_BT.to(wide), 0.0)


def ratios(
    logprobs_BT: torch.Tensor, old_BT: torch.Tensor, mask_BT: torch.Tensor, level: RatioLevel = "token"
) -> torch.Tensor:
    """pi / pi_old of each token [B, T], 1 outside the mask.

    "sequence" (GSPO): the geometric mean over a row's tokens, the same for each, with the gradient flowing through all.
    """
    return exponential(_averaged(log_ratios(logprobs_BT, old_BT, mask_BT), mask_BT, level))


def _averaged(logs_BT: torch.Tensor, mask_BT: torch.Tensor, level: RatioLevel) -> torch.Tensor:
    """Return logarithms of ratios, of a sequence their mean for each of its tokens."""
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
    """Return the log-probabilities for a loss that is not ours and takes e to their differences: 0 outside the mask,
    and moved where a ratio to the old ones or of the reference would be above e^`LARGEST`. Their gradient is 1, so that
    such a loss has the gradient that ours has, as long as old and reference are less than twice that apart.
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
    """-min(ratio A, clip(ratio) A) [B, T]: PPO's term, to be minimised. ECHO equation 9, ICRL equation 2.

    The ratio is clipped to [1 - low, 1 + high]. With a positive advantage its gradient ends at 1 + high, with a
    negative one it grows with the ratio. Raises `UsageError` for bounds that hold nothing.
    """
    if not (0 <= low <= 1 and high >= 0):
        raise UsageError(f"clip bounds {low}, {high}: low must lie in [0, 1], high must not be negative")
    clipped_BT = ratio_BT.clamp(1 - low, 1 + high)
    return -torch.minimum(ratio_BT * advantages_BT, clipped_BT * advantages_BT)


def is_outside(ratio_BT: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Which tokens [B, T] the clip would hold, whatever their advantage: how far the weights went, before it acts."""
    return (ratio_BT < 1 - low) | (ratio_BT > 1 + high)


def is_clipped(ratio_BT: torch.Tensor, advantages_BT: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Which tokens [B, T] have no gradient because of the clip."""
    too_low = (ratio_BT < 1 - low) & (advantages_BT < 0)
    return too_low | ((ratio_BT > 1 + high) & (advantages_BT > 0))


def shaped(probabilities: torch.Tensor, gamma: float = LUFFY_GAMMA) -> torch.Tensor:
    """p / (p + gamma): LUFFY's shaping of an expert's tokens, which lifts those that the policy holds unlikely."""
    return probabilities / (probabilities + gamma)


def kl_terms(
    logprobs_BT: torch.Tensor, reference_BT: torch.Tensor, mask_BT: torch.Tensor, estimator: KlEstimator = "k3"
) -> torch.Tensor:
    """Estimates [B, T] of KL(policy || reference) from samples of the policy, 0 outside the mask.

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
    """min(pi_old / pi_b, most) [B, T], 1 outside the mask, never part of the gradient: what a token counts that was
    sampled by earlier weights b (`sampled_BT`) than those that begin to learn from it (`logprobs_BT`, pi_old).

    The ratio of a token to be learned, pi / pi_b, is the product of pi / pi_old and pi_old / pi_b. PPO clips the whole
    product, which holds the policy near weights that are gone already: a token that the step between them moved by more
    than the clip has no gradient. Here the first factor alone is clipped (`clipped_terms`), so that the bounds lie
    around the weights of now, and the second is a weight, truncated from above so that a rare token cannot rule the
    step. At the first update pi is pi_old, the first factor is 1, and the gradient is that of the policy's return up
    to the truncation: E_b[(pi / pi_b) A grad log pi] = E_pi[A grad log pi]. The decoupled objective of Hilton et al.,
    "Batch size-invariance for policy optimization" (2022, equation 4), with truncated weights.

    A row that was moved needs none: its w_t (`calibration_weights`) is pi_old without the critique over pi_b with it,
    as sampled, and so the same second factor, whichever weights b are. "sequence": as in `ratios`.
    Raises `UsageError` if `most` is not above 0.
    """
    if not most > 0:
        raise UsageError(f"the bound of the weights must be above 0, not {most}")
    ratio_BT = ratios(logprobs_BT.detach(), sampled_BT, mask_BT, level)
    return torch.where(mask_BT.bool(), ratio_BT.clamp(max=most), 1.0)


def calibration_weights(
    free_BT: torch.Tensor, conditioned_BT: torch.Tensor, mask_BT: torch.Tensor, most: float = MOST_WEIGHT
) -> torch.Tensor:
    """w_t [B, T] = min(pi(y_t | q, y_<t) / pi(y_t | q, c, y_<t), most), 1 outside the mask; never part of the gradient.

    Both are log-probabilities of the model that rolled out: without the critique, and with it. ICRL (paper 4)
    equations 4 and 6. Raises `UsageError` if `most` is not above 0.
    """
    if not most > 0:
        raise UsageError(f"the bound of the weights must be above 0, not {most}")
    ratio_BT = exponential(log_ratios(free_BT, conditioned_BT, mask_BT).detach())
    return torch.where(mask_BT.bool(), ratio_BT.clamp(max=most), 1.0)
