"""Agents at an endpoint that answers in every manner: what a turn comes to, and games played to their end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from align_echo.agents.reasoning import Vanilla
from align_echo.errors import ReplyWithheldError
from align_echo.models.client import RetryPolicy
from align_echo.models.openai_model import OpenAICompatibleModel
from align_echo.types import Trajectory
from tests.agents.views import VIEW
from tests.messy_endpoint import MANNERS, messy


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")


@pytest.mark.parametrize("name", MANNERS)
def test_a_turn_comes_to_what_its_manner_allows(name):
    outcome = MANNERS[name].outcome
    with messy(lambda request: "look", (name,)) as endpoint:
        model = OpenAICompatibleModel(
            "messy", base_url=endpoint.url, retry=RetryPolicy(attempts=3), wait=lambda seconds: None
        )
        if outcome == "withheld":
            with pytest.raises(ReplyWithheldError):
                Vanilla(model).act(VIEW)
            return
        reply = Vanilla(model).act(VIEW)
    assert reply.action == (None if outcome == "none" else "look")
    assert bool(reply.problem) == (outcome == "none")
    assert len(endpoint.requests) == 2 + (2 if outcome == "again" else 1), "two refusals of the form, then the answers"


PLAYABLE = tuple(name for name, manner in MANNERS.items() if manner.outcome != "withheld")


@pytest.mark.long
@pytest.mark.parametrize("agent", ["vanilla", "react", "planning", "self-consistency", "self-refine"])
def test_games_are_played_to_their_end_in_every_manner(agent, run):
    """Planning reads no action here, since none has a plan; several samples leave self-consistency always one."""
    with messy(lambda request: "look", PLAYABLE) as endpoint:
        options = ["--agent", agent, "--model", "messy", "--base-url", endpoint.url, "--tasks", "1", "--out", "run"]
        status, _, err = run("evaluate", "--env", "alfworld", *options)
    assert status == 0, err
    (episode,) = map(Trajectory.model_validate_json, Path("run/trajectories/none.jsonl").read_text().splitlines())
    assert episode.fault is None
    assert len(episode.steps) == 50
    assert any(step.action for step in episode.steps) == (agent != "planning")
    none = json.loads(Path("run/summary.json").read_text())["variants"]["none"]
    assert none["faults"] == 0
    expected = {"planning": 100.0, "self-consistency": 0.0}
    assert none["unparsed"]["value"] == expected.get(agent, pytest.approx(50, abs=49))
