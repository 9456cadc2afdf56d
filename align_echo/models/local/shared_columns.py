"""Attention of rows that draw one token each, in which columns that several slots hold alike are read once.

On a CPU a step that draws is bound by reading keys and values from memory. Rows that begin alike (with the same rules,
or with the attempt that all of them were told about) need those once: their queries meet the keys of one slot in one
product. What is a row's own is read as far as that row goes, and not as far as the longest one does. All scores of a
step stand in one table [B, K, G, W], of B rows, K heads of keys, G queries of each, and W columns, over which the
softmax goes. Left out: GPUs, where steps have fixed shapes; half precision, which scores would be rounded to; windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

CALL = 128
"""Columns of a row that are read in the time that one more product takes to begin."""

WORTH = 0.8
"""A table is made where it reads at most this share of what is read without one."""


@dataclass(frozen=True)
class Family:
    """Rows that hold the first columns alike, by their indices in the step."""

    members: tuple[int, ...]
    columns: int

    @property
    def saved(self) -> int:
        """How many columns are not read."""
        return (len(self.members) - 1) * self.columns - CALL


@dataclass(frozen=True)
class RowRun:
    """Rows `first` to `end` of a step, in neighbouring slots from `low` on, which read columns `begin` to `columns`."""

    first: int
    end: int
    low: int
    begin: int
    columns: int

    @property
    def read(self) -> int:
        """How many columns are read, of all rows together."""
        return (self.end - self.first) * (self.columns - self.begin)

    def joined(self, later: RowRun) -> RowRun:
        """This run and the one right after it as one."""
        begin, columns = min(self.begin, later.begin), max(self.columns, later.columns)
        return RowRun(self.first, later.end, self.low, begin, columns)

    def of(self, buffer: torch.Tensor) -> torch.Tensor:
        """What the rows read of keys or values [S, K, C, D]: [R, K, L, D]."""
        return buffer[self.low : self.low + self.end - self.first, :, self.begin : self.columns]

    def among(self, table: torch.Tensor) -> torch.Tensor:
        """The rows' part of a table [B, K, G, W]: [R, K, G, L]."""
        return table[self.first : self.end, ..., self.begin : self.columns]


def families(common: np.ndarray) -> list[Family]:
    """The rows that share columns, such that much is saved; no row is in two.

    `common` [B, B]: how many columns two rows hold alike, at least; the same both ways.
    """
    return _families(list(range(len(common))), common.tolist())


def _families(members: list[int], common: list[list[int]]) -> list[Family]:
    if len(members) < 2:
        return []
    columns = min(common[members[0]][index] for index in members[1:])
    whole = Family(tuple(members), columns)
    divided: list[Family] = []
    left = members
    while left:
        nearer = common[left[0]]
        near = [index for index in left if index == left[0] or nearer[index] > columns + CALL]
        divided += _families(near, common) if len(near) < len(members) else []
        left = [index for index in left if index not in near]
    better = whole.saved > sum(family.saved for family in divided)
    return ([whole] if whole.saved > 0 else []) if better else divided


def runs(slots: Sequence[int], starts: Sequence[int], begins: Sequence[int]) -> list[RowRun]:
    """Rows in neighbouring slots together, where that costs less than a product more.

    `starts`: the column of each row's token, `begins`: the first that no family reads for it; [B], in the slots' order.
    """
    found: list[RowRun] = []
    for index, (slot, start, begin) in enumerate(zip(slots, starts, begins, strict=True)):
        run = RowRun(index, index + 1, slot, begin, start + 1)
        if found and slot == slots[index - 1] + 1:
            joined = found[-1].joined(run)
            if joined.read <= found[-1].read + run.read + CALL:
                found[-1] = joined
                continue
        found.append(run)
    return found


class ScoreTable:
    """How the B rows of a step, which draw one token each, attend; W columns."""

    def __init__(self, starts: Sequence[int], shared: list[Family], own: list[RowRun], slots: Sequence[int]) -> None:
        self.rows = len(starts)
        self._own = own
        self._shared = [(_index(family.members), slots[family.members[0]], family.columns) for family in shared]
        width = max(starts) + 1
        at, ends = torch.arange(width), torch.tensor(starts)
        within = torch.zeros(self.rows, dtype=torch.long)
        for family in shared:
            within[list(family.members)] = family.columns
        self._hidden = (at > ends[:, None])[:, None, None]  # [B, 1, 1, W]
        twice = any(run.begin < int(within[run.first : run.end].max()) for run in own)
        self._elsewhere = (at < within[:, None])[:, None, None] if twice else None  # [B, 1, 1, W]: what families read

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float | None
    ) -> torch.Tensor:
        """The output [B, H, D] for queries [1, H, N, D], the rows' first, over buffers [S, K, C, D]."""
        heads, size = query.shape[1], query.shape[3]
        shared = keys.shape[1]
        scale = size**-0.5 if scaling is None else scaling
        queries = (query[0, :, : self.rows].transpose(0, 1) * scale).reshape(self.rows, shared, heads // shared, size)
        scores = queries.new_empty(*queries.shape[:3], self._hidden.shape[-1])
        for members, slot, columns in self._shared:
            scores[members, ..., :columns] = _met(queries[members], keys[slot, :, :columns].transpose(1, 2))
        for run in self._own:
            run.among(scores)[:] = queries[run.first : run.end] @ run.of(keys).transpose(2, 3)
        weights = scores.masked_fill_(self._hidden, float("-inf")).softmax(-1)
        alone = weights if self._elsewhere is None else weights.masked_fill(self._elsewhere, 0.0)
        out = queries.new_empty(*queries.shape[:3], values.shape[3])
        for run in self._own:
            out[run.first : run.end] = run.among(alone) @ run.of(values)
        for members, slot, columns in self._shared:
            out[members] += _met(weights[members, ..., :columns], values[slot, :, :columns])
        return out.flatten(1, 2)


def _index(members: tuple[int, ...]) -> slice | torch.Tensor:
    """Picks rows: a slice, which copies nothing, where they are neighbours."""
    if members == tuple(range(members[0], members[-1] + 1)):
        return slice(members[0], members[-1] + 1)
    return torch.tensor(members)


def _met(rows: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
    """What many rows [n, K, G, A] make with what one slot holds [K, A, C]: [n, K, G, C]."""
    count, shared, queries, size = rows.shape
    stacked = rows.transpose(0, 1).reshape(shared, count * queries, size)
    return (stacked @ slot).view(shared, count, queries, -1).transpose(0, 1)


def score_table(slots: Sequence[int], starts: Sequence[int], common: np.ndarray, read: int) -> ScoreTable | None:
    """A table for rows in these slots [B], in their order, whose tokens stand in these columns [B].

    `common` [B, B]: how many columns two of them hold alike, at least. None unless it reads much less than `read`.
    """
    least = np.minimum(common, np.minimum.outer(starts, starts))
    shared = families(least)
    begins = [0] * len(slots)
    for family in shared:
        for index in family.members:
            begins[index] = family.columns
    own = runs(slots, starts, begins)
    reads = sum(run.read + CALL for run in own) + sum(family.columns + CALL for family in shared)
    return ScoreTable(starts, shared, own, slots) if reads <= WORTH * read else None
