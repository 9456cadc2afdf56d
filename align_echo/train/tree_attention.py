"""Attention over a tree of tokens, as a `transformers` attention function.

Tokens attend in blocks, and each block attends to few positions: the path down to its first token, and itself. So long
trees cost little and share more. This kernel serves all rows with shared prefixes: GRPO on episodes of a task,
critiques of an attempt, questions to an intuitive critic. Not supported: sliding windows, soft caps, sinks, position
biases; generation, with its cache of keys and values (`models/local`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from align_echo.errors import UsageError

# ---------------------------------------------------------------- trees


@dataclass(frozen=True)
class TokenTree:
    """R conversations as a tree of N tokens: parents first, each subtree contiguous.

    `ids` [N] are tokens, `positions` [N] their positions in the conversations, `ends` [N] the index after each token's
    subtree. `paths` [R] are the indices of each conversation's tokens, `rows` [R] the numbers of the conversations.
    """

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    ends: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((position for position, (a, b) in pairs if a != b), min(len(first), len(second)))


def tree(conversations: Sequence[Sequence[int]], rows: Sequence[int] | None = None) -> TokenTree:
    """Build the tree of these conversations; `rows` are their numbers (default 0, 1 ...).

    Raises `UsageError` for an empty conversation.
    """
    if not all(conversations):
        raise UsageError("a conversation without tokens has nothing to predict from")
    numbers = list(range(len(conversations)) if rows is None else rows)
    order = sorted(range(len(conversations)), key=lambda row: tuple(conversations[row]))
    ids: list[int] = []
    positions: list[int] = []
    ends: list[int] = []
    path: list[int] = []
    paths: list[tuple[int, ...]] = []
    before: Sequence[int] = ()
    for row in order:
        conversation = conversations[row]
        shared = common(before, conversation)
        for node in path[shared:]:
            ends[node] = len(ids)
        del path[shared:]
        for position in range(shared, len(conversation)):
            path.append(len(ids))
            ids.append(conversation[position])
            positions.append(position)
            ends.append(-1)
        paths.append(tuple(path))
        before = conversation
    for node in path:
        ends[node] = len(ids)
    numbered = tuple(numbers[row] for row in order)
    return TokenTree(tuple(ids), tuple(positions), tuple(ends), tuple(paths), numbered)


def trees(conversations: Sequence[Sequence[int]], *, most_tokens: int) -> list[TokenTree]:
    """Build trees of at most `most_tokens`, in the order of ids; a longer conversation is a tree of its own."""
    order = sorted(range(len(conversations)), key=lambda row: tuple(conversations[row]))
    shared = [0, *(common(conversations[left], conversations[right]) for left, right in pairwise(order))]
    groups: list[list[int]] = []
    size = 0
    for row, common_ids in zip(order, shared, strict=True):
        added = len(conversations[row]) - common_ids
        if not groups or size + added > most_tokens:
            groups.append([])
            size, added = 0, len(conversations[row])
        groups[-1].append(row)
        size += added
    return [tree([conversations[row] for row in group], group) for group in groups]


# ---------------------------------------------------------------- tree attention

NAME = "align_echo_tree"
BLOCK = {"cpu": 128, "cuda": 2048}
"""Tokens in a block, by type of device. Small blocks waste less computation; large ones need fewer launches."""


@dataclass(frozen=True)
class AttentionBlock:
    """A block of B tokens, `first` to `end`: the positions `keys` [K] it attends to, in order, and the `bias` [B, K] on
    the scores: 0, or the lowest number to mask a position.
    """

    first: int
    end: int
    keys: torch.Tensor
    bias: torch.Tensor


def blocks(ends_N: torch.Tensor, dtype: torch.dtype, size: int = 0) -> list[AttentionBlock]:
    """Divide a tree into blocks, given the ends of its tokens' subtrees.

    A token attends to itself and to its ancestors.
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
        divided.append(AttentionBlock(first, end, keys, bias.masked_fill_(~seen_BK, torch.finfo(dtype).min)))
    return divided


@contextmanager
def over_trees(model: Any) -> Iterator[None]:
    """Switch the model to tree attention within the context. It then needs `tree_blocks` as input."""
    AttentionInterface.register(NAME, tree_attention)
    own = str(model.config._attn_implementation)
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(own)


def tree_inputs(model: Any, tree: TokenTree, device: torch.device) -> dict[str, Any]:
    """Build the inputs of a model within `over_trees` to read a tree."""
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
    tree_blocks: list[AttentionBlock],
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    **unused: object,
) -> tuple[torch.Tensor, None]:
    """Compute the attention output [1, N, H, D] of every token; called by the model's layers.

    Raises `UsageError` for an unsupported kind of attention.
    """
    if not all(extra is None for extra in (sliding_window, softcap, s_aux, position_bias)):
        raise UsageError(f"{type(module).__name__} cannot read conversations as a tree: its attention is not standard")
    _, heads, _, size = query.shape
    shared = key.shape[1]
    # Gather for all blocks at once: the gradient of each gather is as long as the tree.
    attended, lengths = torch.cat([block.keys for block in tree_blocks]), [len(block.keys) for block in tree_blocks]
    keys, values = (torch.split(part.index_select(2, attended), lengths, dim=2) for part in (key, value))
    by_products = query.device.type == "cpu" and query.dtype == torch.bfloat16 and not dropout
    outputs = []
    for block, block_keys, block_values in zip(tree_blocks, keys, values, strict=True):
        # Heads with shared keys become queries of one head, so that keys are not repeated.
        queries = query[:, :, block.first : block.end].reshape(1, shared, -1, size)
        bias = block.bias.repeat(heads // shared, 1)
        if by_products:
            gathered = _attention_by_products(queries[0], block_keys[0], block_values[0], bias, scaling)
        else:
            gathered = scaled_dot_product_attention(
                queries, block_keys, block_values, attn_mask=bias[None, None], dropout_p=dropout, scale=scaling
            )
        outputs.append(gathered.reshape(heads, block.end - block.first, -1).transpose(0, 1))
    return torch.cat(outputs)[None], None


def _attention_by_products(
    queries: torch.Tensor,  # [K, Q, D]
    keys: torch.Tensor,  # [K, P, D]
    values: torch.Tensor,  # [K, P, D]
    bias: torch.Tensor,  # [Q, P]
    scaling: float | None,
) -> torch.Tensor:
    """Compute attention by matrix products: in bfloat16 on a CPU twice as fast as torch's own, gradient included."""
    scale = queries.shape[-1] ** -0.5 if scaling is None else scaling
    scores = torch.baddbmm(bias.expand(len(queries), -1, -1), queries, keys.transpose(-1, -2), alpha=scale)
    return torch.bmm(scores.softmax(-1), values)
