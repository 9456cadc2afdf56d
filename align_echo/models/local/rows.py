"""Requests in their slots: what each computes in a step, which token it draws, and when it ends.

Not here: assigning slots, and computing logits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from align_echo.errors import ModelError
from align_echo.models.local.engine import SamplingConfig, TokenReply, TokenRequest
from align_echo.models.local.slot_attention import SlotPart

# ---------------------------------------------------------------- sample tokens

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
    chances_BV = torch.softmax(logits_BV, dim=-1)
    tokens_B = _drawn(_kept(chances_BV, samplings), uniforms) if any(temperatures) else None
    if not all(temperatures):
        likeliest = logits_BV.argmax(dim=-1)  # from logits: close probabilities may round to equal
        greedy = torch.tensor([temperature == 0 for temperature in temperatures], device=logits_BV.device)
        tokens_B = likeliest if tokens_B is None else torch.where(greedy, likeliest, tokens_B)
    assert tokens_B is not None
    chosen_B = chances_BV.gather(1, tokens_B[:, None])[:, 0].log()
    tokens, chosen = torch.stack([tokens_B.double(), chosen_B.double()]).tolist()
    return [int(token) for token in tokens], chosen


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


BLOCK = 64
"""Probabilities that are summed in float32: with few, the sum is nearly as exact as they are."""


def _drawn(chances_BV: torch.Tensor, uniforms: Sequence[float]) -> torch.Tensor:
    """Sample token ids [B] from probabilities, some of them 0: first a block of ids, then an id of the block."""
    short = -chances_BV.shape[1] % BLOCK
    if short:
        chances_BV = torch.nn.functional.pad(chances_BV, (0, short))
    chances_BNK = chances_BV.reshape(len(chances_BV), -1, BLOCK)
    blocks_BN = chances_BNK.sum(dim=-1).double()
    cumulative_BN = blocks_BN.cumsum(dim=-1)
    points_B1 = torch.tensor(uniforms, dtype=torch.float64, device=chances_BV.device)[:, None]
    points_B1 = points_B1 * cumulative_BN[:, -1:]
    block_B1 = _first_beyond(cumulative_BN, points_B1)
    size_B1 = blocks_BN.gather(1, block_B1)
    into_B1 = (points_B1 - cumulative_BN.gather(1, block_B1) + size_B1).clamp_(min=0.0)  # rounding may go below
    inner_BK = chances_BNK.gather(1, block_B1[:, :, None].expand(-1, -1, BLOCK))[:, 0].double().cumsum(dim=-1)
    place_B1 = _first_beyond(inner_BK, into_B1 / size_B1 * inner_BK[:, -1:])
    return (block_B1 * BLOCK + place_B1)[:, 0].clamp_(max=chances_BV.shape[1] - short - 1)  # beyond only if all are NaN


def _first_beyond(cumulative_BN: torch.Tensor, points_B1: torch.Tensor) -> torch.Tensor:
    """Return the first place [B, 1] whose cumulative sum exceeds a point, at most the last that adds to the sum."""
    # `right`: a point on a boundary belongs to the next place, so that a probability of 0 is never drawn.
    first_B1 = torch.searchsorted(cumulative_BN, points_B1.contiguous(), right=True)
    last_B1 = torch.searchsorted(cumulative_BN, cumulative_BN[:, -1:].contiguous())
    return torch.minimum(first_B1, last_B1).clamp_(max=cumulative_BN.shape[1] - 1)


def _kept(chances_BV: torch.Tensor, samplings: Sequence[SamplingConfig]) -> torch.Tensor:
    """Set the probabilities of tokens removed by top-k, and then by top-p among the rest, to 0."""
    size = chances_BV.shape[1]
    ks = [sampling.top_k if 0 < sampling.top_k < size else size for sampling in samplings]
    ps = [sampling.top_p for sampling in samplings]
    if all(k == size for k in ks) and all(p >= 1 for p in ps):
        return chances_BV
    device = chances_BV.device
    sorted_BV, order_BV = chances_BV.sort(dim=-1, descending=True, stable=True)
    places_V = torch.arange(size, device=device)
    sorted_BV = sorted_BV.masked_fill(places_V >= torch.tensor(ks, device=device)[:, None], 0.0)
    shares_BV = sorted_BV / sorted_BV.sum(dim=-1, keepdim=True)
    before_BV = shares_BV.cumsum(dim=-1) - shares_BV
    limits_B = torch.tensor([p if p < 1 else 2.0 for p in ps], device=device)
    left_out_BV = (before_BV >= limits_B[:, None]) & (places_V > 0)
    sorted_BV = sorted_BV.masked_fill(left_out_BV, 0.0)
    return torch.empty_like(sorted_BV).scatter_(1, order_BV, sorted_BV)


# ---------------------------------------------------------------- requests in their slots

Reason = Literal["", "stop", "length", "broken"]
"""Why a request ends; "" while it goes on, "broken" if the model's logits are NaN."""


@dataclass(eq=False)
class PendingRequest:
    """A request, its future, and the log-probabilities drawn so far.

    `most` is its maximum number of tokens; `tokens` [T] are the ids of its context. `again`: a step with this request
    failed before.
    """

    request: TokenRequest
    future: Future[TokenReply]
    most: int
    tokens: np.ndarray
    again: bool = False
    logprobs: list[float] = field(default_factory=list)
    choices: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self.dice = random.Random(self.request.sampling.seed)

    @property
    def wanted(self) -> tuple[int, ...]:
        """Token ids whose log-probabilities at the next position are requested."""
        return () if self.logprobs else self.request.sampling.choices


@dataclass(eq=False)
class EngineRow:
    """Requests with the same context, adapter and drawn tokens so far. They share a slot.

    `ids` is the context and the drawn tokens; the slot holds the first `done` of them. `slot` is -1 until one is
    assigned.
    """

    requests: list[PendingRequest]
    ids: list[int]
    slot: int = -1
    done: int = 0

    def __post_init__(self) -> None:
        first = self.requests[0]
        self.adapter = first.request.adapter
        self.context = first.request.ids
        """Context of the requests [T]."""
        self.most = len(self.context) + max(pending.most for pending in self.requests)
        """Tokens that the row may grow to."""

    @cached_property
    def tokens(self) -> np.ndarray:
        """The row's ids [T] before it has a slot."""
        first = self.requests[0]
        return first.tokens if len(self.ids) == len(self.context) else np.array(self.ids, dtype=np.int32)

    @property
    def drawn(self) -> list[int]:
        return self.ids[len(self.context) :]

    @property
    def reading(self) -> bool:
        """True if part of the context is still to be computed."""
        return self.done < len(self.context)

    @property
    def futures(self) -> list[Future[TokenReply]]:
        return [pending.future for pending in self.requests]

    def leave_cancelled(self) -> None:
        """Remove cancelled requests from the row."""
        cancelled = [pending for pending in self.requests if pending.future.cancelled()]
        for pending in cancelled:
            self.requests.remove(pending)
            pending.future.set_running_or_notify_cancel()


def merge_into_identical(row: EngineRow, rows: Sequence[EngineRow]) -> bool:
    """Merge the row into an identical row with nothing drawn yet. Return True if there is such a row."""
    for target in rows:
        nothing_drawn = len(row.ids) == len(target.ids) == len(target.context)
        if nothing_drawn and row.adapter == target.adapter and row.context == target.context:
            target.requests += row.requests
            target.most = max(target.most, row.most)
            return True
    return False


def covers_prefix(source: EngineRow, row: EngineRow, needed: int) -> bool:
    """Return True if the context of `source` starts with the first `needed` ids of `row`."""
    if needed > min(len(source.context), len(row.ids)) or source.context[needed - 1] != row.ids[needed - 1]:
        return False  # without a copy: most differ there
    return list(source.context[:needed]) == row.ids[:needed]


def draw_tokens(
    ready: Sequence[EngineRow], logits_BV: torch.Tensor, most: int
) -> list[dict[int, list[PendingRequest]]]:
    """Draw a token for each request of each row. Return the requests by token, in the rows' order.

    At most `most` requests are drawn at once, the number of logit rows that fit in memory.
    """
    drawn: list[dict[int, list[PendingRequest]]] = [{} for _ in ready]
    pending_requests = [(index, pending) for index, row in enumerate(ready) for pending in row.requests]
    for first in range(0, len(pending_requests), most):
        some = pending_requests[first : first + most]
        alone = len(pending_requests) == len(ready) <= most
        logits_AV = logits_BV if alone else logits_BV[[at for at, _ in some]]
        uniforms = [pending.dice.random() for _, pending in some]
        tokens, logprobs = draw(logits_AV, [pending.request.sampling for _, pending in some], uniforms)
        choices = logprobs_at(logits_AV, [pending.wanted for _, pending in some])
        for (at, pending), token, logprob, of_choices in zip(some, tokens, logprobs, choices, strict=True):
            pending.choices = pending.choices or of_choices
            pending.logprobs.append(logprob)
            drawn[at].setdefault(token, []).append(pending)
    return drawn


def plan_parts(rows: Sequence[EngineRow], most: int) -> list[tuple[EngineRow, SlotPart]]:
    """Plan what each row computes in a step: first rows that draw a token, by slot, then contexts up to `most` tokens.
    """
    drawing = sorted((row for row in rows if len(row.ids) - row.done == 1), key=lambda row: row.slot)
    parts = [(row, SlotPart(row.slot, row.done, row.ids[row.done :])) for row in drawing]
    for row in rows:
        if most > 0 and len(row.ids) - row.done > 1:
            ids = row.ids[row.done : row.done + most]
            if len(ids) > 1 or not parts:
                parts.append((row, SlotPart(row.slot, row.done, ids)))
                most -= len(ids)
    return parts


def split_by_token(row: EngineRow, by_token: Mapping[int, list[PendingRequest]]) -> list[EngineRow]:
    """Split a row by the drawn tokens: one row per token, with its requests, all in the row's slot.

    A row whose requests all drew one token is returned itself, with the token.
    """
    if len(by_token) == 1:
        row.ids += by_token
        return [row]
    *splitting, (last, last_requests) = by_token.items()
    branches = [EngineRow(requests, [*row.ids, token], row.slot, row.done) for token, requests in splitting]
    row.ids.append(last)
    return [*branches, EngineRow(last_requests, row.ids, row.slot, row.done)]


def find_end_reason(pending: PendingRequest, row: EngineRow, decode: Callable[[Sequence[int]], str]) -> Reason:
    """Return why a request ends with the last token of its row; "" if it goes on."""
    sampling = pending.request.sampling
    if math.isnan(pending.logprobs[-1]):
        return "broken"
    if row.ids[-1] in sampling.stop_ids or (sampling.stop and _says_stop(decode, row, sampling.stop)):
        return "stop"
    return "length" if len(pending.logprobs) >= pending.most else ""


def _says_stop(decode: Callable[[Sequence[int]], str], row: EngineRow, stop: Sequence[str]) -> bool:
    """Check for a stop string completed by the last token. A token is at least one byte, except a torn character."""
    longest = max(len(text.encode()) for text in stop)
    text = decode(row.drawn[-(longest + 4) :])
    return any(word in text for word in stop)


def fail(futures: Iterable[Future[Any]], error: ModelError) -> None:
    """Set an exception on futures, unless they were cancelled."""
    for future in futures:
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
