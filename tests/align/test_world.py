"""The training side of an environment: limits spread over task types, and the expert's way."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from align_echo.align.loop import TrainingSplit, spread
from tests.align.room_world import BOOK, SPEC


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), unique=True, max_size=20), st.integers(1, 12))
def test_a_limit_is_spread_evenly_over_the_types(drawn: list[tuple[str, int]], limit: int) -> None:
    tasks = [f"{kind}/{number}" for kind, number in drawn]
    chosen = spread(tasks, limit, lambda task: task[0])
    assert len(chosen) == min(limit, len(tasks))
    assert chosen == [task for task in tasks if task in chosen]
    had, got = (Counter(task[0] for task in some) for some in (tasks, chosen))
    starved = [kind for kind in had if got[kind] < had[kind]]
    assert all(got[kind] >= max(got.values()) - 1 for kind in starved)


def test_the_experts_way() -> None:
    played = TrainingSplit(SPEC).gold(BOOK)
    assert [action for action, _ in played] == ["go to study", "take book 1", "go to kitchen", "drop book 1"]
    assert played[1][1] == "You take the book 1."
