"""Examples for critics: no duplicates, balance, division by task, and Parquet that gives back what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("datasets")

from align_echo.errors import MissingDataError, UsageError
from align_echo.gaia.examples import (
    ActionExample,
    balance_examples,
    deduplicate,
    even_weights,
    read_examples,
    split_held_out,
    write_examples,
)
from align_echo.types import Message


def example(task: str = "a", action: str = "look", **fields: Any) -> ActionExample:
    chat = (Message(role="system", content="You act."), Message(role="user", content=f"Task {task}: «ü»\n"))
    row: dict[str, Any] = {
        **{"environment": "alfworld", "split": "train", "task_id": task, "task_type": "clean", "sample": 0, "turn": 0},
        **{"messages": chat, "action": action, "action_type": action.split()[0], "drawn": 1, "logprob": None},
        **{"sent": False, "expert": None, "nearer": "wrong", "continues": None, "explores": False},
        **{"agent": "vanilla(pocket)", "weights": "", "round": 1, "p_correct": None},
    }
    return ActionExample(**(row | fields))


def test_the_same_action_in_the_same_conversation_is_one_example_however_often_it_was_drawn():
    twice = [example(drawn=2), example(action="go to desk 1"), example(drawn=3, sample=4, round=2), example("b")]
    assert [(example.task_id, example.action, example.drawn, example.round) for example in deduplicate(twice)] == [
        ("a", "look", 5, 1),
        ("a", "go to desk 1", 1, 1),
        ("b", "look", 1, 1),
    ]


LABELS = st.lists(st.sampled_from(["correct", "wrong", None]), min_size=2, max_size=60)


@given(LABELS, st.integers(0, 3))
def test_balanced_is_half_and_half_in_order_and_takes_nothing_from_the_rarer_class(labels, seed):
    made = [example(action=f"look {index}", expert=label) for index, label in enumerate(labels)]
    fewer = min(labels.count("correct"), labels.count("wrong"))
    if not fewer:
        with pytest.raises(UsageError, match="collect more"):
            balance_examples(made, "expert", seed=seed)
        return
    kept = balance_examples(made, "expert", seed=seed)
    found = [example.expert for example in kept]
    assert (found.count("correct"), found.count("wrong"), found.count(None)) == (fewer, fewer, 0)
    assert [example for example in made if example in kept] == kept == balance_examples(made, "expert", seed=seed)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["correct", "wrong", None])), max_size=40))
def test_in_every_state_right_and_wrong_weigh_the_same_and_one_without_both_nothing(drawn):
    made = [example(task, f"look {place}", expert=label) for place, (task, label) in enumerate(drawn)]
    weights = even_weights(made, "expert")
    assert all(not weight for weight, (_, label) in zip(weights, drawn, strict=True) if label is None)
    for task in "abc":
        sides = {
            label: [weight for weight, one in zip(weights, drawn, strict=True) if one == (task, label)]
            for label in ("correct", "wrong")
        }
        count = sum(map(len, sides.values())) if all(sides.values()) else 0
        for side in sides.values():
            assert sum(side) == pytest.approx(count / 2)
            assert len(set(side)) <= 1


def test_the_weights_of_a_state_by_hand():
    labels = ("correct", "wrong", "wrong", "wrong", None)
    state = [example(action=f"look {place}", nearer=label) for place, label in enumerate(labels)]
    assert even_weights(state, "nearer") == [2, 2 / 3, 2 / 3, 2 / 3, 0]
    assert even_weights([example("b", nearer="wrong")], "nearer") == [0]


@given(st.sets(st.text("abcdef0123456789", min_size=1, max_size=6), min_size=1, max_size=80), st.integers(0, 5))
def test_no_task_is_on_both_sides_and_a_task_stays_where_it_is_when_more_are_collected(tasks, seed):
    made = [example(task, action) for task in sorted(tasks) for action in ("look", "wait")]
    learned, tested = split_held_out(made, 0.3, seed=seed)
    assert {example.task_id for example in learned}.isdisjoint(example.task_id for example in tested)
    assert sorted(example.key for example in learned + tested) == sorted(example.key for example in made)
    more = [*made, example("another task")]
    assert [example for example in split_held_out(more, 0.3, seed=seed)[1] if example.task_id in tasks] == tested


def test_about_the_share_asked_for_is_held_out():
    made = [example(f"task {number}") for number in range(1000)]
    assert len(split_held_out(made, 0.2)[1]) == pytest.approx(200, abs=50)
    assert split_held_out(made, 0.0)[1] == []
    with pytest.raises(UsageError, match="share of tasks"):
        split_held_out(made, 1.0)


def test_parquet_gives_back_what_was_written_and_other_tools_read_it(tmp_path):
    rows = [
        example(logprob=-1.25, sent=True, explores=True, expert="correct", p_correct=0.5),
        example("b", "put «mug» in\ndrawer 1"),
    ]
    write_examples(rows, tmp_path / "made" / "examples.parquet")
    assert read_examples(tmp_path / "made") == rows
    assert [one.name for one in (tmp_path / "made").iterdir()] == ["examples.parquet"]
    import pyarrow.parquet as pq

    columns = pq.read_table(tmp_path / "made" / "examples.parquet").to_pydict()
    assert (columns["expert"], columns["continues"]) == (["correct", None], [None, None])
    assert columns["messages"][0][0] == {"role": "system", "content": "You act."}


def test_what_holds_no_examples_is_refused_in_one_line(tmp_path: Path):
    with pytest.raises(MissingDataError, match="align-echo critic collect"):
        read_examples(tmp_path)
    (tmp_path / "examples.parquet").write_text("not parquet")
    with pytest.raises(UsageError, match="holds no examples"):
        read_examples(tmp_path)
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"prompt": ["hi"]}), tmp_path / "other.parquet")
    with pytest.raises(UsageError, match="holds no examples"):
        read_examples(tmp_path / "other.parquet")
    with pytest.raises(UsageError, match="no example to write"):
        write_examples([], tmp_path / "none.parquet")
