"""Rows into tensors: batches of one role and of like length, with what every token counts.

A token's `scale` is set for the whole step before the rows are divided, so that the losses of the batches add up to the
loss of the step, however they are divided. Left out: packing several rows into one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from align_echo.train.rows import Role, Row

Normalisation = Literal["sequence", "token"]


@dataclass(frozen=True)
class Batch:
    """B rows of one role, T tokens, padded on the right. All but `ids` are over targets: [:, t] is about token t + 1.

    `ids` [B, T] int64; `mask` [B, T-1] 1 on sampled tokens; `sampled` [B, T-1] log-probabilities at sampling time, 0
    outside the mask; `advantages` [B, 1]; `scale` [B, 1] what one token counts in the step's loss; `moved` and `expert`
    [B, 1] as in `Row`; `turn` [B, T-1] the number of the turn from 0, -1 outside the mask.
    """

    role: Role
    ids: torch.Tensor
    mask: torch.Tensor
    sampled: torch.Tensor
    advantages: torch.Tensor
    scale: torch.Tensor
    moved: torch.Tensor
    expert: torch.Tensor
    turn: torch.Tensor

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        return replace(
            self,
            ids=self.ids.to(device),
            mask=self.mask.to(device),
            sampled=self.sampled.to(device),
            advantages=self.advantages.to(device),
            scale=self.scale.to(device),
            moved=self.moved.to(device),
            expert=self.expert.to(device),
            turn=self.turn.to(device),
        )


def scales(rows: Sequence[Row], normalisation: Normalisation) -> list[float]:
    """What one token of each row counts, so that the tokens of every role count 1 together.

    "sequence": every row of a role counts the same (ECHO, paper 1, equation 9). "token": every token of a role counts
    the same (ICRL, paper 4, equation 6). Rows without a sampled token count 0.
    """
    tokens = [sum(row.tokens.mask) for row in rows]
    total: dict[Role, int] = defaultdict(int)
    for row, count in zip(rows, tokens, strict=True):
        total[row.role] += count if normalisation == "token" else count > 0
    per_row = [1 if normalisation == "token" else count for count in tokens]
    return [
        1 / (total[row.role] * each) if count else 0.0 for row, count, each in zip(rows, tokens, per_row, strict=True)
    ]


def batches(
    rows: Sequence[Row], advantages: Sequence[float], scale: Sequence[float], *, tokens_per_batch: int
) -> list[Batch]:
    """All rows in batches of one role, long rows first; a padded batch stays within `tokens_per_batch` unless one row
    alone does not.
    """
    order = sorted(range(len(rows)), key=lambda place: (rows[place].role, -len(rows[place].tokens.ids), place))
    groups: list[list[int]] = []
    for place in order:
        last = groups[-1] if groups else []
        if (
            not last
            or rows[last[0]].role != rows[place].role
            or (len(last) + 1) * len(rows[last[0]].tokens.ids) > tokens_per_batch
        ):
            groups.append([])
        groups[-1].append(place)
    return [
        _batch([rows[one] for one in group], [advantages[one] for one in group], [scale[one] for one in group])
        for group in groups
    ]


def _batch(rows: Sequence[Row], advantages: Sequence[float], scale: Sequence[float]) -> Batch:
    size, longest = len(rows), max(len(row.tokens.ids) for row in rows)
    ids = torch.zeros(size, longest, dtype=torch.long)
    mask, sampled = torch.zeros(size, longest), torch.zeros(size, longest)
    turn = torch.full((size, longest), -1, dtype=torch.long)
    for place, row in enumerate(rows):
        length = len(row.tokens.ids)
        ids[place, :length] = torch.tensor(row.tokens.ids)
        mask[place, :length] = torch.tensor(row.tokens.mask, dtype=torch.float32)
        sampled[place, :length] = torch.tensor(row.tokens.logprobs)
        for number, (first, end) in enumerate(row.tokens.turns):
            turn[place, first:end] = number
    return Batch(
        role=rows[0].role,
        ids=ids,
        mask=mask[:, 1:],
        sampled=sampled[:, 1:],
        turn=turn[:, 1:],
        advantages=torch.tensor(advantages).unsqueeze(1),
        scale=torch.tensor(scale).unsqueeze(1),
        moved=torch.tensor([row.moved for row in rows]).unsqueeze(1),
        expert=torch.tensor([row.expert for row in rows]).unsqueeze(1),
    )
