"""The scripted novice of ScienceWorld: what it wants, what it gets wrong of itself, and how it takes a hint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.agents.novices import make_novice
from align_echo.agents.novices.habits import NoviceStep, ScriptedNovice
from align_echo.agents.novices.scienceworld import (
    DONE,
    ROOMS,
    STUBBORN,
    LabBelief,
    LabHabits,
    lab_novice,
    read_goal,
    read_rules,
)
from align_echo.errors import UsageError
from align_echo.types import AgentView, Turn

GOAL = "Your task is to find a(n) animal. First, focus on the thing. Then, move it to the red box in the kitchen."
OUTSIDE = (
    "This outside location is called the outside. Here you see: \n\tthe agent\n\ta substance called air\n\tan axe\n"
    "\ta fire pit (containing nothing)\n\ta fountain (containing a substance called water)\n\ta baby wolf\n"
    "You also see:\n\tA door to the kitchen (that is open)"
)
REFUSED = "No known action matches that input."
SURE = LabHabits(goes_first=1.0, teleports=1.0, adds_words=0.0, looks_about=0.0, gets_stuck=0.0, patience=0)


def view(*turns: tuple[str, str], goal: str = GOAL, rules: str = "", task: str = "t") -> AgentView:
    return AgentView(
        task_id=task,
        action_format="",
        goal=goal,
        rules=rules,
        initial_observation=OUTSIDE,
        turns=tuple(Turn(reply=action, action=action, observation=text) for action, text in turns),
    )


def acts(novice: ScriptedNovice, *turns: tuple[str, str], rules: str = "", task: str = "t") -> str:
    return str(novice.act(view(*turns, rules=rules, task=task)).action)


def test_a_goal_is_read_as_steps():
    assert read_goal(GOAL) == (
        NoviceStep("focus", "animal"),
        NoviceStep("take", "animal"),
        NoviceStep("move", "animal", "red box", "kitchen"),
    )
    freeze = "Your task is to freeze lead. First, focus on the substance. Then, take actions that will cause it to"
    assert [step.verb for step in read_goal(freeze)] == ["focus", "take", "cool", "wait", "wait", "wait"]
    assert read_goal("make me happy") == ()
    assert acts(lab_novice(), rules="") != ""


def test_what_it_saw_it_knows_by_name_and_by_kind():
    belief = LabBelief()
    belief.update(OUTSIDE)
    assert (belief.room, belief.find("animal"), belief.find("axe")) == ("outside", "baby wolf", "axe")
    assert belief.inside["water"] == "fountain"
    assert belief.find("plant") is None
    belief.update("You move the baby wolf to the inventory.")
    belief.update("You teleport to the kitchen.")
    assert belief.is_reachable("baby wolf")
    assert not belief.is_reachable("axe")


def test_one_that_knows_the_words_goes_straight_on():
    novice = lab_novice(SURE)
    told: list[tuple[str, str]] = []
    answers = {
        "focus on baby wolf": "You focus on the baby wolf.",
        "pick up baby wolf": "You move the wolf to the inventory.",
        "teleport to kitchen": "You teleport to the kitchen.",
        "look around": "This room is called the kitchen. In it, you see: \n\ta red box (containing nothing)",
        "move baby wolf to red box": "You move the wolf to the red box.",
    }
    while len(told) < len(answers):
        action = acts(novice, *told)
        told.append((action, answers[action]))
    assert [action for action, _ in told] == list(answers)


def test_of_itself_it_says_things_its_own_way_and_repeats_them():
    novice = lab_novice(LabHabits(goes_first=0.0, teleports=0.0, adds_words=1.0, looks_about=0.0, gets_stuck=1.0))
    told: list[tuple[str, str]] = []
    for _ in range(30):
        told.append((acts(novice, *told), REFUSED))
    assert len({action for action, _ in told}) == 1
    novice = lab_novice(LabHabits(adds_words=1.0, looks_about=0.0, gets_stuck=0.0))
    told = []
    for _ in range(30):
        told.append((acts(novice, *told), REFUSED))
    assert 3 <= len({action for action, _ in told}) < 30


def test_it_does_what_feedback_names():
    said = f"{REFUSED} You need to `teleport to kitchen` first."
    assert acts(lab_novice(), ("move axe to red box", said)) == "teleport to kitchen"
    assert acts(lab_novice(STUBBORN), ("move axe to red box", said)) != "teleport to kitchen"
    said = f"{REFUSED} Write `pick up axe` instead."
    assert acts(lab_novice(), ("take axe from outside", said)) == "pick up axe"


def test_it_does_not_take_an_order_from_a_plain_description_or_a_form():
    plain = lab_novice(SURE)
    assert acts(plain, ("read sign", "The sign says `eat axe`.")) == "focus on baby wolf"
    assert acts(plain, ("read sign", "You must say `use {0} on {1}`.")) == "focus on baby wolf"


def test_it_stops_taking_a_hint_that_never_helps():
    hint = ("eat axe", f"{REFUSED} You need to `open axe` first.")
    failing = (hint, ("open axe", REFUSED))
    assert acts(lab_novice(SURE), *failing, *failing, hint) != "open axe"


def test_it_answers_which_thing_is_meant_by_a_number():
    question = (
        "Ambiguous request: Please enter the number for the action you intended (or blank to cancel):\n"
        "0:\tfocus on axe (in outside)\n1:\tfocus on animal (in outside)\n"
    )
    assert acts(lab_novice(), ("focus on it", question)) == "1"
    assert acts(lab_novice(), ("focus on it", question.replace("animal", "shovel"))) == "0"


def test_rules_told_up_front_change_what_it_does_sometimes():
    rules = "Teleport to the room of a thing before you `focus on` or `move` it"
    assert ("go to", "move") in read_rules(rules)
    assert read_rules("Say `pick up OBJ` instead of `take OBJ from OBJ`") == {("say", "take")}
    moves = (("focus on baby wolf", "You focus on the baby wolf."), ("", "You move the baby wolf to the inventory."))
    first = [[acts(lab_novice(), *moves, rules=told, task=str(n)) for n in range(60)] for told in ("", rules)]
    hasty = [sum(action.startswith("move") or action.startswith("place") for action in actions) for actions in first]
    assert 0 < hasty[1] < hasty[0]


@pytest.mark.parametrize("rules", ["You should never go to a room before you move it", "There is no first", "move"])
def test_rules_that_say_no_or_nothing_change_nothing(rules: str):
    assert read_rules(rules) == frozenset()


def test_there_are_two_kinds():
    assert make_novice("scienceworld", "novice").name == "novice"
    assert make_novice("scienceworld", "novice-stubborn").name == "novice-stubborn"
    with pytest.raises(UsageError, match="novice-careful"):
        make_novice("scienceworld", "novice-careful")


def test_every_step_can_be_said():
    novice = lab_novice(LabHabits(adds_words=1.0))
    goals = (
        "Your task is to boil lead.",
        "Your task is to freeze lead.",
        "Your task is to use chemistry to create green paint.",
        "Your task is to turn on the electric motor. First, focus on the electric motor.",
        "Your task is to use chemistry to create the substance 'salt water'. A recipe might be found near the kitchen.",
        "Your task is to measure the temperature of lead, which is located around the kitchen. If the lead temperature "
        "is above 1 degrees, place it in the red box. The boxes are located around the bathroom.",
    )
    assert {step.verb for goal in goals for step in read_goal(goal)} | {"move"} == set(DONE)
    for goal in goals:
        told: list[tuple[str, str]] = []
        for _ in range(40):
            told.append((str(novice.act(view(*told, goal=goal)).action), REFUSED))
        assert all(action and "{" not in action for action, _ in told)


_TEXT = st.one_of(st.text(max_size=80), st.sampled_from([OUTSIDE, REFUSED, *(f"You move to the {r}." for r in ROOMS)]))


@given(st.lists(st.tuples(st.text(max_size=30), _TEXT), max_size=6), st.text(max_size=60))
def test_any_history_gets_one_action_and_always_the_same(turns: list[tuple[str, str]], rules: str):
    seen = view(*turns, rules=rules)
    first, second = lab_novice().act(seen), lab_novice().act(seen)
    assert first == second
    assert first.action
    assert "\n" not in first.action
