"""Requests in their slots, and what each of them computes in a step. Left out: who gets a slot, and computing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from align_echo.models.local.engine import Reply, Request
from align_echo.models.local.slot_attention import Part


@dataclass(frozen=True)
class Asked:
    """A request and who waits for it; `again`: a step failed with it before."""

    request: Request
    future: Future[Reply]
    again: bool = False


@dataclass
class Row:
    """A request in its slot. `ids` is its context and what was drawn so far; the slot holds the first `done`."""

    asked: Asked
    slot: int
    done: int
    ids: list[int]
    most: int
    dice: random.Random
    logprobs: list[float] = field(default_factory=list)
    choices: tuple[float, ...] = ()

    @property
    def request(self) -> Request:
        return self.asked.request

    @property
    def drawn(self) -> list[int]:
        return self.ids[len(self.request.ids) :]

    @property
    def wanted(self) -> tuple[int, ...]:
        """The token ids of which the next position's log-probabilities are asked for."""
        return () if self.logprobs else self.request.sampling.choices

    @property
    def reading(self) -> bool:
        """Whether a part of the context is still to be computed."""
        return self.done < len(self.request.ids)


def parts_of(rows: Sequence[Row], most: int) -> list[tuple[Row, Part]]:
    """What each row computes in a step: rows that draw one token first, by slot, then contexts up to `most` tokens."""
    drawing = sorted((row for row in rows if len(row.ids) - row.done == 1), key=lambda row: row.slot)
    parts = [(row, Part(row.slot, row.done, row.ids[row.done :])) for row in drawing]
    for row in rows:
        if most > 0 and len(row.ids) - row.done > 1:
            ids = row.ids[row.done : row.done + most]
            if len(ids) > 1 or not parts:
                parts.append((row, Part(row.slot, row.done, ids)))
                most -= len(ids)
    return parts
