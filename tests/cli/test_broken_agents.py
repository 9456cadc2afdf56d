"""An agent of the user's whose own code fails: every verb that plays goes on, says so, and leaves with status 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from align_echo.agents.novices import make_novice
from align_echo.align import generation
from align_echo.base.jsonl import JsonlFile
from align_echo.evaluate import plan
from align_echo.types import Agent, AgentReply, AgentView, Trajectory

SAID = "the agent's own code failed: KeyError: 'inventory'"


class Forgetful:
    """The novice, whose code fails in all but every third task that it meets, or in all."""

    name = "forgetful"

    def __init__(self, always: bool) -> None:
        self._novice: Agent = make_novice("alfworld", "novice", seed=0)
        self._met: list[str] = []
        self._always = always

    def act(self, view: AgentView) -> AgentReply:
        if view.task_id not in self._met:
            self._met.append(view.task_id)
        if self._always or (self._met.index(view.task_id) % 3 and view.turns):
            raise KeyError("inventory")
        return self._novice.act(view)


@pytest.fixture
def forgetful(monkeypatch):
    """Put it in the place of the agent that the command line makes."""

    def play(always: bool = False) -> None:
        for module in (plan, generation):
            monkeypatch.setattr(module, "build_agent", lambda *given, **options: Forgetful(always))

    return play


EVALUATE = ("evaluate", "--env", "alfworld", "--agent", "novice", "--out", "run")


def test_evaluate_counts_it_keeps_its_traceback_and_leaves_with_1(run, forgetful):
    forgetful()
    status, out, err = run(*EVALUATE, "--tasks", "3")
    assert status == 1
    assert err.count(f"{SAID}; the episode has no score") == 1, "the first is told at once"
    assert err.splitlines()[-1].startswith("the agent's own code failed in 2 episodes")
    result = json.loads(Path("run/summary.json").read_text())["variants"]["none"]
    assert (result["episodes"], result["faults"], result["faults_by_source"]) == (1, 2, {"agent": 2})
    assert result["first_fault"] == SAID
    played = JsonlFile(Path("run/trajectories/none.jsonl")).read(Trajectory)
    broken = [trajectory for trajectory in played if trajectory.fault is not None]
    assert len(broken) == 2
    assert all("raise KeyError" in trajectory.fault.traceback for trajectory in broken if trajectory.fault)
    assert "faults" in out


def test_what_the_agent_broke_is_played_again_once_it_is_mended(run, forgetful, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(plan, "build_agent", lambda *given, **options: Forgetful(False))
        assert run(*EVALUATE, "--tasks", "3")[0] == 1
    with monkeypatch.context() as patch:
        patch.setattr(Forgetful, "act", lambda agent, view: AgentReply(text="look", action="look"))
        patch.setattr(plan, "build_agent", lambda *given, **options: Forgetful(False))
        status, _, err = run(*EVALUATE, "--tasks", "3", "--resume")
    assert status == 0, err
    assert "3 episodes, 1 of them finished earlier" in err


def test_a_batch_that_it_breaks_from_the_start_is_stopped_with_one_line(run, forgetful):
    forgetful(always=True)
    status, _, err = run(*EVALUATE, "--tasks", "30")
    assert status == 2
    assert f"align-echo: the first 4 episodes were all broken: {SAID}" in err
    assert err.rstrip().endswith("; to go on, repeat the command with: --resume --out run")
    assert "Traceback" not in err
    assert len(JsonlFile(Path("run/trajectories/none.jsonl")).read(Trajectory)) == 4


@pytest.mark.long
@pytest.mark.parametrize(
    "line",
    [
        ("grid", "--env", "alfworld", "--agent", "novice", "--interface", "probe", "--tasks", "3"),
        ("generate-interface", "--env", "alfworld", "--iterations", "1", "--tasks-per-iteration", "3"),
    ],
    ids=lambda given: given[0],
)
def test_the_other_verbs_say_so_too(line, run, forgetful, hardly_any_fresh_tasks):
    forgetful()
    status, _, err = run(*line, "--out", "run")
    assert status == 1, err
    assert err.count(f"{SAID}; the episode has no score") == 1
    summary = json.loads(Path("run/summary.json").read_text())
    entries = summary["iterations"] if "iterations" in summary else [summary["cells"][0]["without"]]
    assert [entry["faults_by_source"] for entry in entries] == [{"agent": 2}]


def test_generation_stops_when_there_is_nothing_but_broken_episodes(run, forgetful):
    forgetful(always=True)
    line = ("generate-interface", "--env", "alfworld", "--iterations", "1", "--tasks-per-iteration", "2")
    status, _, err = run(*line, "--out", "run")
    assert status == 2
    assert f"every episode of iteration 1 broke; the first: {SAID}; put this right" in err
