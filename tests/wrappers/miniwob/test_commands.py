"""MiniWoB from the command line, offline: the scripted novice, alone and as a model of which the best of N is sent."""

from __future__ import annotations

import json

import pytest

from align_echo.cli.main import main
from align_echo.types import Trajectory
from tests.wrappers.miniwob.conftest import needs_browser

pytestmark = needs_browser

EVALUATE = ["evaluate", "--env", "miniwob", "--split", "expert_test", "--tasks", "3", "--workers", "1", "--out", "run"]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def played(folder) -> list[Trajectory]:
    lines = (folder / "run" / "trajectories" / "none.jsonl").read_text().splitlines()
    return [Trajectory.model_validate_json(line) for line in lines]


def test_the_novice_is_evaluated_and_its_refused_actions_are_counted(elsewhere):
    assert main([*EVALUATE, "--agent", "novice"]) == 0
    figures = json.loads((elsewhere / "run" / "summary.json").read_text())["variants"]["none"]
    assert (figures["episodes"], figures["faults"]) == (3, 0)
    assert figures["consecutive_invalid"] is not None
    assert len({one.task_id.split("/")[0] for one in played(elsewhere)}) == 3


def test_the_expert_wins_all(elsewhere):
    assert main([*EVALUATE, "--agent", "expert"]) == 0
    assert all(one.won for one in played(elsewhere))


def test_the_best_of_several_candidates_of_the_novice_is_sent(elsewhere):
    best = ["--agent", "vanilla", "--model", "novice", "--temperature", "1", "--best-of", "4", "--pick", "majority"]
    assert main([*EVALUATE, *best]) == 0
    steps = [step for one in played(elsewhere) for step in one.steps]
    assert all(step.choice is not None and len(step.choice.candidates) == 4 for step in steps)
    assert any(len({one.action for one in step.choice.candidates}) > 1 for step in steps if step.choice)
