"""The scripted novice: what it wants, what it gets wrong of itself, and how it takes a hint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.agents.novices.alfworld import CAREFUL, STUBBORN, HouseHabits, house_novice, read_rules
from align_echo.types import AgentView, Turn
from align_echo.wrappers.alfworld.routes import HouseholdGoal, read_goal

INTRO = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a countertop 1, "
    "and a fridge 1.\nYour task is to: put a clean mug in fridge."
)


def view(*turns: tuple[str, str], goal: str = "put a clean mug in fridge.", rules: str = "") -> AgentView:
    return AgentView(
        task_id="t",
        action_format="",
        goal=goal,
        rules=rules,
        initial_observation=INTRO,
        turns=tuple(Turn(reply=action, action=action, observation=text) for action, text in turns),
    )


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("put a mug in fridge.", HouseholdGoal("place", "mug", "fridge")),
        ("put some book on shelf.", HouseholdGoal("place", "book", "shelf")),
        ("put a clean mug in fridge.", HouseholdGoal("clean", "mug", "fridge")),
        ("clean some cloth and put it in drawer.", HouseholdGoal("clean", "cloth", "drawer")),
        ("put a hot potato in fridge.", HouseholdGoal("heat", "potato", "fridge")),
        ("heat some egg and put it in garbagecan.", HouseholdGoal("heat", "egg", "garbagecan")),
        ("put a cool pan in diningtable.", HouseholdGoal("cool", "pan", "diningtable")),
        ("put two cd in safe.", HouseholdGoal("two", "cd", "safe")),
        ("find two cd and put them in safe.", HouseholdGoal("two", "cd", "safe")),
        ("look at bowl under the desklamp.", HouseholdGoal("light", "bowl", tool="desklamp")),
        ("examine the pillow with the desklamp.", HouseholdGoal("light", "pillow", tool="desklamp")),
    ],
)
def test_goals_are_understood(text: str, goal: HouseholdGoal):
    assert read_goal(text) == goal


def test_a_goal_it_cannot_read_is_not_guessed():
    assert read_goal("make me happy") is None
    assert house_novice().act(view(goal="make me happy")).action


def test_it_does_what_feedback_names():
    said = "Nothing happens. You need to `go to cabinet 1` first."
    assert house_novice().act(view(("examine cabinet 1", said))).action == "go to cabinet 1"
    assert house_novice(STUBBORN).act(view(("examine cabinet 1", said))).action != "go to cabinet 1"


def test_it_does_not_take_an_order_from_a_plain_description():
    arrived = ("go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see a mug 1.")
    assert house_novice().act(view(arrived)).action == "take mug 1 from countertop 1"


def test_it_stops_taking_a_hint_that_never_helps():
    hint = "You need to `open cabinet 1` first."
    failing = ("examine cabinet 1", hint), ("open cabinet 1", "Nothing happens.")
    assert house_novice().act(view(*failing, *failing, failing[0])).action != "open cabinet 1"


def test_it_repeats_what_did_nothing_and_gives_up_in_the_end():
    novice = house_novice(HouseHabits(goes_first=0.0))
    turns: list[tuple[str, str]] = []
    for _ in range(20):
        turns.append((str(novice.act(view(*turns)).action), "Nothing happens."))
    actions = [action for action, _ in turns]
    assert len(set(actions)) >= 3
    assert len(set(actions)) < len(actions)
    assert not any(action.startswith("go to") for action in actions)


def test_holding_the_thing_it_wants_the_wrong_word_first():
    held = (
        ("go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see a mug 1."),
        ("take mug 1 from countertop 1", "You pick up the mug 1 from the countertop 1."),
    )
    action = house_novice(HouseHabits(goes_first=0.0)).act(view(*held, goal="put a mug in fridge.")).action
    assert action == "put mug 1 in/on fridge 1"


def test_rules_told_up_front_change_what_it_does_sometimes():
    rules = "- Before `examine X` you need to `go to X`"
    assert ("go to", "examine") in read_rules(rules)
    plain = sum(str(house_novice(seed=seed).act(view()).action).startswith("go to") for seed in range(60))
    told = sum(str(house_novice(seed=seed).act(view(rules=rules)).action).startswith("go to") for seed in range(60))
    assert plain < told < 60


@pytest.mark.parametrize(
    "rules",
    [
        "You should never go to anything before `examine X`",
        "There is no need to go to X before you examine it",
        "go to",
    ],
)
def test_rules_that_say_no_or_nothing_change_nothing(rules: str):
    assert read_rules(rules) == frozenset()


def test_rules_in_other_words_are_understood():
    assert ("go to", "examine") in read_rules("1. You must go to a receptacle before you can examine it.")
    assert ("move", "put") in read_rules("Write `move X to Y` instead of `put X in/on Y`")


def test_the_careful_one_goes_first():
    assert str(house_novice(CAREFUL).act(view()).action).startswith("go to")


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=80)), max_size=6), st.text(max_size=60))
def test_any_history_gets_one_action_and_always_the_same(turns: list[tuple[str, str]], rules: str):
    seen = view(*turns, rules=rules)
    first, second = house_novice().act(seen), house_novice().act(seen)
    assert first == second
    assert first.action
    assert "\n" not in first.action
