"""The vanilla agent: what the model is sent, and how strictly its reply is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.agents.parsing import parse_action, plain_reply
from align_echo.agents.reasoning import Vanilla
from align_echo.errors import ReplyFormatError
from align_echo.models import ScriptedModel
from align_echo.rollout.batches import run_episode
from align_echo.types import AgentView, Completion, Turn
from tests.room_env import TASK_IDS, RoomEnv

VIEW = AgentView(
    task_id="t",
    action_format="look | go to {room}",
    goal="find the mug",
    rules="Rooms are entered by the door.",
    initial_observation="You are in the kitchen. Your task is to: find the mug.",
)


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("go to desk 1", "go to desk 1"),
        ("  go to desk 1 \n\n", "go to desk 1"),
        ("Action: go to desk 1", "go to desk 1"),
        ("ACTION: > go to desk 1", "go to desk 1"),
        ("**Action:** `go to desk 1`", "go to desk 1"),
        ("> go to desk 1", "go to desk 1"),
        ('"go to desk 1"', "go to desk 1"),
        ("```\ngo to desk 1\n```", "go to desk 1"),
        ("I need a desk.\nAction: go to desk 1", "go to desk 1"),
        ("I need a desk.\nAction:\ngo to desk 1", "go to desk 1"),
        ("Action: go to desk 1\nObservation: you see a pen", "go to desk 1"),
        ("<think>two\nlines</think>\n\ngo to desk 1", "go to desk 1"),
        ("put 'a' in 'b'", "put 'a' in 'b'"),
        ("search[red shoes: size 7]", "search[red shoes: size 7]"),
    ],
)
def test_a_clear_reply_is_read(reply: str, action: str) -> None:
    assert parse_action(reply) == action


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "empty"),
        (" \n```\n```", "empty"),
        ("``", "no action"),
        ("Action:", "no action"),
        ("go to desk 1\ntake pen 1 from desk 1", "2 lines"),
        ("I would look around first.\nThen I go to the desk.", "2 lines"),
        ("Action: look\nAction: inventory", "one action"),
        ("Action:\nlook\ninventory", "exactly one"),
        ("Thought: hm\nAction:", "exactly one"),
        ("<think>should I look or", "cut off"),
        ("<think>hm</think>", "empty"),
    ],
)
def test_an_unclear_reply_holds_no_action(reply: str, problem: str) -> None:
    with pytest.raises(ReplyFormatError, match=problem):
        parse_action(reply)


words = st.text(st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=1, max_size=8)
actions = st.lists(words, min_size=1, max_size=5).map(" ".join).filter(lambda text: text != "action")
prose = st.lists(st.text(st.characters(exclude_characters=":")), max_size=4).map("\n".join)


@given(st.text())
def test_any_text_gives_one_clean_line_or_a_reason(reply: str) -> None:
    try:
        action = parse_action(reply)
    except ReplyFormatError:
        return
    assert action == action.strip() != ""
    assert len(action.splitlines()) == 1
    assert action in plain_reply(reply).text


@given(actions, st.sampled_from(["{}", "Action: {}", "action:{}", "> {}", "`{}`", '"{}"', "ACTION: `{}`", "\n{}\n"]))
def test_every_accepted_dress_means_the_same_action(action: str, dress: str) -> None:
    assert parse_action(dress.format(action)) == action


@given(prose, actions)
def test_reasoning_before_one_label_does_not_matter(reasoning: str, action: str) -> None:
    if reasoning.strip().startswith("<think>"):
        return
    assert parse_action(f"{reasoning}\nAction: {action}") == action


@given(st.lists(actions, min_size=2, max_size=4))
def test_several_bare_lines_are_never_guessed_at(lines: list[str]) -> None:
    with pytest.raises(ReplyFormatError):
        parse_action("\n".join(lines))


def test_the_model_sees_rules_task_and_history_in_order() -> None:
    model = ScriptedModel(["inventory"])
    turns = (
        Turn(reply="look", action="look", observation="A door."),
        Turn(reply="", action=None, observation="Your reply held no action."),
    )
    reply = Vanilla(model).act(VIEW.model_copy(update={"turns": turns}))
    assert reply.action == "inventory"
    system, start, *rest = model.requests[0]
    assert "look | go to {room}" in system.content
    assert "Rooms are entered by the door." in system.content
    assert start.content.startswith(VIEW.initial_observation)
    assert [(message.role, message.content) for message in rest] == [
        ("assistant", "look"),
        ("user", "A door."),
        ("assistant", "(no reply)"),
        ("user", "Your reply held no action."),
    ]


def test_without_rules_none_are_announced() -> None:
    model = ScriptedModel(["look"])
    Vanilla(model).act(VIEW.model_copy(update={"rules": ""}))
    assert "Rules" not in model.requests[0][0].content


def test_the_goal_is_told_where_the_observation_does_not() -> None:
    model = ScriptedModel(["look"])
    Vanilla(model).act(VIEW.model_copy(update={"initial_observation": "A kitchen."}))
    assert "find the mug" in model.requests[0][1].content


def test_a_cut_reply_holds_no_action() -> None:
    reply = Vanilla(ScriptedModel([Completion(text="go to de", finish_reason="length")])).act(VIEW)
    assert reply.action is None
    assert "cut off" in reply.problem


def test_a_whole_episode_with_one_unclear_reply() -> None:
    plan = ["take mug 1", "go to study\ndrop mug 1", "Action: go to study", "drop mug 1"]
    trajectory = run_episode(RoomEnv(), Vanilla(ScriptedModel(plan)), TASK_IDS[0], split="train")
    assert trajectory.won
    assert trajectory.actions == ("take mug 1", None, "go to study", "drop mug 1")
    assert "2 lines" in trajectory.steps[1].observation
