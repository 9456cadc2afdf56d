"""Attention over a tree of tokens, as a `transformers` attention function: only what a token may look at is computed.

Tokens ask in blocks, and what a block looks at is short: the path down to its first token, and the block itself. Trees
may so be long at little cost, and share the more. Left out: sliding windows, soft caps, sinks and position biases.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from align_echo.errors import UsageError

NAME = "align_echo_tree"
BLOCK = 256
"""Tokens that ask together: few leave little to compute in vain, many are computed faster."""


@dataclass(frozen=True)
class Block:
    """Tokens `first` to `end` (B of them): the places `keys` [K] that any of them attends to, in order, and what is
    added to their scores, `bias` [B, K]: 0, or the least number where a token does not look.
    """

    first: int
    end: int
    keys: torch.Tensor
    bias: torch.Tensor


def blocks(ends_N: torch.Tensor, dtype: torch.dtype, size: int = BLOCK) -> list[Block]:
    """Of a tree whose tokens' subtrees end at these places: a token attends to itself and to those above it."""
    places_N = torch.arange(len(ends_N), device=ends_N.device)
    found = []
    for first in range(0, len(ends_N), size):
        end = min(first + size, len(ends_N))
        above = (ends_N[:first] > first).nonzero()[:, 0]
        keys = torch.cat([above, places_N[first:end]])
        seen_BK = (keys[None, :] <= places_N[first:end, None]) & (places_N[first:end, None] < ends_N[keys][None, :])
        bias = torch.zeros(seen_BK.shape, dtype=dtype, device=ends_N.device)
        found.append(Block(first, end, keys, bias.masked_fill_(~seen_BK, torch.finfo(dtype).min)))
    return found


@contextmanager
def over_trees(model: Any) -> Iterator[None]:
    """Within, the model attends over trees, and must be given `tree_blocks`; afterwards in its own way again."""
    AttentionInterface.register(NAME, tree_attention)
    own = str(model.config._attn_implementation)
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(own)


def tree_attention(
    module: torch.nn.Module,
    query: torch.Tensor,  # [1, H, N, D]
    key: torch.Tensor,  # [1, K, N, D]
    value: torch.Tensor,  # [1, K, N, D]
    attention_mask: torch.Tensor | None,
    *,
    tree_blocks: list[Block],
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    **unused: object,
) -> tuple[torch.Tensor, None]:
    """What every token gathers [1, N, H, D]. Called by the model's layers. Raises `UsageError` for what is left out."""
    if not all(one is None for one in (sliding_window, softcap, s_aux, position_bias)):
        raise UsageError(f"{type(module).__name__} cannot read conversations as a tree: its attention is not standard")
    _, heads, _, size = query.shape
    shared = key.shape[1]
    found = []
    for block in tree_blocks:
        # The heads that share keys are queries of one head: no keys are repeated.
        asked = query[:, :, block.first : block.end].reshape(1, shared, -1, size)
        gathered = scaled_dot_product_attention(
            asked,
            key.index_select(2, block.keys),
            value.index_select(2, block.keys),
            attn_mask=block.bias.repeat(heads // shared, 1)[None, None],
            dropout_p=dropout,
            scale=scaling,
        )
        found.append(gathered.reshape(heads, block.end - block.first, -1).transpose(0, 1))
    return torch.cat(found)[None], None
