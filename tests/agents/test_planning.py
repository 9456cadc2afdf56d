"""The planning agent: the plan is asked for once, lives in the history, and can be replaced."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.agents.conversation import HistoryBounds
from align_echo.agents.reasoning import Planning, find_plan, parse_plan
from align_echo.errors import ReplyFormatError
from align_echo.models import ScriptedModel
from tests.agents.views import PLAN, VIEW, after, texts

FIRST = f"{PLAN}\nSub-goal: 1\nAction: look"
ASKED = "There is no plan yet"


def act(reply: str, *turns: tuple[str, str | None, str]) -> tuple[str | None, str]:
    """Action and problem of a reply."""
    answer = Planning(ScriptedModel([reply])).act(after(*turns))
    return answer.action, answer.problem


def test_the_first_reply_holds_the_plan_and_an_action() -> None:
    assert act(FIRST) == ("look", "")
    assert find_plan(after((FIRST, "look", "A door."))) == ("find the mug", "bring it")


def test_the_plan_is_asked_for_only_while_there_is_none() -> None:
    model = ScriptedModel([FIRST, "Sub-goal: 2\nAction: inventory", FIRST])
    agent = Planning(model)
    agent.act(VIEW)
    agent.act(after((FIRST, "look", "A door.")))
    agent.act(after(("look", "look", "A door.")))  # carried out in its place: there was no plan
    asks_for_plan = [ASKED in request[-1].content for request in model.requests]
    assert asks_for_plan == [True, False, True]
    assert model.requests[1][2].content == FIRST  # this is where the model finds its plan


def test_later_replies_name_a_sub_goal_of_the_plan() -> None:
    begun = (FIRST, "look", "A door.")
    assert act("Sub-goal: 2\nAction: inventory", begun) == ("inventory", "")
    assert act("The mug is here.\nSub-goal: 2 (bring it)\nAction: inventory", begun) == ("inventory", "")


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("Action: look", "must name one sub-goal"),
        ("Sub-goal: 1\nSub-goal: 2\nAction: look", "must name one sub-goal"),
        ("Sub-goal: the mug\nAction: look", "followed by a number"),
        ("Sub-goal: 3\nAction: look", "there is no sub-goal 3: the plan has 2"),
        ("Sub-goal: 0\nAction: look", "there is no sub-goal 0"),
        (f"Sub-goal: {'9' * 5000}\nAction: look", "followed by a number"),
        ("Sub-goal: 1\nAction: look\nSub-goal: 2", "goes on after its action"),
        ("Sub-goal: 1\nAction: look\nAction: wait", "2 lines that begin with 'Action:'"),
        ("Plan:\nSub-goal: 1\nAction: look", "followed by sub-goals"),
        ("Plan: find it\nSub-goal: 1\nAction: look", "on a line of its own"),
        ("Plan:\n1. a\nPlan:\n1. b\nSub-goal: 1\nAction: look", "once"),
        ("Plan:\n1. a\n3. b\nSub-goal: 1\nAction: look", "after 1 came 3"),
    ],
)
def test_what_is_not_clear_is_refused_in_words_to_act_on(reply: str, problem: str) -> None:
    action, reason = act(reply, (FIRST, "look", "A door."))
    assert action is None
    assert problem in reason


def test_without_a_plan_there_is_no_action() -> None:
    action, problem = act("Sub-goal: 1\nAction: look")
    assert action is None
    assert "no plan yet" in problem


def test_a_new_plan_takes_the_place_of_the_old_one() -> None:
    again = "Plan:\n1. open the door\nSub-goal: 1\nAction: inventory"
    begun = (FIRST, "look", "A door.")
    assert act(again, begun) == ("inventory", "")
    replanned = (again, "inventory", "Nothing.")
    assert find_plan(after(begun, replanned)) == ("open the door",)
    assert act("Sub-goal: 2\nAction: look", begun, replanned)[0] is None


def test_a_plan_in_a_refused_reply_does_not_count() -> None:
    assert find_plan(after((f"{FIRST}\nAction: look", None, "Your reply held no action."))) == ()


@settings(deadline=None)
@given(st.text() | texts.map(lambda text: f"Plan:\n1. {text}"))
def test_any_text_gives_sub_goals_or_a_reason(reply: str) -> None:
    try:
        goals = parse_plan(reply)
    except ReplyFormatError:
        return
    assert all(goal and len(goal.splitlines()) == 1 for goal in goals)


line = st.text(st.characters(codec="ascii", exclude_categories=["Cc"], exclude_characters="<["), min_size=1)
line = line.filter(lambda text: text.strip())


@settings(deadline=None)
@given(st.lists(line, min_size=1, max_size=6))
def test_every_numbered_line_of_a_plan_is_kept(goals: list[str]) -> None:
    text = "\n".join(f"{number}. {goal}" for number, goal in enumerate(goals, start=1))
    assert parse_plan(f"Plan:\n{text}") == tuple(goal.strip() for goal in goals)


def test_a_plan_that_is_left_out_stands_in_the_opening() -> None:
    agent = Planning(ScriptedModel([])).with_history(HistoryBounds(turns=1))
    first, second = (FIRST, "look", "A door."), ("Sub-goal: 1\nAction: open", "open", "Open.")
    opening = agent.conversation(after(first, second))[1].content
    assert "[1 turn left out here; the last ones follow.]" in opening
    assert opening.endswith(f"\n\n{PLAN}")
    assert not agent.conversation(after(first))[1].content.endswith(PLAN)
