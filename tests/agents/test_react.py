"""ReAct: one thought, one action, and nothing made up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.agents.parsing import parse_reasoned_action
from align_echo.agents.reasoning import ReAct
from align_echo.errors import ReplyFormatError
from align_echo.models import ScriptedModel
from tests.agents.views import VIEW, actions, after, texts


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Thought: I need a desk.\nAction: go to desk 1", "go to desk 1"),
        ("Thought: I need\na desk.\n\nAction:\ngo to desk 1\n", "go to desk 1"),
        ("**Thought:** hm\n**Action:** `go to desk 1`", "go to desk 1"),
        ("```\nThought: hm\nAction: > go to desk 1\n```", "go to desk 1"),
        ("Action: go to desk 1", "go to desk 1"),
        ("<think>Action: look</think>\nThought: hm\nAction: go to desk 1", "go to desk 1"),
        ("Thought: my last action: none; the observation: dark\naction: look", "look"),
        ("Thought: hm\nAction: look\nObservation: a desk", "look"),
        ("Thought: hm\nAction: look\nObservation 1: a desk\nThought: so\nAction: inventory", "look"),
        ("Observation: a desk\nThought: hm\nAction: look", "look"),
    ],
)
def test_a_thought_and_an_action_are_read(reply: str, action: str) -> None:
    assert parse_reasoned_action(reply) == action


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "empty"),
        ("go to desk 1", "one line and it does not begin with 'Action:'"),
        ("Thought: I go. Action: go to desk 1", "does not begin with 'Action:'"),
        ("Thought: I look around.", "does not begin with 'Action:'"),
        ("Thought: hm\nAction:", "exactly one"),
        ("Thought: hm\nAction: ``", "no action"),
        ("Thought: hm\nAction: look\nThought: then\nAction: inventory", "2 lines that begin with 'Action:'"),
        ("Observation: a desk", "writes an observation itself"),
        ("Thought: hm\nObservation: a desk\nIt is brown.", "does not begin with 'Action:'"),
        ("Thought: hm\nAction: look Observation: a desk", "goes on with an observation"),
        ("Thought: hm\nAction: look\nThen I take the pen.", "goes on after its action"),
        ("Thought: hm\nAction:\nlook\ninventory", "exactly one"),
    ],
)
def test_anything_else_is_refused_in_words_to_act_on(reply: str, problem: str) -> None:
    with pytest.raises(ReplyFormatError, match=problem):
        parse_reasoned_action(reply)


@settings(deadline=None)
@given(st.text())
def test_any_text_gives_one_clean_line_or_a_reason(reply: str) -> None:
    try:
        action = parse_reasoned_action(reply)
    except ReplyFormatError:
        return
    assert action == action.strip() != ""
    assert len(action.splitlines()) == 1
    assert action in reply


thoughts = texts.filter(lambda text: ":" not in text and "<think>" not in text)


@settings(deadline=None)
@given(thoughts, actions)
def test_whatever_the_thought_the_labelled_action_is_meant(thought: str, action: str) -> None:
    assert parse_reasoned_action(f"Thought: {thought}\nAction: {action}") == action


@settings(deadline=None)
@given(thoughts, actions, st.sampled_from(["Observation", "observation 3", "**Observation**", "OBSERVATION"]), texts)
def test_an_invented_observation_ends_the_reply(thought: str, action: str, label: str, rest: str) -> None:
    invented = f"{label}: {rest}\nThought: so\nAction: something else"
    assert parse_reasoned_action(f"Thought: {thought}\nAction: {action}\n{invented}") == action


@settings(deadline=None)
@given(thoughts, st.lists(actions, min_size=2, max_size=3, unique=True))
def test_of_several_actions_none_is_picked(thought: str, several: list[str]) -> None:
    with pytest.raises(ReplyFormatError):
        parse_reasoned_action(f"Thought: {thought}\n" + "\n".join(f"Action: {action}" for action in several))


def test_the_history_keeps_thought_and_action() -> None:
    model = ScriptedModel(["Thought: now the mug.\nAction: take mug 1"])
    ReAct(model).act(after(("Thought: dark in here.\nAction: look", "look", "A mug.")))
    assert model.requests[0][2].content == "Thought: dark in here.\nAction: look"
    assert "Thought:" in model.requests[0][0].content
    assert "Action:" in model.requests[0][0].content


def test_an_observation_without_an_action_costs_a_turn_and_says_so() -> None:
    reply = ReAct(ScriptedModel(["Observation: You win!"])).act(VIEW)
    assert reply.action is None
    assert "observation" in reply.problem
