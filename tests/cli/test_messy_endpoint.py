"""Agents at an endpoint that answers in every manner: what a turn comes to, and games played to their end."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from align_echo.agents.reasoning import Vanilla
from align_echo.errors import ReplyWithheldError
from align_echo.models import CallLog
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


READABLE = tuple(name for name, manner in MANNERS.items() if manner.outcome in ("action", "none"))
MESSY = ["--model", "messy", "--base-url", "URL", "--out", "run"]
STATION = ["generate-interface", "--env", "tests.align.hybrid.station:SPEC", "--agent", "vanilla", "--iterations", "1"]
FEW = ["--env", "alfworld", "--agent", "vanilla", "--tasks", "1"]
VERBS = {
    "hybrid": [*STATION, "--backend", "hybrid", "--play-tasks", "1"],
    "llm": [*STATION, "--backend", "llm", "--play-tasks", "1"],
    "a judge": ["evaluate", *FEW, "--turns", "9", "--best-of", "3", "--judge", "messy", "--temperature", "1"],
    "a judge with reasons": ["evaluate", *FEW, "--turns", "5", "--best-of", "2", "--reasoning", "--temperature", "1"],
    "refinement": ["evaluate", *FEW, "--turns", "9", "--refine-rounds", "1", "--critic", "self", "--temperature", "1"],
    "a collection": ["critic", "collect", *FEW, "--candidates", "2"],
}
PLACES = itertools.cycle(["look around here", "look", "go to somewhere 7"])


def wanted(request: dict[str, Any]) -> str:
    """What the request asks for, in words that the manner then changes."""
    last = str(request["messages"][-1]["content"])
    if "hypothes" in last or "claims" in last:
        return "<hypotheses>[]</hypotheses>"
    if "misalignment" in last:
        return "<misalignments>none</misalignments>"
    return "correct" if "correct" in last else next(PLACES)


@pytest.mark.long
@pytest.mark.parametrize("verb", VERBS)
def test_what_a_verb_asks_of_a_messy_endpoint_comes_to_an_end(verb, run):
    with messy(wanted, PLAYABLE) as endpoint:
        status, out, err = run(*(word.replace("URL", endpoint.url) for word in (*VERBS[verb], *MESSY)))
    assert status == 0, err
    assert "at endpoints: agent" in out
    episodes = [
        Trajectory.model_validate_json(line)
        for file in Path("run").rglob("*trajectories*/*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert all(episode.fault is None for episode in episodes)


@pytest.mark.long
def test_a_hybrid_run_that_is_killed_twice_pays_nothing_twice_and_stays_within_its_cost(tmp_path, monkeypatch):
    """What is under way when it is killed is lost: one request of each of the two episodes at once."""
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"messy": {"prompt": 1000.0, "completion": 1000.0}}))
    monkeypatch.setenv("ALIGN_ECHO_PRICES", str(prices))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    billed: Counter[str] = Counter()
    lost: set[str] = set()
    kills = [15, 28]
    outs: list[str] = []
    process: subprocess.Popen[bytes]

    def answer(request: dict[str, Any]) -> str:
        key = json.dumps(request["messages"])
        billed[key] += 1
        if kills and billed.total() >= kills[0]:
            kills.pop(0)
            lost.add(key)
            process.kill()
        return wanted(request)

    with messy(answer, READABLE) as endpoint:
        command = [sys.executable, "-m", "align_echo_command", *STATION, "--backend", "hybrid", "--play-tasks", "0"]
        command += [*(word.replace("URL", endpoint.url) for word in MESSY[:4]), "--workers", "1"]
        command += ["--tasks-per-iteration", "1", "--out", str(tmp_path / "run"), "--max-cost"]
        for limit, more in (("14", []), ("14", ["--resume"]), ("14", ["--resume"]), ("1000", ["--resume"])):
            process = subprocess.Popen([*command, limit, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            out = process.communicate()[0].decode()
            outs.append(out)
            assert billed.total() * 0.109 <= float(limit), "100 tokens and 9 a request"
    assert process.returncode == 0, out
    assert not kills
    assert "--resume with a larger --max-cost goes on" in outs[2]
    assert {key for key, count in billed.items() if count > 1} <= lost
    calls = [call for call in CallLog(tmp_path / "run" / "calls.jsonl").read() if not call.cached]
    assert len({call.request for call in calls}) == len(calls) == len(billed)
