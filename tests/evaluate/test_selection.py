"""Picking tasks: spread over types, stable, complete."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import UsageError
from align_echo.evaluate.plan import pick_round_tasks, pick_tasks


def kind(task: str) -> str:
    return task[0]


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=1), st.data())
def test_types_share_evenly_in_the_splits_order(sizes, data):
    tasks = [f"{letter}{i}" for letter, size in sorted(sizes.items()) for i in range(size)]
    count = data.draw(st.integers(1, len(tasks)))
    seed = data.draw(st.integers(0, 5))
    picked = pick_tasks(tasks, count, task_type=kind, seed=seed)
    assert picked == [task for task in tasks if task in set(picked)]
    assert len(picked) == count
    taken = Counter(map(kind, picked))
    for letter, size in sizes.items():  # a type has fewer than the fullest by more than one only if it ran out
        assert taken[letter] == size or taken[letter] >= max(taken.values()) - 1
    assert picked == pick_tasks(tasks, count, task_type=kind, seed=seed)


def test_another_seed_picks_others():
    tasks = [f"a{i}" for i in range(50)]
    assert pick_tasks(tasks, 5, task_type=kind, seed=0) != pick_tasks(tasks, 5, task_type=kind, seed=1)


def test_rounds_have_other_tasks_until_all_were_had():
    tasks = [f"{letter}{i}" for letter in "abc" for i in range(4)]
    rounds = [pick_round_tasks(tasks, 5, number, task_type=kind, seed=3) for number in (1, 2, 3)]
    assert rounds[0] == pick_tasks(tasks, 5, task_type=kind, seed=3)
    assert set(rounds[0]).isdisjoint(rounds[1])
    assert len(set(rounds[2]) - {*rounds[0], *rounds[1]}) == 2
    assert [len(set(picked)) for picked in rounds] == [5, 5, 5]


@pytest.mark.parametrize("count", [0, -1, 3])
def test_an_impossible_count_is_refused(count):
    with pytest.raises(UsageError, match="1 to 2"):
        pick_tasks(["a1", "a2"], count, task_type=kind)
