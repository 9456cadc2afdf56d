"""Trees of conversations: nothing is lost, what is alike is there once, and a model makes the same of it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import UsageError
from align_echo.train.tree_attention import blocks, tree, tree_attention, trees

CONVERSATIONS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=12)


def ancestors(ends: tuple[int, ...]) -> torch.Tensor:
    """Which tokens each token attends to [N, N]: itself and those above it."""
    return torch.tensor([[other <= index < end for other, end in enumerate(ends)] for index in range(len(ends))])


def path_to(mask: torch.Tensor, ids: tuple[int, ...], position: int) -> list[int]:
    return [ids[other] for other in range(len(ids)) if mask[position, other]]


@given(CONVERSATIONS)
def test_every_conversation_is_a_path_of_the_tree_and_every_beginning_is_there_once(conversations):
    built = tree(conversations)
    mask = ancestors(built.ends)
    assert sorted(built.rows) == list(range(len(conversations)))
    for row, path in zip(built.rows, built.paths, strict=True):
        assert path_to(mask, built.ids, path[-1]) == [built.ids[node] for node in path] == conversations[row]
        assert [built.positions[node] for node in path] == list(range(len(conversations[row])))
    beginnings = {tuple(conversation[: end + 1]) for conversation in conversations for end in range(len(conversation))}
    assert len(built.ids) == len(beginnings)
    assert mask.sum(dim=1).tolist() == [position + 1 for position in built.positions]


@given(CONVERSATIONS, st.integers(1, 9))
def test_blocks_look_where_their_tokens_look_and_nowhere_else(conversations, size):
    built = tree(conversations)
    wanted = ancestors(built.ends)
    blocks_made = blocks(torch.tensor(built.ends), torch.float32, size)
    assert [position for block in blocks_made for position in range(block.first, block.end)] == list(
        range(len(built.ids))
    )
    for block in blocks_made:
        seen = torch.zeros(block.end - block.first, len(built.ids), dtype=torch.bool)
        seen[:, block.keys] = block.bias == 0
        assert torch.equal(seen, wanted[block.first : block.end])
        assert seen.any(dim=0).sum() == len(block.keys)


@given(CONVERSATIONS, st.integers(1, 20))
def test_trees_hold_all_conversations_and_stay_within_the_limit(conversations, most):
    built = trees(conversations, most_tokens=most)
    assert sorted(row for block in built for row in block.rows) == list(range(len(conversations)))
    for group in built:
        assert len(group.ids) <= most or len({tuple(conversations[row]) for row in group.rows}) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_token_attends_to_what_is_above_it_in_any_precision(dtype):
    built = tree([[1, 2, 3, 4, 5], [1, 2, 6], [1, 7, 8]])
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, heads, len(built.ids), 8).to(dtype) for heads in (4, 2, 2))
    computed, _ = tree_attention(
        torch.nn.Module(), query, key, value, None, tree_blocks=blocks(torch.tensor(built.ends), dtype, 3), scaling=0.3
    )
    wide = [part.double().repeat_interleave(4 // part.shape[1], 1) for part in (query, key, value)]
    scores = 0.3 * wide[0] @ wide[1].mT
    exact = scores.masked_fill(~ancestors(built.ends), -torch.inf).softmax(-1) @ wide[2]
    assert torch.allclose(computed.double().transpose(1, 2), exact, atol=1e-5 if dtype == torch.float32 else 0.03)


def test_a_tree_by_hand():
    built = tree([[5, 6, 7], [5, 6], [5, 8]])
    assert (built.ids, built.positions, built.ends) == ((5, 6, 7, 8), (0, 1, 2, 1), (4, 3, 3, 4))
    assert (built.rows, built.paths) == ((1, 0, 2), ((0, 1), (0, 1, 2), (0, 3)))
    with pytest.raises(UsageError, match="without tokens"):
        tree([[1], []])
