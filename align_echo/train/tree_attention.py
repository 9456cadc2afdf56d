"""Attention over a tree of tokens, as a `transformers` attention function: only what a token may look at is computed.

Tokens ask in blocks, and what a block looks at is short: the path down to its first token, and the block itself. Trees
may so be long at little cost, and share the more. One kernel for all that learns from rows that begin alike: a step of
GRPO on episodes of one task, critiques of one attempt, an intuitive critic's questions. Left out: sliding windows, soft
caps, sinks and position biases; generation, whose slots keep keys and values between turns (`models/local`).
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
from align_echo.train.trees import Tree

NAME = "align_echo_tree"
BLOCK = {"cpu": 128, "cuda": 2048}
"""How many tokens make a block, by the kind of device: a small one computes less in vain, a large one is launched less
often.
"""


@dataclass(frozen=True)
class Block:
    """Tokens `first` to `end` (B of them): the places `keys` [K] that any of them attends to, in order, and what is
    added to their scores, `bias` [B, K]: 0, or the least number where a token does not look.
    """

    first: int
    end: int
    keys: torch.Tensor
    bias: torch.Tensor


def blocks(ends_N: torch.Tensor, dtype: torch.dtype, size: int = 0) -> list[Block]:
    """The blocks of a tree whose tokens' subtrees end at these places. A token attends to itself and to those above it.
    """
    size = size or BLOCK.get(ends_N.device.type, BLOCK["cpu"])
    places_N = torch.arange(len(ends_N), device=ends_N.device)
    divided = []
    for first in range(0, len(ends_N), size):
        end = min(first + size, len(ends_N))
        above = (ends_N[:first] > first).nonzero()[:, 0]
        keys = torch.cat([above, places_N[first:end]])
        seen_BK = (keys[None, :] <= places_N[first:end, None]) & (places_N[first:end, None] < ends_N[keys][None, :])
        bias = torch.zeros(seen_BK.shape, dtype=dtype, device=ends_N.device)
        divided.append(Block(first, end, keys, bias.masked_fill_(~seen_BK, torch.finfo(dtype).min)))
    return divided


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


def tree_inputs(model: Any, tree: Tree, device: torch.device) -> dict[str, Any]:
    """What a model that is `over_trees` is given for it to read the tree."""
    return {
        "input_ids": torch.tensor(tree.ids, device=device)[None],
        "position_ids": torch.tensor(tree.positions, device=device)[None],
        "use_cache": False,
        "tree_blocks": blocks(torch.tensor(tree.ends, device=device), _dtype(model)),
    }


def _dtype(model: Any) -> torch.dtype:
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        return torch.get_autocast_dtype("cuda" if torch.is_autocast_enabled("cuda") else "cpu")
    dtype: torch.dtype = model.dtype
    return dtype


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
    if not all(extra is None for extra in (sliding_window, softcap, s_aux, position_bias)):
        raise UsageError(f"{type(module).__name__} cannot read conversations as a tree: its attention is not standard")
    _, heads, _, size = query.shape
    shared = key.shape[1]
    # Gathered for all blocks at once: the gradient of a gathering is as long as the tree.
    attended, lengths = torch.cat([block.keys for block in tree_blocks]), [len(block.keys) for block in tree_blocks]
    keys, values = (torch.split(part.index_select(2, attended), lengths, dim=2) for part in (key, value))
    outputs = []
    for block, block_keys, block_values in zip(tree_blocks, keys, values, strict=True):
        # The heads that share keys are queries of one head: no keys are repeated.
        queries = query[:, :, block.first : block.end].reshape(1, shared, -1, size)
        gathered = scaled_dot_product_attention(
            queries,
            block_keys,
            block_values,
            attn_mask=block.bias.repeat(heads // shared, 1)[None, None],
            dropout_p=dropout,
            scale=scaling,
        )
        outputs.append(gathered.reshape(heads, block.end - block.first, -1).transpose(0, 1))
    return torch.cat(outputs)[None], None
