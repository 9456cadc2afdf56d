"""Attention for rows that draw one token each, reading shared columns of slots only once.

On a CPU, a decoding step is bound by reading keys and values from memory. Rows with a common prefix (the same rules,
or the same earlier attempt) read it once: their queries meet the keys of one slot in one product. Columns of a single
row are read only up to that row's length, not up to the longest row's. All scores of a step are in one table [B, K, G,
W]: B rows, K key heads, G queries per head, and W columns, over which the softmax runs. Not here: GPUs, where steps
have fixed shapes; half precision, which would round scores; windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

CALL = 128
"""Columns read in the time it takes to start one more product."""

WORTH = 0.8
"""Use a table if it reads at most this share of the columns read without one."""


@dataclass(frozen=True)
class PrefixGroup:
    """Rows with equal first columns, by their indices in the step."""

    members: tuple[int, ...]
    columns: int

    @property
    def saved(self) -> int:
        """Number of column reads saved."""
        return (len(self.members) - 1) * self.columns - CALL


@dataclass(frozen=True)
class RowRun:
    """Rows `first` to `end` of a step, in neighbouring slots from `low` on. They read columns `begin` to `columns`."""

    first: int
    end: int
    low: int
    begin: int
    columns: int

    @property
    def read(self) -> int:
        """Number of columns read by all rows together."""
        return (self.end - self.first) * (self.columns - self.begin)

    def joined(self, later: RowRun) -> RowRun:
        """Merge this run with the run right after it."""
        begin, columns = min(self.begin, later.begin), max(self.columns, later.columns)
        return RowRun(self.first, later.end, self.low, begin, columns)

    def select(self, buffer: torch.Tensor) -> torch.Tensor:
        """Select the rows' part of keys or values [S, K, C, D]: [R, K, L, D]."""
        return buffer[self.low : self.low + self.end - self.first, :, self.begin : self.columns]

    def among(self, table: torch.Tensor) -> torch.Tensor:
        """Select the rows' part of a table [B, K, G, W]: [R, K, G, L]."""
        return table[self.first : self.end, ..., self.begin : self.columns]


def families(common: np.ndarray) -> list[PrefixGroup]:
    """Group rows by shared columns to save the most reads; no row is in two groups.

    `common` [B, B]: lower bound of the columns two rows share; symmetric.
    """
    return _families(list(range(len(common))), common.tolist())


def _families(members: list[int], common: list[list[int]]) -> list[PrefixGroup]:
    if len(members) < 2:
        return []
    columns = min(common[members[0]][index] for index in members[1:])
    single_family = PrefixGroup(tuple(members), columns)
    divided: list[PrefixGroup] = []
    left = members
    while left:
        nearer = common[left[0]]
        near = [index for index in left if index == left[0] or nearer[index] > columns + CALL]
        divided += _families(near, common) if len(near) < len(members) else []
        left = [index for index in left if index not in near]
    better = single_family.saved > sum(family.saved for family in divided)
    return ([single_family] if single_family.saved > 0 else []) if better else divided


def runs(slots: Sequence[int], starts: Sequence[int], begins: Sequence[int]) -> list[RowRun]:
    """Group rows in neighbouring slots if that costs less than one more product.

    `starts`: the column of each row's token, `begins`: the first column not covered by a family; [B], in slot order.
    """
    row_runs: list[RowRun] = []
    for index, (slot, start, begin) in enumerate(zip(slots, starts, begins, strict=True)):
        run = RowRun(index, index + 1, slot, begin, start + 1)
        if row_runs and slot == slots[index - 1] + 1:
            joined = row_runs[-1].joined(run)
            if joined.read <= row_runs[-1].read + run.read + CALL:
                row_runs[-1] = joined
                continue
        row_runs.append(run)
    return row_runs


class ScoreTable:
    """Attention plan for the B rows of a step that draw one token each; W columns."""

    def __init__(
        self, starts: Sequence[int], shared: list[PrefixGroup], own: list[RowRun], slots: Sequence[int]
    ) -> None:
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
        self._read_by_family = (at < within[:, None])[:, None, None] if twice else None  # [B, 1, 1, W]

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float | None
    ) -> torch.Tensor:
        """Compute the output [B, H, D] for queries [1, H, N, D], the rows' first, over buffers [S, K, C, D]."""
        heads, size = query.shape[1], query.shape[3]
        shared = keys.shape[1]
        scale = size**-0.5 if scaling is None else scaling
        queries = (query[0, :, : self.rows].transpose(0, 1) * scale).reshape(self.rows, shared, heads // shared, size)
        scores = queries.new_empty(*queries.shape[:3], self._hidden.shape[-1])
        for members, slot, columns in self._shared:
            scores[members, ..., :columns] = _met(queries[members], keys[slot, :, :columns].transpose(1, 2))
        for run in self._own:
            run.among(scores)[:] = queries[run.first : run.end] @ run.select(keys).transpose(2, 3)
        weights = scores.masked_fill_(self._hidden, float("-inf")).softmax(-1)
        alone = weights if self._read_by_family is None else weights.masked_fill(self._read_by_family, 0.0)
        out = queries.new_empty(*queries.shape[:3], values.shape[3])
        for run in self._own:
            out[run.first : run.end] = run.among(alone) @ run.select(values)
        for members, slot, columns in self._shared:
            out[members] += _met(weights[members, ..., :columns], values[slot, :, :columns])
        return out.flatten(1, 2)


def _index(members: tuple[int, ...]) -> slice | torch.Tensor:
    """Return an index for rows: a slice, which copies nothing, if they are neighbours."""
    if members == tuple(range(members[0], members[-1] + 1)):
        return slice(members[0], members[-1] + 1)
    return torch.tensor(members)


def _met(rows: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
    """Multiply the queries of n rows [n, K, G, A] with one slot's buffer [K, A, C]: [n, K, G, C]."""
    count, shared, queries, size = rows.shape
    stacked = rows.transpose(0, 1).reshape(shared, count * queries, size)
    return (stacked @ slot).view(shared, count, queries, -1).transpose(0, 1)


def score_table(slots: Sequence[int], starts: Sequence[int], common: np.ndarray, read: int) -> ScoreTable | None:
    """Build a table for rows in these slots [B], in order, with tokens in columns `starts` [B].

    `common` [B, B]: lower bound of the columns two rows share. Returns None unless it reads far fewer columns than
    `read`.
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
