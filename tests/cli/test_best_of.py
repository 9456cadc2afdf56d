"""`align-echo evaluate --best-of` as a user meets it: what is sent, what is on record, bad input."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from align_echo.evaluate.comparison import VariantComparison
from align_echo.gaia.examples import read_examples
from align_echo.gaia.trial import TrialResult
from align_echo.models import CallLog
from align_echo.types import ChoiceCounts, Trajectory
from tests.align.endpoint import Endpoint, serve

VANILLA = ["evaluate", "--env", "alfworld", "--agent", "vanilla", "--tasks", "1", "--temperature", "1"]
AGENT = [*VANILLA, "--model", "wavering"]


@pytest.fixture
def endpoint(monkeypatch) -> Iterator[Endpoint]:
    """An agent that says two things by turns, and a judge for whom one of them is right."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    replies = itertools.cycle(["look", "inventory"])

    def verdict(request: dict[str, Any]) -> str:
        return "correct" if "<action>inventory</action>" in request["messages"][-1]["content"] else "wrong"

    def wavering(request: dict[str, Any]) -> str:
        return verdict(request) if "<action>" in request["messages"][-1]["content"] else next(replies)

    with serve({"wavering": wavering, "picky": verdict}) as served:
        yield served


def test_signs_that_are_taken_off_replies_are_counted_and_said(run, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    replies = itertools.cycle(["look</s>", "inventory", "\u200blook<|im_end|>"])
    with serve({"wavering": lambda request: next(replies)}) as served:
        status, out, err = run(*AGENT, "--base-url", served.url, "--out", "run")
    assert status == 0, err
    (line,) = [line for line in out.splitlines() if "signs taken off" in line]
    (played,) = map(Trajectory.model_validate_json, Path("run/trajectories/none.jsonl").read_text().splitlines())
    taken = sum(bool(step.residue) for step in played.steps)
    assert taken > 1
    assert line.startswith(f"none: {taken} of {len(played.steps)} replies had signs taken off")
    assert "<|im_end|> in " in line
    assert "</s> in " in line
    counted = json.loads(Path("run/summary.json").read_text())["variants"]["none"]
    assert (counted["replies"], counted["with_residue"]) == (len(played.steps), taken)


@pytest.mark.long
@pytest.mark.parametrize("judge", ["picky", "wavering", None])
def test_what_the_judge_holds_right_is_sent_and_who_judged_is_on_record(judge, run, endpoint):
    chosen = ["--judge", judge] if judge else []
    status, out, err = run(*AGENT, "--best-of", "2", *chosen, "--base-url", endpoint.url, "--out", "run")
    assert status == 0, err
    line = f"agent: vanilla, model wavering, best of 2 at temperature 1.0 by {judge or 'wavering'}"
    assert line in out
    assert line in err
    (played,) = map(Trajectory.model_validate_json, Path("run/trajectories/none.jsonl").read_text().splitlines())
    assert set(played.actions) == {"inventory"}
    counts = {step.choice.counts for step in played.steps if step.choice}
    assert counts == {ChoiceCounts(candidates=2, correct=1, wrong=1)}
    turns = len(played.steps)
    assert f"verdicts: {turns} correct, {turns} wrong, 0 that were none" in out
    summary = VariantComparison.model_validate_json(Path("run/summary.json").read_text())
    assert summary.variants["none"].choices == ChoiceCounts(candidates=2 * turns, correct=turns, wrong=turns)
    assert summary.agent == "best-of-2(vanilla(wavering))"
    details = json.loads(Path("run/config.json").read_text())["agent_details"]
    assert (details["best_of"], details["model.judge"]) == ("2", judge or "wavering")
    calls = CallLog(Path("run/calls.jsonl")).read()
    judged = [call for call in calls if call.reply in ("correct", "wrong")]
    assert {call.role for call in judged} == {"judge" if judge == "picky" else "agent"}
    assert {(call.temperature, call.max_tokens) for call in judged} == {(0.0, 8)}


BAD = {
    "a judge of nothing": ([*AGENT, "--judge", "picky"], "--judge needs candidates to choose from: add --best-of N"),
    "an agent that does not draw": (
        [*AGENT, "--temperature", "0", "--best-of", "2"],
        "--best-of needs an agent that draws",
    ),
    "no chat agent": (
        ["evaluate", "--env", "alfworld", "--agent", "expert", "--best-of", "2"],
        "--best-of needs an agent that draws: a chat model",
    ),
    "a script as its own judge": (
        [*VANILLA, "--model", "novice", "--best-of", "2"],
        "can only play: name another with --judge",
    ),
    "no candidates": ([*AGENT, "--best-of", "0"], "--best-of"),
    "an agent whose model tells no probabilities": (
        [*AGENT, "--temperature", "1", "--best-of", "2", "--pick", "tilted"],
        "--pick tilted needs a local model",
    ),
    "a tilt by reasons": (
        [*VANILLA, "--model", "pocket", "--temperature", "1", "--best-of", "2", "--pick", "tilted", "--reasoning"],
        "--pick tilted goes by probabilities alone",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_nothing_written(case, run, endpoint):
    arguments, message = BAD[case]
    url = ["--base-url", endpoint.url] if "wavering" in arguments else []
    status, out, err = run(*arguments, *url, "--out", "out")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1, err
    assert message in err
    assert not Path("out").exists()


@pytest.mark.long
def test_agents_and_critics_at_endpoints_need_tell_no_probabilities(endpoint, run):
    at = ("--base-url", endpoint.url)
    agent = ("--agent", "vanilla", "--model", "wavering", "--judge", "picky", "--candidates", "2")
    status, _, err = run("critic", "collect", "--env", "alfworld", *agent, "--tasks", "1", *at, "--out", "made")
    assert status == 0, err
    rows = read_examples(Path("made"))
    assert {(row.action, row.sent, row.logprob) for row in rows} == {("look", False, None), ("inventory", True, None)}
    status, out, err = run("critic", "evaluate", "--judge", "picky", "--examples", "made", *at, "--out", "trial")
    assert status == 0, err
    result = TrialResult.model_validate_json(Path("trial/summary.json").read_text())
    assert (result.critic.with_logit, result.critic.auroc, result.critic.unreadable) == (0, None, 0)
    assert {variant.rule for variant in result.curve} == {"first", "critic", "placebo", "random", "majority", "pass"}
    assert "area under" not in out
    with serve({"mute": lambda request: "bananas"}) as other:
        for name, message in (("nobody", "is not there (404)"), ("mute", "mute said neither correct nor wrong in")):
            judge_options = ("--judge", name, "--base-url", other.url)
            status, out, err = run("critic", "evaluate", *judge_options, "--examples", "made", "--out", "none")
            assert (status, out) == (2, "")
            assert message in err
            files = {"nobody": {"config.json"}, "mute": {"cache", "calls.jsonl", "config.json", "opinions.jsonl"}}
            assert {entry.name for entry in Path("none").iterdir()} == files[name]
            assert "--resume" not in err


def test_evaluate_refuses_a_rule_that_the_model_cannot_serve_before_it_plays(run):
    far = ("evaluate", "--env", "alfworld", "--agent", "vanilla", "--model", "novice", "--temperature", "1")
    status, out, err = run(*far, "--best-of", "2", "--pick", "logprob", "--out", "out")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "--pick logprob needs a local model" in err
    assert not Path("out").exists()


@pytest.mark.parametrize("agent", ["self-consistency", "self-refine"])
def test_the_likeliest_reply_is_not_asked_of_agents_whose_turn_is_several_replies(agent, run):
    command = ("evaluate", "--env", "alfworld", "--agent", agent, "--model", "pocket", "--temperature", "1")
    status, out, err = run(*command, "--best-of", "2", "--pick", "logprob", "--out", "out")
    assert (status, out, err.count("\n")) == (2, "", 2), "the line about memory, and the refusal"
    assert f"compares replies, and {agent} asks several times a turn" in err.splitlines()[-1]
    assert not Path("out").exists()


def test_evaluate_takes_the_action_named_most_often(run):
    pytest.importorskip("torch")
    status, out, err = run(
        *("evaluate", "--env", "alfworld", "--model", "pocket", "--tasks", "1", "--temperature", "1"),
        *("--best-of", "3", "--pick", "majority", "--out", "run"),
    )
    assert status == 0, err
    assert "best of 3 at temperature 1.0 by the rule 'majority'" in out
    (played,) = map(Trajectory.model_validate_json, Path("run/trajectories/none.jsonl").read_text().splitlines())
    for step in played.steps:
        assert step.choice is not None
        actions = [candidate.action for candidate in step.choice.candidates]
        assert len(actions) == 3
        assert {candidate.verdict for candidate in step.choice.candidates} == {None}
        most = max(actions.count(action) for action in actions if action is not None) if any(actions) else 3
        assert actions.count(step.action) == most
