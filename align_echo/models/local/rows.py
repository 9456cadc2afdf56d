"""Requests in their slots: what each computes in a step, which token it draws, and when it ends.

Not here: assigning slots, and computing logits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from align_echo.errors import ModelError
from align_echo.models.local.engine import TokenReply, TokenRequest
from align_echo.models.local.sampling import draw, logprobs_at
from align_echo.models.local.slot_attention import SlotPart

Reason = Literal["", "stop", "length", "broken"]
"""Why a request ends; "" while it goes on, "broken" if the model's logits are NaN."""


@dataclass(eq=False)
class PendingRequest:
    """A request, its future, and the log-probabilities drawn so far.

    `most` is its maximum number of tokens. `again`: a step with this request failed before.
    """

    request: TokenRequest
    future: Future[TokenReply]
    most: int
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

    @property
    def adapter(self) -> str:
        return self.requests[0].request.adapter

    @property
    def context(self) -> tuple[int, ...]:
        """Context of the requests [T]."""
        return self.requests[0].request.ids

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
            return True
    return False


def covers_prefix(source: EngineRow, row: EngineRow, needed: int) -> bool:
    """Return True if the context of `source` starts with the first `needed` ids of `row`."""
    return needed <= len(source.context) and list(source.context[:needed]) == row.ids[:needed]


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

    The last of them reuses the row's list of ids, so an unsplit row is not copied.
    """
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
