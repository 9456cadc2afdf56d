"""Rows to tensors: micro-batches of one role and similar length, with the weight of every token.

A token's `scale` is set for the whole step before the rows are divided. So the losses of the micro-batches add up to
the loss of the step, however the rows are divided. Rows with a shared prefix may be read as one tree of tokens
(`tree_attention.py`), which computes the prefix once. Not here: how a model reads a tree (`forward.py`). """

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from align_echo.train.rows import Role, Row
from align_echo.train.tree_attention import TokenTree, trees

Normalisation = Literal["sequence", "token"]

WORTHWHILE = 0.85
"""Rows are read as a tree if it has less than this share of their tokens: a token of a tree costs up to 1.16 times a
token of a padded row (pocket model, CPU: docs/training.md)."""


BATCH_TOKENS = (8192, 4096, 2048)
"""Tokens of a micro-batch, where no number is given: the first that fits into the memory."""


@dataclass(frozen=True)
class TensorBatch:
    """A micro-batch: B rows of one role, at most T tokens long.

    `ids` [B, T] int64 is padded on the right; with a `tree`, the model reads it in place of `ids` (its rows are 0, 1
    ... in this order). All other tensors are over targets, so that [:, t] is about `ids[:, t + 1]`: `mask` [B, T-1] is
    1 on sampled tokens; `sampled` [B, T-1] holds log-probabilities at sampling time, 0 outside the mask; `advantages`
    [B, 1]; `scale` [B, 1] is the weight of a token in the step's loss; `moved` and `expert` [B, 1] as in `Row`; `won`
    [B, 1] marks a full reward; `turn` [B, T-1] is the number of the turn from 0, -1 outside the mask.
    """

    role: Role
    tree: TokenTree | None
    ids: torch.Tensor
    mask: torch.Tensor
    sampled: torch.Tensor
    advantages: torch.Tensor
    scale: torch.Tensor
    moved: torch.Tensor
    expert: torch.Tensor
    won: torch.Tensor
    turn: torch.Tensor

    @property
    def computed(self) -> int:
        """Number of tokens in a forward pass, with padding."""
        return self.ids.numel() if self.tree is None else len(self.tree.ids)

    def to(self, device: torch.device) -> TensorBatch:
        """Move all tensors to a device."""
        return replace(
            self,
            ids=self.ids.to(device),
            mask=self.mask.to(device),
            sampled=self.sampled.to(device),
            advantages=self.advantages.to(device),
            scale=self.scale.to(device),
            moved=self.moved.to(device),
            expert=self.expert.to(device),
            won=self.won.to(device),
            turn=self.turn.to(device),
        )


def scales(rows: Sequence[Row], normalisation: Normalisation, *, together: bool = False) -> list[float]:
    """Compute the weight of a token of each row. The weights of each role's tokens add up to 1.

    With `together`, those of both roles add up to 1: one mean, for roles with shared weights (ICRL, paper 4,
    equation 6). "sequence" gives every row the same weight (ECHO, paper 1, equation 9), "token" every token (ICRL's
    equation 6). Rows without a token to learn from have weight 0.
    """
    tokens = [row.learnable for row in rows]
    means = ["both" if together else row.role for row in rows]
    total: dict[str, int] = defaultdict(int)
    for mean, count in zip(means, tokens, strict=True):
        total[mean] += count if normalisation == "token" else count > 0
    per_row = [1 if normalisation == "token" else count for count in tokens]
    counted = zip(means, tokens, per_row, strict=True)
    return [1 / (total[mean] * each) if count else 0.0 for mean, count, each in counted]


def batches(
    rows: Sequence[Row],
    advantages: Sequence[float],
    scale: Sequence[float],
    *,
    tokens_per_batch: int,
    share: bool = False,
) -> list[TensorBatch]:
    """Divide rows into micro-batches of one role, long rows first.

    A micro-batch has at most `tokens_per_batch` tokens with padding, unless a single row is longer. With `share`, rows
    are read as trees where that is `WORTHWHILE`.
    """
    return [
        build_batch(
            [rows[row] for row in group], [advantages[row] for row in group], [scale[row] for row in group], tree
        )
        for role in sorted({row.role for row in rows})
        for tree, group in _divided(
            {index: row.tokens.ids for index, row in enumerate(rows) if row.role == role}, tokens_per_batch, share
        )
    ]


def _divided(
    rows: Mapping[int, Sequence[int]], tokens_per_batch: int, share: bool
) -> list[tuple[TokenTree | None, list[int]]]:
    """Group the indices of rows: those of each worthwhile tree, and the rest by similar length."""
    divided: list[tuple[TokenTree | None, list[int]]] = []
    alone = dict(rows)
    if share:
        indices = list(rows)
        for tree in trees([rows[index] for index in indices], most_tokens=tokens_per_batch):
            group = [indices[row] for row in tree.rows]
            if len(tree.ids) < WORTHWHILE * sum(len(rows[index]) for index in group):
                divided.append((tree, group))
                alone = {index: ids for index, ids in alone.items() if index not in group}
    groups: list[list[int]] = []
    for index in sorted(alone, key=lambda index: (-len(alone[index]), index)):
        if not groups or (len(groups[-1]) + 1) * len(alone[groups[-1][0]]) > tokens_per_batch:
            groups.append([])
        groups[-1].append(index)
    return divided + [(None, group) for group in groups]


def build_batch(
    rows: Sequence[Row], advantages: Sequence[float], scale: Sequence[float], tree: TokenTree | None = None
) -> TensorBatch:
    """Convert rows of one role to tensors, in this order."""
    size, longest = len(rows), max(len(row.tokens.ids) for row in rows)
    ids = torch.zeros(size, longest, dtype=torch.long)
    mask, sampled = torch.zeros(size, longest), torch.zeros(size, longest)
    turn = torch.full((size, longest), -1, dtype=torch.long)
    for index, row in enumerate(rows):
        length = len(row.tokens.ids)
        ids[index, :length] = torch.tensor(row.tokens.ids)
        mask[index, :length] = torch.tensor(row.tokens.mask, dtype=torch.float32)
        sampled[index, :length] = torch.tensor(row.tokens.logprobs)
        for number, (first, end) in enumerate(row.tokens.turns, row.tokens.first_turn):
            turn[index, first:end] = number
    return TensorBatch(
        role=rows[0].role,
        tree=tree,
        ids=ids,
        mask=mask[:, 1:],
        sampled=sampled[:, 1:],
        turn=turn[:, 1:],
        advantages=torch.tensor(advantages).unsqueeze(1),
        scale=torch.tensor(scale).unsqueeze(1),
        moved=torch.tensor([row.moved for row in rows]).unsqueeze(1),
        expert=torch.tensor([row.expert for row in rows]).unsqueeze(1),
        won=torch.tensor([row.reward >= 1 for row in rows]).unsqueeze(1),
    )
