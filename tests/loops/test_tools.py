"""An episode by tool calls is the episode that an agent plays; a call that cannot be read costs its turn."""

from __future__ import annotations

import json

import pytest
from openai.types.chat import ChatCompletionMessage

from align_echo.errors import UsageError
from align_echo.loops.tools import NOT_DONE, answered, opening, tool_definitions
from align_echo.rollout.batches import run_episode
from align_echo.rollout.session import Session
from align_echo.types import AgentReply, AgentView
from tests.play import WINNING
from tests.room_env import TASK_IDS, RoomEnv


def session(step_limit: int = 20) -> Session:
    driven = Session(RoomEnv(step_limit), agent="script", split="train", action_format="look | go to {room}")
    driven.reset(TASK_IDS[0])
    return driven


def calling(*arguments: object, name: str = "act", content: str | None = None) -> dict[str, object]:
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": given}}
        for number, given in enumerate(arguments)
    ]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def act(action: str) -> str:
    return json.dumps({"action": action})


class Script:
    """Says what the calls say."""

    name = "script"

    def act(self, view: AgentView) -> AgentReply:
        action = WINNING[len(view.turns)]
        return AgentReply(text=f"act({act(action)})", action=action)


def test_an_episode_by_calls_is_the_one_that_an_agent_plays():
    driven = session()
    assert "bring the mug 1" in opening(driven.view)
    (tool,) = tool_definitions(driven)
    assert tool["function"]["parameters"]["required"] == ["action"]
    assert "look | go to {room}" in tool["function"]["description"]
    for action in WINNING:
        message = ChatCompletionMessage.model_validate(calling(act(action)))
        said, answer = answered(driven, message)
        assert (said["role"], answer["role"], answer["tool_call_id"]) == ("assistant", "tool", "c0")
    assert answer["content"].endswith("The episode is over: it was won; its score is 1 of 1.")
    agents = run_episode(RoomEnv(20), Script(), TASK_IDS[0], split="train", action_format="look | go to {room}")
    assert driven.trajectory() == agents
    with pytest.raises(UsageError, match="over"):
        answered(driven, message)


def test_several_calls_are_several_turns_and_none_is_taken_after_the_end():
    driven = session()
    _, *answers = answered(driven, calling(*map(act, (*WINNING, "look")), content="I know the way."))
    assert [answer["tool_call_id"] for answer in answers] == ["c0", "c1", "c2", "c3"]
    assert answers[-1]["content"] == NOT_DONE
    steps = driven.trajectory().steps
    assert [step.action for step in steps] == [*WINNING]
    assert [step.reply.startswith("I know the way.") for step in steps] == [True, False, False]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"role": "assistant", "content": "hm"}, "call the tool act"),
        ({"role": "assistant", "content": ["hm"], "tool_calls": "act"}, "call the tool act"),
        (calling("not json"), "are no JSON"),
        (calling("[" * 100_000), "are no JSON"),
        (calling("[]"), "and nothing else"),
        (calling(json.dumps({"action": "look", "why": "so"})), "and nothing else"),
        (calling(json.dumps({"action": 5})), "not a number"),
        (calling(act("x" * 100_001)), "at most 100,000"),
        (calling('{"action": "\\ud800"}'), "half of a character"),
        (calling(act("look"), name="rm"), "there is one tool, act"),
        ({"role": "assistant", "tool_calls": [None]}, "there is one tool, act"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "act"}}]}, "and nothing else"),
        (calling(act("look"), name="act", content="\ud800") | {"tool_calls": []}, "call the tool act"),
    ],
)
def test_a_call_that_cannot_be_read_costs_its_turn_and_is_answered(message, problem):
    driven = session(step_limit=1)
    _, answer = answered(driven, message)
    assert problem in answer["content"]
    assert driven.over
    played = driven.trajectory()
    assert (played.truncated, played.steps[0].action) == (True, None)
    played.model_dump_json()
