"""Weights of examples: right and wrong even out in every state and for every action, by hand and for any examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.flywheel.examples import Example, Said
from align_echo.flywheel.weighing import MOST, even_weights


def example(task: str, action: str, label: str | None, environment: str = "alfworld") -> Example:
    return Example.model_validate(
        {
            **{"environment": environment, "split": "train", "task_id": task, "task_type": "clean", "sample": 0},
            **{"turn": 0, "messages": (Said(role="user", content=task),), "action": action, "action_type": "look"},
            **{"drawn": 1, "logprob": None, "sent": False, "nearer": label, "agent": "vanilla", "weights": ""},
            **{"round": 1, "p_correct": None},
        }
    )


Rows = list[tuple[str, str, str | None]]


def sums(rows: Rows, weights: np.ndarray) -> dict[str, dict[str | None, float]]:
    """What right and wrong ones of each state count together."""
    found: dict[str, dict[str | None, float]] = {}
    for (state, _, label), weight in zip(rows, weights, strict=True):
        sides = found.setdefault(state, {})
        sides[label] = sides.get(label, 0.0) + weight
    return found


def test_the_weights_of_one_state_by_hand():
    labels = ("correct", "wrong", "wrong", "wrong", None)
    state = [example("a", f"look {place}", label) for place, label in enumerate(labels)]
    assert even_weights(state, "nearer").tolist() == pytest.approx([2, 2 / 3, 2 / 3, 2 / 3, 0])
    assert even_weights([example("b", "look", "wrong")], "nearer").tolist() == [0]
    assert even_weights([], "nearer").tolist() == []


def test_an_action_that_is_right_in_one_state_and_wrong_in_another_counts_the_same_as_both():
    rows = [("done", "buy", "correct"), ("done", "red", "wrong"), ("open", "blue", "correct"), ("open", "buy", "wrong")]
    rows += [("open", "odd", "wrong"), ("open", "mud", "wrong")]
    weights = even_weights([example(*row) for row in rows], "nearer")
    assert weights[0] == pytest.approx(weights[3]) == pytest.approx(weights[1])
    assert weights[2] == pytest.approx(weights[3:].sum())
    assert weights[4] == pytest.approx(weights[5])
    assert weights.mean() == pytest.approx(1)


def test_an_action_of_another_environment_is_another_action():
    rows = [example("a", "look", "correct"), example("a", "go", "wrong"), example("a", "sing", "wrong")]
    other = [example("b", "look", "wrong", "webshop"), example("b", "sit", "correct", "webshop")]
    weights = even_weights([*rows, *other], "nearer")
    assert weights.tolist() == pytest.approx([1.5, 0.75, 0.75, 1, 1])


def test_one_right_action_among_very_many_makes_its_state_count_less_and_stays_even():
    crowd = [("a", "yes", "correct"), *(("a", f"no {place}", "wrong") for place in range(99))]
    pair = [("b", "up", "correct"), ("b", "down", "wrong")]
    weights = even_weights([example(*row) for row in (*crowd, *pair)], "nearer")
    assert weights[0] == pytest.approx(weights[1:100].sum(), rel=1e-3)
    assert weights[0] == pytest.approx(MOST * weights[100])


ROW = st.tuples(st.sampled_from("abcd"), st.sampled_from("uvwxyz"), st.sampled_from(["correct", "wrong", None]))


@given(st.lists(ROW, unique_by=lambda row: row[:2]))
def test_states_without_choice_count_nothing_and_all_others_are_even(drawn: Rows) -> None:
    weights = even_weights([example(*row) for row in drawn], "nearer")
    assert np.isfinite(weights).all()
    for state, sides in sums(drawn, weights).items():
        choice = {"correct", "wrong"} <= {label for of, _, label in drawn if of == state}
        assert sides.get(None, 0.0) == 0
        assert (sum(sides.values()) > 0) == choice
        if choice:
            assert sides["correct"] == pytest.approx(sides["wrong"], rel=0.05)
    if weights.any():
        assert weights[weights > 0].mean() == pytest.approx(1)
