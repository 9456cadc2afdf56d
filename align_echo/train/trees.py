"""Many conversations in one row, with what they begin with alike computed once: a tree of tokens.

Proposed actions of one episode, or several episodes of one task, share much of what is read, so a tree of them is
shorter than they are. A token attends to its ancestors in the tree and stands where it stood in its conversation: what
a model makes of it is what it makes of the conversation alone. Arithmetic on token ids. Left out: attention
(`tree_attention.py`), and what is learned (`batching.py`, `gaia/fit/learning.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from align_echo.errors import UsageError


@dataclass(frozen=True)
class Tree:
    """R conversations as a tree of N tokens, parents first, each subtree in one piece.

    `ids` [N] are tokens, `positions` [N] where they stand in their conversations, `ends` [N] the place behind a token's
    subtree. `paths` [R] are the places of each conversation's tokens, `rows` [R] which conversations they are.
    """

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    ends: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]


def common(first: Sequence[int], other: Sequence[int]) -> int:
    """How many ids both begin with."""
    pairs = enumerate(zip(first, other, strict=False))
    return next((position for position, (a, b) in pairs if a != b), min(len(first), len(other)))


def tree(conversations: Sequence[Sequence[int]], rows: Sequence[int] | None = None) -> Tree:
    """The tree of these conversations; `rows` are their numbers, by default 0, 1 ... Raises `UsageError` for an empty
    conversation.
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
    return Tree(tuple(ids), tuple(positions), tuple(ends), tuple(paths), numbered)


def trees(conversations: Sequence[Sequence[int]], *, most_tokens: int) -> list[Tree]:
    """All conversations, in the order of their ids, in trees of at most `most_tokens`, unless one alone is longer."""
    order = sorted(range(len(conversations)), key=lambda row: tuple(conversations[row]))
    shared = [0, *(common(conversations[left], conversations[other]) for left, other in pairwise(order))]
    groups: list[list[int]] = []
    size = 0
    for row, alike in zip(order, shared, strict=True):
        gained = len(conversations[row]) - alike
        if not groups or size + gained > most_tokens:
            groups.append([])
            size, gained = 0, len(conversations[row])
        groups[-1].append(row)
        size += gained
    return [tree([conversations[row] for row in group], group) for group in groups]
