"""Thoughts of a model: kept apart from its replies in files and on the screen, and not sent back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from align_echo.agents.parsing import split_thoughts
from align_echo.agents.reasoning import Planning, ReAct, SelfConsistency, SelfRefine, Vanilla
from align_echo.models import CallLog
from align_echo.models.drawing import ScriptedModel
from align_echo.types import Completion, Step, Tokens, Trajectory, Turn
from tests.agents.views import VIEW
from tests.align.endpoint import Raw, serve
from tests.messy_endpoint import body

THOUGHT = "<think>\nWhere is it? LOOK.\n</think>\n\n"


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")


@pytest.mark.parametrize(
    ("reply", "thoughts"),
    [
        (THOUGHT + "Action: look", THOUGHT),
        ("Where?</think> look", "Where?</think> "),
        ("<think>Where", "<think>Where"),
        ("look", ""),
        ("say <think> and </think>", ""),
    ],
)
def test_thoughts_are_the_beginning_of_a_reply_to_the_letter(reply, thoughts):
    assert split_thoughts(reply) == (thoughts, reply.removeprefix(thoughts))


PLAN = "Plan:\n1. Look.\nSub-goal: 1\n"
AGENTS = {
    "vanilla": (Vanilla, ["Action: look"]),
    "react": (ReAct, ["Thought: so\nAction: look"]),
    "self-consistency": (SelfConsistency, ["look"] * 5),
    "self-refine": (SelfRefine, ["look", "Good.\nVerdict: keep"]),
    "planning": (Planning, [f"{PLAN}Action: look"]),
}


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("in_field", [True, False])
def test_an_agents_thoughts_stand_beside_its_reply_and_are_not_sent_back(name, in_field):
    kind, replies = AGENTS[name]
    written = [Completion(text=text if in_field else THOUGHT + text, thinking="LOOK." * in_field) for text in replies]
    model = ScriptedModel([*written, *written])
    reply = kind(model).act(VIEW)
    assert reply.action == "look"
    assert "LOOK." in reply.thinking
    assert "LOOK." not in reply.text
    turn = Turn(reply=reply.text, action=reply.action, observation="A desk.", thinking=reply.thinking)
    kind(model).act(VIEW.model_copy(update={"turns": (turn,)}))
    assert not any("LOOK." in message.content for request in model.requests for message in request)


def test_a_reply_with_token_ids_stays_whole_in_the_history():
    tokens = Tokens(context_ids=(1,), sampled_ids=(2,), logprobs=(0.0,))
    turn = Turn(reply="look", action="look", observation="A desk.", thinking=THOUGHT, tokens=tokens)
    view = VIEW.model_copy(update={"turns": (turn,)})
    assert Vanilla(ScriptedModel([])).conversation(view)[2].content == f"{THOUGHT}look"
    bare = view.model_copy(update={"turns": (turn.model_copy(update={"tokens": None}),)})
    assert Vanilla(ScriptedModel([])).conversation(bare)[2].content == "look"


def test_thinking_that_did_not_end_is_no_reply_and_told_so():
    reply = Vanilla(ScriptedModel([Completion(text="<think>\nWhere", finish_reason="length")])).act(VIEW)
    assert (reply.action, reply.text, reply.thinking) == (None, "", "<think>\nWhere")


def test_a_run_has_thoughts_in_its_files_and_on_the_screen_without_keys(run):
    usage = {"prompt_tokens": 9, "completion_tokens": 40, "completion_tokens_details": {"reasoning_tokens": 33}}

    def think(request: dict[str, Any]) -> Raw:
        return body("Action: look", usage=usage, reasoning_content="I hold sk-secret-0123456789.")

    with serve({"m": think}) as endpoint:
        options = ["--model", "m", "--base-url", endpoint.url, "--tasks", "1", "--turns", "2", "--out", "run"]
        status, _, err = run("evaluate", "--env", "alfworld", *options)
    assert status == 0, err
    assert "I hold" not in json.dumps(endpoint.requests)
    (episode,) = map(Trajectory.model_validate_json, Path("run/trajectories/none.jsonl").read_text().splitlines())
    assert [step.thinking for step in episode.steps] == ["I hold [redacted]."] * 2
    calls = CallLog(Path("run/calls.jsonl")).read()
    assert [(call.thinking, call.thinking_tokens) for call in calls] == [("I hold [redacted].", 33)] * 2
    _, shown, _ = run("show", "run", "DeskLamp")
    assert "thinking: I hold [redacted]." in shown


def test_episodes_of_earlier_versions_have_no_thoughts_of_their_own():
    old = {"reply": THOUGHT + "look", "action": "look", "observation": "A desk.", "raw_observation": "A desk."}
    assert Step.model_validate(old).thinking == ""
