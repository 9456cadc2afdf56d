"""The paper's agents on the command line, offline with the scripted novice in the place of a model."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from align_echo.agents.players import chat_agents, choose_agent, workers_for
from align_echo.align import generation
from align_echo.base.jsonl import JsonlFile
from align_echo.evaluate.comparison import VariantComparison
from align_echo.models import CallLog
from align_echo.types import Trajectory
from align_echo.wrappers.alfworld import env
from align_echo.wrappers.alfworld.oracle import GameEngine
from align_echo.wrappers.alfworld.reference import make_engine

NOT_A_MODEL = "novice (scripted, not a language model)"


def evaluate(agent: str, *more: str) -> list[str]:
    return ["evaluate", "--env", "alfworld", "--agent", agent, "--tasks", "2", *more]


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.long
@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("agent", chat_agents())
def test_every_agent_plays_without_key_or_network(agent, run):
    status, out, err = run(*evaluate(agent, "--model", "novice", "--out", "run"))
    assert status == 0, err
    assert f"agent: {agent}, model {NOT_A_MODEL}" in out
    assert f"agent: {agent}, model {NOT_A_MODEL}" in err
    summary = VariantComparison.model_validate_json(Path("run/summary.json").read_text())
    assert summary.agent == f"{agent}({NOT_A_MODEL})"
    assert (summary.variants["none"].episodes, summary.variants["none"].faults) == (2, 0)
    config = json.loads(Path("run/config.json").read_text())
    assert (config["model"], config["base_url"]) == (NOT_A_MODEL, None)
    assert config["agent_details"]["model.agent"] == NOT_A_MODEL
    assert "prompt.shared/agent" in config["agent_details"]
    calls = CallLog(Path("run/calls.jsonl")).read()
    assert {call.model for call in calls} == {NOT_A_MODEL}


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("evaluate", "--tasks", "123", "--agent", "expert"), "76 of 123 tasks of miniwob's split test"),
        (("critic", "collect", "--tasks", "123", "--states", "expert"), "76 of 123 tasks of miniwob's split train"),
    ],
)
def test_an_expert_is_refused_where_tasks_have_none(command, told, run):
    agent = () if "--agent" in command else ("--agent", "vanilla", "--model", "novice")
    status, out, err = run(*command, *agent, "--env", "miniwob", "--out", "run")
    assert (status, out, err.count("\n")) == (2, "", 1), err
    split = told.split()[-1]
    assert f"{told} have no expert; all of the split expert_{split} have one" in err
    assert not list(Path().iterdir())


@pytest.mark.long
def test_a_stopped_evaluation_with_samples_goes_on_as_if_it_had_not_been(run, stop_after_first_episode):
    command = evaluate("self-consistency", "--model", "novice")
    assert run(*command, "--out", "run")[0] == 130
    assert run(*command, "--resume", "--out", "run")[0] == 0
    assert run(*command, "--out", "whole")[0] == 0
    for name in ("summary.json", "trajectories/none.jsonl"):
        assert Path("run", name).read_text() == Path("whole", name).read_text()


@pytest.mark.long
@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("agent", ["vanilla", "planning"])
def test_an_agent_plays_under_the_preset_of_the_paper(agent, run):
    command = evaluate(agent, "--model", "novice", "--agent-preset", "align-paper", "--out", "run")
    status, out, err = run(*command)
    assert status == 0, err
    assert f"agent: {agent}, model {NOT_A_MODEL}, preset align-paper" in out
    config = json.loads(Path("run/config.json").read_text())
    assert (config["agent_preset"], config["turns"]) == ("align-paper", 100)
    details = config["agent_details"]
    assert (details["replies"], details["max_tokens"], details["repeat_limit"]) == ("raw", "1024", "7")
    played = JsonlFile(Path("run/trajectories/none.jsonl")).read(Trajectory)
    assert {episode.agent_preset for episode in played} == {"align-paper"}
    repeats = [episode.ended_by_repeats for episode in played]
    assert all(len({*episode.actions[-8:]}) == 1 for episode in played if episode.ended_by_repeats)
    assert (f"one action, sent over and over, ended {sum(repeats)} of 2 episodes" in out) == any(repeats)
    assert max(len(episode.steps) for episode in played) > 50
    for episode in played:
        shown = run("show", "run", episode.task_id)[1]
        assert ("one action was repeated too often" in shown) == episode.ended_by_repeats
    assert run(*command, "--resume")[0] == 0


def test_options_go_before_the_preset_and_a_resumed_run_must_ask_for_the_same(run):
    without = evaluate("vanilla", "--model", "novice", "--tasks", "1", "--out", "run")
    preset = [*without, "--agent-preset", "align-paper"]
    status, _, err = run(*preset, "--turns", "3", "--max-tokens", "300")
    assert status == 0, err
    config = json.loads(Path("run/config.json").read_text())
    assert (config["turns"], config["agent_details"]["max_tokens"]) == (3, "300")
    (played,) = JsonlFile(Path("run/trajectories/none.jsonl")).read(Trajectory)
    assert (len(played.steps), played.steps[-1].truncated) == (3, True)
    for other, told in {
        (*preset, "--max-tokens", "300"): "was started with turns = 3, not 100",
        (*without, "--turns", "3", "--max-tokens", "300"): "was started with agent_details.preset",
    }.items():
        status, _, err = run(*other, "--resume")
        assert (status, err.count("\n")) == (2, 1)
        assert told in err


def test_turns_and_engine_act_and_are_kept(run):
    command = evaluate("novice", "--tasks", "1", "--turns", "60", "--engine", "fast", "--out", "run")
    assert run(*command)[0] == 0
    config = json.loads(Path("run/config.json").read_text())
    assert (config["turns"], config["engine"]) == (60, "fast")
    (played,) = JsonlFile(Path("run/trajectories/none.jsonl")).read(Trajectory)
    assert (len(played.steps), played.won) == (60, False)
    for changed in (("--turns", "61"), ("--engine", "textworld")):
        status, _, err = run(*command, *changed, "--resume")
        assert (status, "was started with" in err) == (2, True)
    run(*evaluate("novice", "--tasks", "1", "--out", "plain"))
    assert not {"turns", "engine", "agent_preset"} & set(json.loads(Path("plain/config.json").read_text()))


@pytest.mark.long
def test_alfworlds_own_engine_is_asked_and_answers_the_same(run, monkeypatch):
    pytest.importorskip("textworld")
    asked: list[str] = []

    def make(name: str) -> GameEngine:
        asked.append(name)
        return make_engine(name)

    monkeypatch.setattr(env, "make_engine", make)
    for engine in ("fast", "textworld"):
        command = evaluate("novice", "--tasks", "1", "--turns", "5", "--engine", engine, "--interface", "probe")
        assert run(*command, "--out", engine)[0] == 0
    assert set(asked) == {"fast", "textworld"}
    fast, own = (Path(engine, "trajectories/full.jsonl").read_text() for engine in ("fast", "textworld"))
    assert fast == own


BAD = {
    "no turns": (evaluate("novice", "--turns", "0"), "--turns: must be at least 1, not 0"),
    "an engine that ALFWorld lacks": (
        evaluate("novice", "--engine", "slow"),
        "alfworld has no engine 'slow'; it has fast, textworld",
    ),
    "ALFWorld's engine in another environment": (
        ["evaluate", "--env", "webshop", "--engine", "fast"],
        "webshop has no engine 'fast'; it has text",
    ),
    "an engine where there is one": (
        ["evaluate", "--env", "scienceworld", "--engine", "fast"],
        "scienceworld has no engine 'fast'; it has only one: leave engine out",
    ),
    "an unknown preset": (
        evaluate("vanilla", "--model", "novice", "--agent-preset", "align"),
        "unknown agent preset 'align'; did you mean align-paper? known: align-paper",
    ),
    "a preset without a model": (
        evaluate("novice", "--agent-preset", "align-paper"),
        "the agent novice asks no model: leave --agent-preset out",
    ),
    "an unknown preset of an interface's agent": (
        ["generate-interface", "--env", "alfworld", "--agent", "react", "--model", "novice", "--agent-preset", "x"],
        "unknown agent preset 'x'",
    ),
    "an unknown preset of a grid": (
        ["grid", *evaluate("react", "--model", "novice", "--interface", "probe", "--agent-preset", "x")[1:]],
        "unknown agent preset 'x'",
    ),
    "an endpoint without one": (
        evaluate("react", "--model", "vllm:some/model", "--base-url", "http://localhost:1/v1"),
        "runs in this process and is asked at no endpoint: leave --base-url out",
    ),
    "a temperature without a model": (
        evaluate("novice", "--temperature", "1"),
        "the agent novice asks no model: leave --temperature out",
    ),
    "a temperature that is none": (
        evaluate("vanilla", "--model", "novice", "--temperature", "inf"),
        "--temperature must be a number, not inf",
    ),
    "several episodes without a draw": (
        evaluate("vanilla", "--model", "novice", "--episodes-per-task", "2"),
        "--episodes-per-task needs an agent that draws: a chat model, with --temperature above 0",
    ),
    "the pocket model as the Analyzer": (
        ["generate-interface", "--env", "alfworld", "--backend", "llm", "--model", "pocket"],
        "the model pocket can only play",
    ),
    "a script at an endpoint": (
        evaluate("react", "--model", "novice", "--base-url", "http://localhost:1/v1"),
        "--model novice is a script and is asked at no endpoint: leave --base-url out",
    ),
    "unknown agent": (evaluate("tree-of-thought"), "known: expert, novice, novice-careful"),
    "a model without a key": (evaluate("planning", "--model", "gpt-x"), "set OPENAI_API_KEY"),
    "a script as the Analyzer": (
        ["generate-interface", "--env", "alfworld", "--backend", "llm", "--model", "novice"],
        f"the model {NOT_A_MODEL} can only play",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_nothing_written(case, run):
    arguments, message = BAD[case]
    status, out, err = run(*arguments, "--out", "out")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1, err
    assert message in err
    assert not Path("out").exists()


@pytest.mark.long
@pytest.mark.usefixtures("no_network")
def test_a_scripted_model_is_no_reason_to_ask_models_for_an_interface(run, monkeypatch):
    monkeypatch.setenv("ALIGN_ECHO_MODEL", "novice")
    fresh = generation.fresh_tasks
    monkeypatch.setattr(generation, "fresh_tasks", lambda *given: fresh(*given)[:2])
    assert "--backend auto takes probe" in run("doctor")[1]
    command = ["generate-interface", "--env", "alfworld", "--iterations", "1", "--tasks-per-iteration", "2"]
    status, out, err = run(*command, "--agent", "react", "--out", "made")
    assert status == 0, err
    assert "backend: probe" in out
    assert "--agent react --model novice --compare" in out
    record = json.loads(Path("made/interface.json").read_text())["provenance"]
    assert record["models"]["agent"] == NOT_A_MODEL
    assert "react/system" in record["prompt_hashes"]


@pytest.mark.parametrize(
    ("asked", "lacks", "chosen"),
    [
        ((None, None), "", ("vanilla", "pocket")),
        ((None, None), "torch not installed", ("novice", None)),
        ((None, "gpt-x"), "torch not installed", ("vanilla", "gpt-x")),
        ((None, None, ["alfworld", "webshop"]), "", ("vanilla", "pocket")),
        ((None, None, ["alfworld", "scienceworld"]), "", ("novice", None)),
        ((None, "pocket", ["scienceworld"]), "", ("vanilla", "pocket")),
        (("vanilla", None), "", ("vanilla", "pocket")),
        (("vanilla", None, ["scienceworld"]), "", ("vanilla", "novice")),
        (("react", None), "", ("react", "novice")),
        (("react", None), "torch not installed", ("react", "novice")),
        (("react", "gpt-x"), "", ("react", "gpt-x")),
        (("expert", "gpt-x"), "", ("expert", None)),
    ],
)
def test_who_plays_if_not_all_is_said(asked, lacks, chosen, monkeypatch):
    monkeypatch.setattr("align_echo.agents.players.what_pocket_lacks", lambda: lacks)
    player = choose_agent(*asked)
    assert (player.agent.name, player.model and player.model.text) == chosen


@pytest.mark.parametrize(
    ("agent", "model", "workers"),
    [
        ("novice", None, 1),
        ("react", "novice", 1),
        ("react", "gpt-x", 8),
        ("react", "pocket", 32),
        ("react", "vllm-server:some/model", 32),
    ],
)
def test_episodes_at_once_go_by_where_the_model_runs(agent, model, workers):
    assert workers_for(choose_agent(agent, model)) == workers


def test_a_run_without_an_agent_says_who_played(run, monkeypatch):
    monkeypatch.setattr("align_echo.agents.players.what_pocket_lacks", lambda: "torch not installed")
    status, out, err = run("evaluate", "--env", "alfworld", "--tasks", "1", "--out", "run")
    assert status == 0, err
    assert "agent: novice (a scripted stand-in for a small model, NOT a language model)" in out
    config = json.loads(Path("run/config.json").read_text())
    assert (config["agent"], config["model"]) == ("novice", None)


@pytest.mark.long
def test_nothing_that_lists_or_checks_models_imports_torch():
    code = (
        "import sys; from align_echo.cli.main import main; main(['doctor']); "
        "from align_echo.agents.players import choose_agent; choose_agent(None, None); "
        "print([name for name in ('torch', 'transformers', 'vllm') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.long
def test_several_episodes_a_task_are_samples_of_their_own_and_go_on_where_they_stopped(run, stop_after_first_episode):
    command = evaluate("vanilla", "--model", "novice", "--temperature", "0.5", "--episodes-per-task", "3")
    assert run(*command, "--out", "run")[0] == 130
    status, _, err = run(*command[:-1], "2", "--resume", "--out", "run")
    assert (status, "was started with episodes_per_task = 3, not 2" in err) == (2, True), err
    status, out, err = run(*command, "--resume", "--out", "run")
    assert status == 0, err
    assert "each the mean of its episodes" in out
    assert len(stop_after_first_episode) == 6
    assert run(*command, "--out", "whole")[0] == 0
    lines = Path("run/trajectories/none.jsonl").read_text()
    assert lines == Path("whole/trajectories/none.jsonl").read_text()
    played = [Trajectory.model_validate_json(line) for line in lines.splitlines()]
    assert [trajectory.sample for trajectory in played] == [0, 1, 2, 0, 1, 2]
    assert len({trajectory.actions for trajectory in played[:3]}) > 1
    summary = VariantComparison.model_validate_json(Path("run/summary.json").read_text())
    assert (summary.variants["none"].episodes, summary.variants["none"].success_rate.n) == (6, 2)
    assert json.loads(Path("run/config.json").read_text())["agent_details"]["temperature"] == "0.5"
