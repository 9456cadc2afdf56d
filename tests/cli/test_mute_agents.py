"""An agent whose replies hold no action: `evaluate` says so after three turns and counts it, generation stops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from align_echo.agents.novices import make_novice
from align_echo.align import generation
from align_echo.base.jsonl import JsonlFile
from align_echo.evaluate import plan
from align_echo.types import Agent, AgentReply, AgentView, Trajectory

PROSE = "Sure! I would first have a look around\nand then decide."


class Talker:
    """Talks instead of acting in its first `mute` episodes, and is a novice in the others."""

    name = "talker"

    def __init__(self, mute: int) -> None:
        self._novice: Agent = make_novice("alfworld", "novice", seed=0)
        self._met: list[str] = []
        self._mute = mute
        self.replies = 0

    def act(self, view: AgentView) -> AgentReply:
        self.replies += 1
        if view.task_id not in self._met:
            self._met.append(view.task_id)
        if self._met.index(view.task_id) < self._mute:
            return AgentReply(text=PROSE, action=None, problem="it holds two lines, not one action")
        return self._novice.act(view)


@pytest.fixture
def talker(monkeypatch):
    """Put one in the place of the agent that the command line makes."""

    def play(mute: int) -> Talker:
        agent = Talker(mute)
        for module in (plan, generation):
            monkeypatch.setattr(module, "build_agent", lambda *given, **options: agent)
        return agent

    return play


EVALUATE = ("evaluate", "--env", "alfworld", "--agent", "novice", "--out", "run")
GENERATE = ("generate-interface", "--env", "alfworld", "--agent", "novice", "--backend", "probe", "--out", "run")
SAID = "none of the agent's first 3 replies in"


def test_evaluate_says_so_once_and_counts_its_episodes(run, talker):
    talker(mute=99)
    status, _, err = run(*EVALUATE, "--tasks", "2")
    assert status == 0
    (line,) = [line for line in err.splitlines() if SAID in line]
    assert "'Sure! I would first have a look around and then decide.' (it holds two lines, not one action)" in line
    assert err.index(SAID) < err.index("1/2"), "before the first episode has ended"
    result = json.loads(Path("run/summary.json").read_text())["variants"]["none"]
    assert (result["episodes"], result["faults"], result["success_rate"]["value"]) == (2, 0, 0)


@pytest.mark.parametrize("mute", [99, 3])
def test_generation_stops_after_three_turns_in_three_tasks(run, talker, mute):
    agent = talker(mute)
    status, _, err = run(*GENERATE, "--iterations", "1", "--tasks-per-iteration", "5")
    assert status == 2
    assert agent.replies == 9
    last = err.splitlines()[-1]
    assert last.startswith("align-echo: the agent does not write actions that can be read: none of its first 3 replies")
    assert "Sure! I would first" in last
    assert "--resume" not in last, "the same agent would say the same again"


def test_a_task_in_which_the_agent_stays_mute_is_played_with_the_others(run, talker, hardly_any_fresh_tasks):
    agent = talker(mute=2)
    status, _, err = run(*GENERATE, "--iterations", "1", "--tasks-per-iteration", "4", "--play-tasks", "0")
    assert status == 0, err
    assert SAID not in err
    played = JsonlFile(Path("run/iterations/1/trajectories.jsonl")).read(Trajectory)
    assert len({trajectory.task_id for trajectory in played}) == 4
    mute = [trajectory for trajectory in played if not any(trajectory.actions)]
    assert [len(trajectory.steps) > 3 for trajectory in mute] == [True, True]
    assert agent.replies > 9
