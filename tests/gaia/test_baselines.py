"""What judges without reading: tables and thresholds by hand, and the lead of a critic over them."""

from __future__ import annotations

import math

import pytest

from align_echo.critic.ask import Label
from align_echo.gaia.examples import ActionExample
from align_echo.gaia.trial import (
    CONSTANT,
    LOGPROB,
    TABLE,
    build_baselines,
    compare_baselines,
    threshold,
    without_numbers,
)
from align_echo.types import Message


def example(action: str, label: Label, *, logprob: float | None = -1.0, task: str = "t") -> ActionExample:
    return ActionExample(
        environment="e", split="s", task_id=task, task_type="", sample=0, turn=0,
        messages=(Message(role="user", content="hm"),), action=action, action_type="", drawn=1, logprob=logprob,
        sent=False, agent="a", weights="", round=1, p_correct=None, nearer=label,
    )  # fmt: skip


def test_actions_are_alike_but_for_their_numbers():
    assert without_numbers("Go to desk 12") == without_numbers("go to desk 3") == "go to desk #"


def test_the_table_says_what_weighs_more_and_wrong_of_what_it_does_not_know():
    learned = [
        example("go to desk 1", "correct"),
        example("go to desk 2", "wrong"),
        *[example("look", "wrong") for _ in range(8)],
    ]
    table = build_baselines(learned, [example("look", "wrong")], "nearer")[TABLE]
    assert [table(example(one, "wrong")) for one in ("go to desk 7", "look", "eat")] == ["correct", "wrong", "wrong"]


@pytest.mark.parametrize(
    ("values", "least"),
    [
        ([(-1.0, "correct", 1.0), (-2.0, "wrong", 1.0)], -1.0),
        ([(-1.0, "wrong", 1.0), (-2.0, "correct", 1.0), (-3.0, "correct", 1.0)], -3.0),
        ([(-1.0, "wrong", 1.0), (-2.0, "wrong", 1.0)], math.inf),
        ([(-1.0, "correct", 1.0), (-1.0, "wrong", 1.0), (-2.0, "correct", 1.0)], -2.0),
    ],
)
def test_the_threshold_by_hand(values, least):
    assert threshold(values) == least


def test_a_log_probability_that_is_not_told_is_no_baseline():
    assert LOGPROB not in build_baselines([example("a", "correct", logprob=None)], [example("b", "wrong")], "nearer")


def test_the_lead_is_paired_and_of_the_critic():
    learned = [example("go", "correct", logprob=-1.0), example("look", "wrong", logprob=-5.0)]
    tested = [
        example("go", "correct", logprob=-0.5, task="1"),
        example("look", "correct", logprob=-6.0, task="1"),
        example("look", "wrong", logprob=-6.0, task="2"),
        example("go", "wrong", logprob=-0.5, task="2"),
    ]
    found = compare_baselines(learned, tested, ["correct", "correct", "wrong", None], "nearer")
    assert set(found) == {CONSTANT, TABLE, LOGPROB}
    assert {name: one.accuracy.value for name, one in found.items()} == {CONSTANT: 50.0, TABLE: 50.0, LOGPROB: 50.0}
    assert {one.lead.value for one in found.values()} == {25.0}
    assert compare_baselines(learned, [], [], "nearer") == {}
