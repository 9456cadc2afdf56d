"""Sample one token per row by inverse CDF, with one uniform number each, and compute log-probabilities of other
tokens.

Not here: managing rows, and stopping (see the engine).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from align_echo.models.local.engine import SamplingConfig

LEAST_DIVISOR = 1e-30
"""Lower bound of the temperature: float32 would overflow below it."""


def draw(
    logits_BV: torch.Tensor, samplings: Sequence[SamplingConfig], uniforms: Sequence[float]
) -> tuple[list[int], list[float]]:
    """Sample a token [B] per row and its natural log-probability [B] at the row's temperature, before top-k and top-p.

    Temperature 0 takes the most likely token, with its log-probability at temperature 1. Otherwise, after top-k and
    then top-p, the token is the first in id order whose cumulative probability exceeds the row's uniform number in [0,
    1) times the remaining mass. The log-probability is NaN if the row's logits are NaN: the token is then meaningless.
    """
    logits_BV = logits_BV.float()
    temperatures = [sampling.temperature for sampling in samplings]
    if any(temperature not in (0, 1) for temperature in temperatures):
        scale = torch.tensor(
            [max(temperature, LEAST_DIVISOR) if temperature else 1.0 for temperature in temperatures],
            device=logits_BV.device,
        )
        # Subtract the largest logit first, so that nothing overflows at a low temperature.
        logits_BV = (logits_BV - logits_BV.amax(dim=-1, keepdim=True)) / scale[:, None]
    logprobs_BV = torch.log_softmax(logits_BV, dim=-1)
    tokens_B = logits_BV.argmax(dim=-1)  # from logits: close log-probabilities may round to equal
    if any(temperatures):
        drawn = _drawn(_kept(logprobs_BV, samplings), uniforms)
        greedy = torch.tensor([temperature == 0 for temperature in temperatures], device=logits_BV.device)
        tokens_B = torch.where(greedy, tokens_B, drawn)
    chosen = logprobs_BV.gather(1, tokens_B[:, None])[:, 0].tolist()
    return tokens_B.tolist(), chosen


def logprobs_at(logits_BV: torch.Tensor, wanted: Sequence[tuple[int, ...]]) -> list[tuple[float, ...]]:
    """Return the natural log-probabilities of each row's wanted tokens, in order: at temperature 1, over all tokens."""
    rows = [row for row, ids in enumerate(wanted) if ids]
    if not rows:
        return [()] * len(wanted)
    logprobs_RV = torch.log_softmax(logits_BV[rows].float(), dim=-1)
    places = [(index, token) for index, row in enumerate(rows) for token in wanted[row]]
    places_2N = torch.tensor(places, device=logits_BV.device).T
    values = iter(logprobs_RV[places_2N[0], places_2N[1]].tolist())
    return [tuple(next(values) for _ in ids) for ids in wanted]


def _drawn(kept_BV: torch.Tensor, uniforms: Sequence[float]) -> torch.Tensor:
    """Sample token ids [B] from log-probabilities, some of them -inf."""
    cumulative_BV = kept_BV.double().exp_().cumsum_(dim=-1)
    total_B1 = cumulative_BV[:, -1:].contiguous()
    points_B1 = torch.tensor(uniforms, dtype=torch.float64, device=kept_BV.device)[:, None] * total_B1
    # `right`: a point on a boundary belongs to the next token, so that a token of probability 0 is never drawn.
    drawn_B1 = torch.searchsorted(cumulative_BV, points_B1, right=True)
    last_B1 = torch.searchsorted(cumulative_BV, total_B1)
    return torch.minimum(drawn_B1, last_B1)[:, 0].clamp_(max=kept_BV.shape[1] - 1)  # beyond only if all are NaN


def _kept(logprobs_BV: torch.Tensor, samplings: Sequence[SamplingConfig]) -> torch.Tensor:
    """Set log-probabilities to -inf for tokens removed by top-k, and then by top-p among the rest."""
    size = logprobs_BV.shape[1]
    ks = [sampling.top_k if 0 < sampling.top_k < size else size for sampling in samplings]
    ps = [sampling.top_p for sampling in samplings]
    if all(k == size for k in ks) and all(p >= 1 for p in ps):
        return logprobs_BV
    device = logprobs_BV.device
    sorted_BV, order_BV = logprobs_BV.sort(dim=-1, descending=True, stable=True)
    places_V = torch.arange(size, device=device)
    sorted_BV = sorted_BV.masked_fill(places_V >= torch.tensor(ks, device=device)[:, None], float("-inf"))
    shares_BV = torch.softmax(sorted_BV, dim=-1)
    before_BV = shares_BV.cumsum(dim=-1) - shares_BV
    limits_B = torch.tensor([p if p < 1 else 2.0 for p in ps], device=device)
    left_out_BV = (before_BV >= limits_B[:, None]) & (places_V > 0)
    sorted_BV = sorted_BV.masked_fill(left_out_BV, float("-inf"))
    return torch.empty_like(sorted_BV).scatter_(1, order_BV, sorted_BV)
