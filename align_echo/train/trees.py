"""Many conversations in one row, as a tree of tokens that computes shared prefixes once.

Proposed actions of an episode, or several episodes of a task, share long prefixes, so their tree has fewer tokens. A
token attends to its ancestors and has the same position as in its conversation, so the model computes the same for it
as in the conversation alone. Arithmetic on token ids. Not here: attention (`tree_attention.py`), and learning
(`batching.py`, `gaia/fit/learning.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from align_echo.errors import UsageError


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
    for row, alike in zip(order, shared, strict=True):
        added = len(conversations[row]) - alike
        if not groups or size + added > most_tokens:
            groups.append([])
            size, added = 0, len(conversations[row])
        groups[-1].append(row)
        size += added
    return [tree([conversations[row] for row in group], group) for group in groups]
