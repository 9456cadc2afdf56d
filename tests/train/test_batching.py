"""Rows as tensors: nothing lost, roles apart, and scales that make batches add up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.tokens import TokenSequence
from align_echo.train.batching import batches, scales
from align_echo.train.rows import Role, Row

ROLES: tuple[Role, ...] = ("policy", "critic")


def row(length: int, sampled: int, role: Role = "policy") -> Row:
    """A row of `length` tokens, the last `sampled` of them the model's, in one turn."""
    start = length - sampled
    tokens = TokenSequence(
        ids=tuple(range(10, 10 + length)),
        mask=(0,) * start + (1,) * sampled,
        logprobs=(0.0,) * start + tuple(-0.5 - position for position in range(sampled)),
        turns=((start, length),) if sampled else (),
    )
    return Row(tokens, role, "g", 0.0)


def test_one_batch_by_hand():
    (batch,) = batches([row(3, 1), row(5, 2)], [0.5, -1.0], [0.25, 0.125], tokens_per_batch=100)
    assert batch.ids.tolist() == [[10, 11, 12, 13, 14], [10, 11, 12, 0, 0]]
    assert batch.mask.tolist() == [[0, 0, 1, 1], [0, 1, 0, 0]]
    assert batch.sampled.tolist() == [[0, 0, -0.5, -1.5], [0, -0.5, 0, 0]]
    assert batch.turn.tolist() == [[-1, -1, 0, 0], [-1, 0, -1, -1]]
    assert batch.advantages.tolist() == [[-1.0], [0.5]]
    assert batch.scale.tolist() == [[0.125], [0.25]]


def test_scales_by_hand():
    rows = [row(4, 2), row(4, 3), row(4, 0), row(9, 4, "critic")]
    assert scales(rows, "sequence") == pytest.approx([1 / 4, 1 / 6, 0, 1 / 4])
    assert scales(rows, "token") == pytest.approx([1 / 5, 1 / 5, 0, 1 / 4])


def test_scales_of_roles_that_share_weights_are_of_one_mean_by_hand():
    rows = [row(4, 2), row(4, 3), row(4, 0), row(9, 4, "critic")]
    assert scales(rows, "sequence", together=True) == pytest.approx([1 / 6, 1 / 9, 0, 1 / 12])
    assert scales(rows, "token", together=True) == pytest.approx([1 / 9, 1 / 9, 0, 1 / 9])


rows_of_two_roles = st.lists(
    st.tuples(st.integers(2, 12), st.integers(0, 11), st.sampled_from(ROLES)).map(
        lambda drawn: row(drawn[0], min(drawn[1], drawn[0] - 1), drawn[2])
    ),
    min_size=1,
    max_size=20,
)


@given(rows_of_two_roles, st.integers(1, 60), st.sampled_from(["sequence", "token"]))
def test_every_row_is_in_one_batch_of_its_role_and_every_role_counts_1(rows, size, normalisation):
    scale = scales(rows, normalisation)
    divided = batches(rows, [float(index) for index in range(len(rows))], scale, tokens_per_batch=size)
    assert sorted(advantage for batch in divided for advantage in batch.advantages.flatten().tolist()) == list(
        range(len(rows))
    )
    for batch in divided:
        assert batch.ids.numel() <= size or len(batch.ids) == 1
        assert {rows[int(advantage)].role for advantage in batch.advantages.flatten()} == {batch.role}
    for role in ROLES:
        whole = sum(float((batch.mask * batch.scale).sum()) for batch in divided if batch.role == role)
        any_sampled = any(sum(row.tokens.mask) for row in rows if row.role == role)
        assert whole == pytest.approx(float(any_sampled), abs=1e-5)
