"""Which rows are computed together, and after which tokens that they share: arithmetic alone, no tensors.

A prefix ends before the last token ahead of the first sampled one, so every sampled token is predicted from a token
of its own row. Left out: trees of more than one level, and prefixes that reach into what was sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from align_echo.tokens import TokenSequence

Group = tuple[int, list[int]]
"""How many tokens the rows share that are computed once, and the places of the rows."""


def divided(rows: Mapping[int, TokenSequence], *, tokens_per_batch: int, pair_cost: float | None) -> list[Group]:
    """Rows by their places, long ones first, in groups that compute at most `tokens_per_batch` tokens, padding too,
    unless one row alone is longer.

    `pair_cost` is what it costs that one token looks at another, in units of all else that a token costs: rows that
    begin alike share what is the same where that costs less. Without it (None) no row does.
    """
    lengths = {place: len(tokens.ids) for place, tokens in rows.items()}
    shared: list[Group] = []
    if pair_cost is not None:
        for prefix, family in _families({place: _opening(tokens) for place, tokens in rows.items()}):
            found = _after(prefix, {place: lengths[place] for place in family}, tokens_per_batch, pair_cost)
            shared += [(prefix, group) for group in found]
    done = {place for _, group in shared for place in group}
    alone = {place: length for place, length in lengths.items() if place not in done}
    return [*shared, *((0, group) for group in _padded(alone, tokens_per_batch))]


def _opening(tokens: TokenSequence) -> tuple[int, ...]:
    """What a row may share with others."""
    first = tokens.mask.index(1) if 1 in tokens.mask else len(tokens.ids)
    return tokens.ids[: max(first - 1, 0)]


def _families(openings: Mapping[int, tuple[int, ...]]) -> list[Group]:
    """All rows, divided so that most tokens are saved where each family computes once what all of it begins with."""
    order = sorted(openings, key=lambda place: (openings[place], place))
    alike = [0, *(common(openings[one], openings[other]) for one, other in pairwise(order))]
    best = [(0, 0, 0)]  # of so many rows: tokens saved, where the last family begins, what it shares
    for end in range(1, len(order) + 1):
        shared, choices = len(openings[order[end - 1]]), []
        for start in range(end - 1, -1, -1):
            choices.append((best[start][0] + (end - 1 - start) * shared, start, shared))
            shared = min(shared, alike[start])
        best.append(max(choices))
    families, end = [], len(order)
    while end:
        _, start, shared = best[end]
        families.append((shared, order[start:end]))
        end = start
    return families


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _after(prefix: int, lengths: Mapping[int, int], tokens_per_batch: int, pair_cost: float) -> list[list[int]]:
    """Those groups of a family that cost less after its prefix than row by row. A row joins longer ones where that,
    with its padding, costs less than the row by itself.
    """

    def whole(length: int) -> float:
        return length * (1 + pair_cost * length / 2)

    def joined(group: Sequence[int]) -> float:
        rest = lengths[group[0]] - prefix
        return rest * (1 + pair_cost * (prefix + rest))

    groups: list[list[int]] = []
    for place in _longest_first(lengths):
        last = groups[-1] if groups else []
        fits = last and prefix + (len(last) + 1) * (lengths[last[0]] - prefix) <= tokens_per_batch
        if not fits or joined(last) >= whole(lengths[place]):
            groups.append([])
        groups[-1].append(place)
    return [
        group
        for group in groups
        if whole(prefix) + len(group) * joined(group) < sum(whole(lengths[place]) for place in group)
    ]


def _padded(lengths: Mapping[int, int], tokens_per_batch: int) -> list[list[int]]:
    """Whole rows in groups of like length."""
    groups: list[list[int]] = []
    for place in _longest_first(lengths):
        if not groups or (len(groups[-1]) + 1) * lengths[groups[-1][0]] > tokens_per_batch:
            groups.append([])
        groups[-1].append(place)
    return groups


def _longest_first(lengths: Mapping[int, int]) -> list[int]:
    return sorted(lengths, key=lambda place: (-lengths[place], place))
