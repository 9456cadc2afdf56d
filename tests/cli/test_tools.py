"""Tool calls as actions at an endpoint: every manner of a call, with every agent, and what goes back to the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.reasoning import Planning, ReAct, SelfConsistency, SelfRefine, Vanilla
from align_echo.cli.main import main
from align_echo.critic.ask import verdict_messages
from align_echo.errors import ReplyFormatError
from align_echo.models.client import RetryPolicy
from align_echo.models.openai_model import OpenAICompatibleModel
from align_echo.models.tool_calls import ToolSet, act_tool
from align_echo.models.wordings import Refusal, meaning
from align_echo.types import ToolCall, Trajectory, Turn
from tests.agents.views import VIEW
from tests.align.endpoint import Answer, Endpoint, Status, serve
from tests.messy_endpoint import MANNERS, TOOL_MANNERS, body, messy

ACTS = ToolSet.of((), VIEW.action_format)


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")


def at(endpoint: Endpoint) -> OpenAICompatibleModel:
    return OpenAICompatibleModel(
        "messy", base_url=endpoint.url, retry=RetryPolicy(attempts=3), wait=lambda seconds: None
    )


@pytest.mark.parametrize("name", TOOL_MANNERS)
def test_a_call_in_any_manner_is_the_action_or_a_turn_without_one(name):
    is_action = TOOL_MANNERS[name].outcome == "action"
    with messy(lambda request: "look", (name, "a call")) as endpoint:
        agent = Vanilla(at(endpoint)).with_tools(ACTS)
        reply = agent.act(VIEW)
        turn = Turn(reply=reply.text, action=reply.action, observation="A desk.", call=reply.call)
        following = agent.act(VIEW.model_copy(update={"turns": (turn,)}))
    assert reply.action == ("look" if is_action else None)
    assert bool(reply.problem) == (not is_action)
    assert following.action == "look", "the history is one that a server takes"
    assert endpoint.requests[-1]["tools"] == [{"type": "function", "function": act_tool(VIEW.action_format)}]


PROBLEMS = {
    "several calls": "the reply calls 2 tools; call one",
    "an unknown tool": "there is no tool 'fly'; known: act",
    "arguments that are no JSON": "the arguments of act are no object of JSON",
    "another argument": 'the arguments of act are {"action": "..."} and nothing else',
    "a call without a function": "the call is no JSON with a tool's name; known: act",
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_wrong_with_a_call_is_told(name):
    with messy(lambda request: "look", (name,)) as endpoint:
        assert Vanilla(at(endpoint)).with_tools(ACTS).act(VIEW).problem == PROBLEMS[name]


def test_the_history_has_calls_with_ids_and_their_answers():
    calls = [ToolCall(name="act", arguments='{"action": "look"}', id=name) for name in ("x1", "")]
    turns = [Turn(reply="So.", action="look", observation=f"Desk {n}.", call=call) for n, call in enumerate(calls)]
    with serve({"messy": [body("", tool_calls=[{"id": "c", "function": {"name": "act", "arguments": "{}"}}])]}) as end:
        Vanilla(at(end)).with_tools(ACTS).act(VIEW.model_copy(update={"turns": tuple(turns)}))
    _, _, first, answer, second, other = end.requests[0]["messages"]
    function = {"name": "act", "arguments": '{"action": "look"}'}
    assert first == {
        "role": "assistant", "content": "So.", "tool_calls": [{"id": "x1", "type": "function", "function": function}],
    }  # fmt: skip
    assert answer == {"role": "tool", "tool_call_id": "x1", "content": "Desk 0."}
    assert second["tool_calls"][0]["id"] == other["tool_call_id"] == "call00001"


TOOL: dict[str, Any] = {"name": "find", "parameters": {"type": "object", "properties": {"name": {"type": "string"}}}}


@pytest.mark.parametrize("declared", [TOOL, {"type": "function", "function": TOOL}])
def test_a_tool_of_the_environment_is_called_in_its_own_form(declared):
    tools = ToolSet.of([declared], "")
    assert json.loads(tools.text) == [{"type": "function", "function": TOOL}]
    call = ToolCall(name="find", arguments='{"name": "Ünal"}')
    assert tools.read([call]) == '{"name": "find", "arguments": {"name": "Ünal"}}'
    with pytest.raises(ReplyFormatError, match="did you mean find"):
        tools.read([call.model_copy(update={"name": "fnd"})])


def test_forms_that_are_no_call_are_taken_by_act():
    tools = ToolSet.of([TOOL], '{"name": "find", "arguments": {"name": "..."}} | done')
    assert [function["name"] for function in tools.functions] == ["find", "act"]
    assert tools.functions[1]["description"].endswith("done")
    assert tools.read([ToolCall(name="act", arguments='{"action": "done"}')]) == "done"
    assert tools.read([ToolCall(name="find", arguments="{}")]) == '{"name": "find", "arguments": {}}'


def test_a_critic_reads_calls_as_text():
    call = ToolCall(name="act", arguments='{"action": "look"}', id="c")
    turn = Turn(reply="So.", action="look", observation="A desk.", call=call)
    agent = Vanilla(at_nobody()).with_tools(ACTS)
    asked = verdict_messages(agent.conversation(VIEW.model_copy(update={"turns": (turn,)})), "look")
    assert [message.role for message in asked] == ["system", "user", "assistant", "user", "user"]
    assert asked[2].content == 'So.\nact({"action": "look"})'
    assert not asked[0].tools


def at_nobody() -> OpenAICompatibleModel:
    return OpenAICompatibleModel("m", base_url="http://127.0.0.1:9/v1")


SAID = {
    Vanilla: "",
    ReAct: "Thought: I look.",
    SelfConsistency: "",
    SelfRefine: "",
    Planning: "Plan:\n1. Look.\nSub-goal: 1",
}


@pytest.mark.parametrize("kind", SAID)
def test_every_agent_acts_by_calls_and_reviews_without_tools(kind: type[ChatAgent]):
    def answer(request: dict[str, Any]) -> Answer:
        if "tools" not in request:
            return "Good.\nVerdict: keep"
        call = {"id": "c", "function": {"name": "act", "arguments": '{"action": "look"}'}}
        return body(SAID[kind], tool_calls=[call])

    with serve({"messy": answer}) as endpoint:
        agent = kind(at(endpoint)).with_tools(ACTS)
        first = agent.act(VIEW)
        turn = Turn(reply=first.text, action=first.action, observation="A desk.", call=first.call)
        view = VIEW.model_copy(update={"turns": (turn,)})
        second = agent.act(view)
    assert (first.action, second.action) == ("look", "look")
    assert first.call is not None
    history = agent.conversation(view)
    assert [message.role for message in history] == ["system", "user", "assistant", "tool"]
    assert history[2].content == SAID[kind]
    reviews = [request for request in endpoint.requests if "tools" not in request]
    assert bool(reviews) == (kind is SelfRefine)
    for request in reviews:
        assert not any("tool_calls" in message or message["role"] == "tool" for message in request["messages"])


PLAYABLE = tuple(name for name, manner in {**MANNERS, **TOOL_MANNERS}.items() if manner.outcome != "withheld")


@pytest.mark.long
@pytest.mark.parametrize("agent", ["vanilla", "react", "planning", "self-consistency", "self-refine"])
def test_games_are_played_to_their_end_by_calls_in_every_manner(agent, run):
    with messy(lambda request: "look", PLAYABLE) as endpoint:
        options = ["--agent", agent, "--model", "messy", "--base-url", endpoint.url, "--tasks", "1", "--out", "run"]
        status, _, err = run("evaluate", "--env", "alfworld", *options, "--tools")
    assert status == 0, err
    (episode,) = map(Trajectory.model_validate_json, Path("run/trajectories/none.jsonl").read_text().splitlines())
    assert episode.fault is None
    assert len(episode.steps) == 50
    assert any(step.call for step in episode.steps)
    assert any(step.action is None for step in episode.steps) or agent == "self-consistency"


REFUSALS = {
    "Ollama": (400, "registry.ollama.ai/library/gemma3 does not support tools"),
    "vLLM": (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    "llama.cpp": (500, "tools param requires --jinja flag"),
    "OpenRouter": (404, "No endpoints found that support tool use. To learn more about provider routing, visit: x"),
    "Groq": (400, "`tool calling` is not supported with this model"),
    "Gemini": (400, "Function calling is not enabled for models/gemma-3-27b-it"),
    "pydantic": (422, "tools: Extra inputs are not permitted"),
}


@pytest.mark.parametrize("server", REFUSALS)
def test_a_server_without_tools_is_one_line(server, capsys):
    status, message = REFUSALS[server]
    assert meaning(Refusal(status, message)) == "tools"
    with serve({"m": lambda request: Status(status, body=json.dumps({"error": {"message": message}}))}) as endpoint:
        options = ["--model", "m", "--base-url", endpoint.url, "--tasks", "1", "--tools", "--out", "run"]
        assert main(["evaluate", "--env", "tests.cli.door_models:DOORS", *options]) == 2
    err = capsys.readouterr().err
    assert "takes no tools: leave --tools out" in err
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--model", "novice"], "novice is a script and calls no tools: leave --tools out"),
        (["--agent", "random"], "the agent random asks no model: leave --tools out"),
    ],
)
def test_who_calls_no_tools_is_told_so(options, line, capsys):
    play = ["evaluate", "--env", "tests.cli.door_models:DOORS", "--tasks", "1", "--tools", "--out", "run"]
    assert main([*play, *options]) == 2
    assert line in capsys.readouterr().err


def test_a_run_with_tools_goes_on_with_tools_only(capsys):
    with messy(lambda request: "open red", ("a call",)) as endpoint:
        play = ["evaluate", "--env", "tests.cli.door_models:DOORS", "--model", "messy", "--base-url", endpoint.url]
        play += ["--tasks", "1", "--out", "run"]
        assert main([*play, "--tools"]) == 0
        assert main([*play, "--resume"]) == 2
        assert "; resume with the same" in capsys.readouterr().err
        asked = len(endpoint.requests)
        assert main([*play, "--tools", "--resume"]) == 0
    assert len(endpoint.requests) == asked


def test_a_collection_by_calls_is_labelled_as_its_actions():
    with messy(lambda request: "open red", ("a call",)) as endpoint:
        options = ["--model", "messy", "--base-url", endpoint.url, "--tasks", "1", "--candidates", "2", "--out", "run"]
        assert main(["critic", "collect", "--env", "tests.cli.door_models:DOORS", *options, "--tools"]) == 0
    assert all("tools" in request for request in endpoint.requests)
    (file,) = Path("run/trajectories").glob("*.jsonl")
    steps = [step for line in file.read_text().splitlines() for step in Trajectory.model_validate_json(line).steps]
    assert {step.action for step in steps} == {"open red"}
