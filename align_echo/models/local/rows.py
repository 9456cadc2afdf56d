"""Requests in their slots: what each computes in a step, what is drawn for it, and when it ends.

Left out: who gets a slot, and computing logits.
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
from align_echo.models.local.engine import Reply, Request
from align_echo.models.local.sampling import draw, logprobs_at
from align_echo.models.local.slot_attention import SlotPart

Reason = Literal["", "stop", "length", "broken"]
"""Why a request ends; "" while it goes on, "broken" where the model's logits are no numbers."""


@dataclass(eq=False)
class PendingRequest:
    """A request, who waits for it, and the log-probabilities of what was drawn for it so far.

    `most` is how many tokens it may be drawn; `again`: a step failed with it before.
    """

    request: Request
    future: Future[Reply]
    most: int
    again: bool = False
    logprobs: list[float] = field(default_factory=list)
    choices: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self.dice = random.Random(self.request.sampling.seed)

    @property
    def wanted(self) -> tuple[int, ...]:
        """The token ids of which the next position's log-probabilities are asked for."""
        return () if self.logprobs else self.request.sampling.choices


@dataclass(eq=False)
class EngineRow:
    """Requests with one context and one adapter for which the same tokens were drawn so far: they share a slot.

    `ids` is the context and what was drawn; the slot holds the first `done`. `slot` is -1 as long as there is none.
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
        """What the requests began with [T]."""
        return self.requests[0].request.ids

    @property
    def drawn(self) -> list[int]:
        return self.ids[len(self.context) :]

    @property
    def reading(self) -> bool:
        """Whether a part of the context is still to be computed."""
        return self.done < len(self.context)

    @property
    def futures(self) -> list[Future[Reply]]:
        return [pending.future for pending in self.requests]

    def leave_cancelled(self) -> None:
        """Requests that were cancelled meanwhile leave the row."""
        cancelled = [pending for pending in self.requests if pending.future.cancelled()]
        for pending in cancelled:
            self.requests.remove(pending)
            pending.future.set_running_or_notify_cancel()


def joins(row: EngineRow, rows: Sequence[EngineRow]) -> bool:
    """Whether the row is now part of one of these with the same context for which nothing was drawn yet, as for it."""
    for other in rows:
        alike = len(row.ids) == len(other.ids) == len(other.context)
        if alike and row.adapter == other.adapter and row.context == other.context:
            other.requests += row.requests
            return True
    return False


def reads_for(other: EngineRow, row: EngineRow, needed: int) -> bool:
    """Whether the context of `other` begins with so many of the ids of `row`."""
    return needed <= len(other.context) and list(other.context[:needed]) == row.ids[:needed]


def draw_for(
    ready: Sequence[EngineRow], logits_BV: torch.Tensor, most: int
) -> list[dict[int, list[PendingRequest]]]:
    """Draw a token for each request of each row, of the row's logits: the requests by token, in the rows' order.

    At most so many requests at once as there was room for the logits of.
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


def parts_of(rows: Sequence[EngineRow], most: int) -> list[tuple[EngineRow, SlotPart]]:
    """What each row computes in a step: rows that draw one token first, by slot, then contexts up to `most` tokens."""
    drawing = sorted((row for row in rows if len(row.ids) - row.done == 1), key=lambda row: row.slot)
    parts = [(row, SlotPart(row.slot, row.done, row.ids[row.done :])) for row in drawing]
    for row in rows:
        if most > 0 and len(row.ids) - row.done > 1:
            ids = row.ids[row.done : row.done + most]
            if len(ids) > 1 or not parts:
                parts.append((row, SlotPart(row.slot, row.done, ids)))
                most -= len(ids)
    return parts


def parted(row: EngineRow, by_token: Mapping[int, list[PendingRequest]]) -> list[EngineRow]:
    """The row for each token that was drawn after it, with the requests that it was drawn for: all in the row's slot.

    The last of them goes on with the row's own list of ids, so that a row that stays whole is not copied.
    """
    *parting, (last, alike) = by_token.items()
    branches = [EngineRow(requests, [*row.ids, token], row.slot, row.done) for token, requests in parting]
    row.ids.append(last)
    return [*branches, EngineRow(alike, row.ids, row.slot, row.done)]


def end_of(pending: PendingRequest, row: EngineRow, decode: Callable[[Sequence[int]], str]) -> Reason:
    """Why a request ends with the last token of its row; "" if it goes on."""
    sampling = pending.request.sampling
    if math.isnan(pending.logprobs[-1]):
        return "broken"
    if row.ids[-1] in sampling.stop_ids or (sampling.stop and _says_stop(decode, row, sampling.stop)):
        return "stop"
    return "length" if len(pending.logprobs) >= pending.most else ""


def _says_stop(decode: Callable[[Sequence[int]], str], row: EngineRow, stop: Sequence[str]) -> bool:
    """Whether the last token completed a stop string. A token is at least one byte, bar one torn character."""
    longest = max(len(text.encode()) for text in stop)
    text = decode(row.drawn[-(longest + 4) :])
    return any(word in text for word in stop)


def fail(futures: Iterable[Future[Any]], error: ModelError) -> None:
    """End futures with an error, unless they were cancelled."""
    for future in futures:
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
