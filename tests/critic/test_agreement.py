"""How often two rules agree: shares, intervals over tasks, and counts that leave no row out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.critic.ask import Label
from align_echo.critic.labels import LabelPair, RuleAgreement, agreement
from align_echo.intervals import Estimate, wilson

RULES: tuple[str, str] = ("expert", "nearer")
ANSWERS: dict[str, Label | None] = {"c": "correct", "w": "wrong", "-": None}


def row(said: str, *, task: str = "t", environment: str = "rooms", kind: str = "go to", explores: bool = False):
    """A row of "c" (correct), "w" (wrong) and "-" (cannot tell), the first rule's label first."""
    first, second = (ANSWERS[letter] for letter in said)
    return LabelPair(
        environment=environment, task_id=task, action_type=kind, first=first, second=second, explores=explores
    )


def share(part: RuleAgreement) -> Estimate:
    """The share of agreement, which is there."""
    assert part.agree is not None
    return part.agree


def counted(part: RuleAgreement) -> dict[str, int]:
    """The counts that are not 0."""
    return {pair: count for pair, count in part.counts.items() if count}


def test_a_row_counts_where_both_rules_can_tell():
    [found] = agreement([row("cc"), row("cw"), row("ww"), row("-w"), row("c-"), row("--")], RULES)
    assert (found.environment, found.rules) == ("rooms", RULES)
    assert found.all.n == 3
    assert share(found.all).value == pytest.approx(200 / 3)
    assert counted(found.all) == {
        "correct/correct": 1, "correct/wrong": 1, "wrong/wrong": 1, "none/wrong": 1, "correct/none": 1, "none/none": 1
    }  # fmt: skip


def test_exploring_steps_are_apart_from_the_others():
    [found] = agreement([row("wc", explores=True), row("wc", explores=True), row("cc"), row("ww")], RULES)
    assert (share(found.exploring).value, share(found.other).value, share(found.all).value) == (0, 100, 50)
    assert counted(found.exploring) == {"wrong/correct": 2}


def test_types_of_actions_and_environments_are_apart():
    rows = [row("cc", kind="take"), row("cw", kind="open"), row("ww", environment="shop", kind="click")]
    rooms, shop = agreement(rows, RULES)
    assert [one.environment for one in (rooms, shop)] == ["rooms", "shop"]
    assert {kind: part.n for kind, part in rooms.by_action_type.items()} == {"open": 1, "take": 1}
    assert list(shop.by_action_type) == ["click"]


def test_where_no_row_has_both_labels_there_is_no_share():
    [found] = agreement([row("-c"), row("w-")], RULES)
    assert (found.all.n, found.all.agree, found.all.by_chance) == (0, None, None)
    assert agreement([], RULES) == []


def test_the_interval_is_over_tasks_not_over_states():
    [alone] = agreement([row("cc" if n % 2 else "cw", task=str(n)) for n in range(20)], RULES)
    assert share(alone.all).ci95 == pytest.approx(wilson(10, 20).ci95)
    alike = [row("cc" if task % 2 else "cw", task=str(task)) for task in range(4) for _ in range(5)]
    [found] = agreement(alike, RULES)
    assert (found.all.n, share(found.all).n) == (20, 4)
    assert share(found.all).low < share(alone.all).low


def test_chance_agrees_most_where_nearly_all_is_wrong():
    [rare] = agreement([row("ww")] * 18 + [row("cw"), row("wc")], RULES)
    assert share(rare.all).value == 90
    assert rare.all.by_chance == pytest.approx(90.5)
    [even] = agreement([row("cc"), row("ww"), row("cw"), row("wc")], RULES)
    assert even.all.by_chance == share(even.all).value == 50


answers = st.sampled_from(list(ANSWERS.values()))
rows = st.lists(
    st.builds(
        LabelPair,
        environment=st.sampled_from(["rooms", "shop"]),
        task_id=st.sampled_from(["1", "2", "3"]),
        action_type=st.sampled_from(["go to", "take"]),
        first=answers,
        second=answers,
        explores=st.booleans(),
    )
)


@given(rows)
def test_every_row_is_counted_once_in_each_division(given_rows):
    found = agreement(given_rows, RULES)
    assert sum(sum(one.all.counts.values()) for one in found) == len(given_rows)
    for one in found:
        for parts in ((one.exploring, one.other), one.by_action_type.values()):
            assert {pair: sum(part.counts[pair] for part in parts) for pair in one.all.counts} == one.all.counts
            assert sum(part.n for part in parts) == one.all.n
        for part in (one.all, one.exploring, one.other):
            same = part.counts["correct/correct"] + part.counts["wrong/wrong"]
            assert part.n == same + part.counts["correct/wrong"] + part.counts["wrong/correct"]
            if part.agree is not None:
                assert part.agree.value == pytest.approx(100 * same / part.n)
                assert part.agree.low - 1e-9 <= part.agree.value <= part.agree.high + 1e-9


@given(rows)
def test_a_report_is_written_and_read_back(given_rows):
    for one in agreement(given_rows, RULES):
        assert type(one).model_validate(json.loads(one.model_dump_json())) == one


@given(rows)
def test_a_rule_agrees_with_itself(given_rows):
    alike = [given_row.model_copy(update={"second": given_row.first}) for given_row in given_rows]
    for one in agreement(alike, ("nearer", "nearer")):
        assert one.all.agree is None or share(one.all).value == 100
