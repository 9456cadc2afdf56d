"""The scripted novice of MiniWoB: what it reads, what it wants, what it gets wrong of itself, how it takes a hint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.agents.novice_model import NoviceModel
from align_echo.agents.novices import make_novice
from align_echo.agents.novices.miniwob import STUBBORN, ScreenHabits, screen_novice
from align_echo.agents.reasoning import Vanilla
from align_echo.errors import ReplyFormatError, UsageError
from align_echo.types import AgentView, Turn
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.gui.actions import parse

BOXES = """\
Screen 160x210, 5 elements:
label "a1" (20, 60) 30x13
input checkbox unchecked (10, 60) 13x13
label "b2" (20, 80) 30x13
input checkbox unchecked (10, 80) 13x13
button "Submit" (50, 120) 95x31"""
FORM = """\
Screen 160x210, 3 elements:
input text "" {} (60, 70) 120x20
input password "" (60, 100) 120x20
button "Login" (50, 140) 95x31"""
GOOD = ScreenHabits(0.0, 0.0, 0.0, 0.0, 0.0)


def view(goal: str, start: str, *turns: tuple[str, str], task: str = "t") -> AgentView:
    return AgentView(
        task_id=task,
        action_format=environment("miniwob").action_format,
        goal=goal,
        rules="",
        initial_observation=start,
        turns=tuple(Turn(reply=action, action=action, observation=text) for action, text in turns),
    )


def said(habits: ScreenHabits, seen: AgentView, n: int = 300) -> set[str | None]:
    """What novices with other draws do."""
    return {screen_novice(habits, seed=seed).act(seen).action for seed in range(n)}


def test_without_bad_habits_it_clicks_what_is_named_and_then_submits():
    goal = "Select b2 and click Submit."
    assert said(GOOD, view(goal, BOXES), 5) == {"click(20, 80)"}
    assert said(GOOD, view(goal, BOXES, ("click(20, 80)", BOXES)), 5) == {"click(50, 120)"}


def test_without_bad_habits_it_fills_in_what_stands_in_quotes():
    goal = 'Enter the username "ann" and the password "x7" into the text fields and press login.'
    assert said(GOOD, view(goal, FORM.format("")), 5) == {"click(60, 70)"}
    assert said(GOOD, view(goal, FORM.format("focused")), 5) == {'type("ann")'}
    filled = FORM.format("").replace('text ""', 'text "ann"').replace('password ""', 'password "" focused')
    assert said(GOOD, view(goal, filled), 5) == {'type("x7")'}
    assert said(GOOD, view(goal, filled.replace('password ""', 'password "**"')), 5) == {"click(50, 140)"}


def test_it_is_careless_in_every_way_that_it_knows():
    actions = said(ScreenHabits(), view("Select b2 and click Submit.", BOXES), 400)
    assert {"click(20, 80)", "finished()", "click(40, 160)", "click 20 80", "click(10, 60)"} <= actions
    beside = actions - {"finished()", "click(40, 160)"}
    assert any("click(2" in (action or "") and action not in ("click(20, 80)", "click(20, 60)") for action in beside)


def test_a_share_of_what_it_says_is_no_action():
    proposed = said(ScreenHabits(), view("Select b2 and click Submit.", BOXES))
    bad = [action for action in proposed if not reads(action or "")]
    assert bad


def reads(action: str) -> bool:
    try:
        parse(action)
    except ReplyFormatError:
        return False
    return True


def test_a_hint_in_backquotes_is_followed_twice_at_most_and_never_by_the_stubborn():
    told = f"{BOXES}\nYou should first `click(10, 80)`."
    once = view("Select b2 and click Submit.", BOXES, ("click(1, 1)", told))
    assert said(ScreenHabits(), once, 20) == {"click(10, 80)"}
    assert said(STUBBORN, once, 50) != {"click(10, 80)"}
    again = [("click(1, 1)", told), ("click(10, 80)", told)] * 3
    tired = view("Select b2 and click Submit.", BOXES, *again, ("click(1, 1)", told))
    assert said(GOOD, tired, 5) != {"click(10, 80)"}


@given(st.text(max_size=200), st.text(max_size=100))
def test_any_view_gets_one_action_and_the_same_one_twice(screen, goal):
    for text in (screen, f"{screen}\n{BOXES}"):
        seen = view(goal, text)
        action = make_novice("miniwob").act(seen).action
        assert action
        assert make_novice("miniwob").act(seen).action == action


def test_as_a_model_it_draws_other_candidates_for_other_samples():
    agent, seen = Vanilla(NoviceModel("miniwob"), temperature=1.0), view("Select b2 and click Submit.", BOXES)
    drawn = {
        Vanilla(NoviceModel("miniwob", sample=sample), temperature=1.0).act(seen).action for sample in range(30)
    }
    assert len(drawn) > 3
    assert "click(20, 80)" in drawn
    assert agent.act(seen).action == agent.act(seen).action


def test_there_is_no_careful_one():
    with pytest.raises(UsageError, match="no scripted novice-careful for miniwob"):
        make_novice("miniwob", "novice-careful")
