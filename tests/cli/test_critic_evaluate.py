"""`align-echo critic evaluate` that was stopped, is given a collection twice, or asks a critic that reasons."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("datasets")

from align_echo.base.jsonl import JsonlFile
from align_echo.cli.main import main
from align_echo.gaia.trial import TrialResult
from align_echo.gaia.verdicts import EpisodeVerdicts
from align_echo.types import Trajectory
from tests.align.endpoint import Endpoint, Status, serve
from tests.holder import holder

REASONED = "Reason: it is so\nVerdict: "
WAVERING = ("--env", "alfworld", "--agent", "vanilla", "--model", "wavering")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    """An agent that says two things by turns, and judges for whom one of them is right, in one word and with a reason.
    """
    replies = itertools.cycle(["look", "inventory"])

    def verdict(request: dict[str, Any]) -> str:
        return "correct" if "<action>inventory</action>" in request["messages"][-1]["content"] else "wrong"

    def falling(request: dict[str, Any]) -> str | Status:
        return verdict(request) if len(served.asked("falling")) <= 150 else Status(400)

    scripts = {
        "wavering": lambda request: next(replies),
        "picky": verdict,
        "falling": falling,
        "arguing": lambda request: REASONED + verdict(request),
        "mumbling": lambda request: REASONED + verdict(request).replace("wrong", "hm"),
    }
    with serve(scripts) as served:
        yield served


@pytest.fixture(scope="module")
def collection(endpoint, tmp_path_factory) -> Path:
    """Two episodes of two candidates a turn."""
    folder: Path = tmp_path_factory.mktemp("collections") / "made"
    more = ("--candidates", "2", "--tasks", "2", "--base-url", endpoint.url, "--out", str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "k")
        assert main(["critic", "collect", *WAVERING, *more]) == 0
    return folder


@pytest.fixture
def evaluate(endpoint, collection, run, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    def call(critic: str, *more: object) -> tuple[int, str, str]:
        command = ("critic", "evaluate", "--judge", critic, "--examples", collection, "--base-url", endpoint.url)
        ended: tuple[int, str, str] = run(*command, *more)
        return ended

    return call


def outcome(folder: str) -> TrialResult:
    """The result of a trial without its bill, which also has the requests of sessions that were cut off."""
    result = TrialResult.model_validate_json(Path(folder, "summary.json").read_text())
    return result.model_copy(update={"at_endpoints": {}})


@pytest.mark.long
def test_a_trial_that_another_process_is_at_work_on_is_left_alone(evaluate):
    Path("trial").mkdir()
    with holder(Path("trial")):
        status, _, err = evaluate("picky", "--out", "trial")
    assert status == 2
    assert err.splitlines()[-1].startswith("align-echo: another process is at work in trial")
    assert list(Path("trial").iterdir()) == []


@pytest.mark.long
def test_a_trial_that_was_stopped_pays_for_nothing_twice_and_comes_to_the_same(evaluate, endpoint):
    assert evaluate("picky", "--out", "whole")[0] == 0
    before = len(endpoint.asked("picky"))
    assert evaluate("picky", "--out", "trial")[0] == 0
    once = len(endpoint.asked("picky")) - before
    kept = Path("trial/opinions.jsonl").read_text().splitlines(keepends=True)
    assert len(kept) == 2
    Path("trial/opinions.jsonl").write_text(kept[1] + kept[0][:40])
    Path("trial/summary.json").unlink()
    status, _, err = evaluate("picky", "--out", "trial")
    assert (status, err.count("\n")) == (2, 1)
    assert "trial is not empty: add --resume" in err
    status, _, err = evaluate("picky", "--out", "trial", "--resume")
    assert status == 0, err
    assert len(endpoint.asked("picky")) == before + once
    assert outcome("trial") == outcome("whole")
    asked = len(endpoint.asked("picky"))
    assert evaluate("picky", "--out", "trial", "--resume")[0] == 0
    assert len(endpoint.asked("picky")) == asked


@pytest.mark.long
def test_a_resumed_trial_asks_for_the_same(evaluate):
    assert evaluate("picky", "--out", "trial")[0] == 0
    for other in (("--rule", "expert"), ("--seed", "3"), ("--reasoning",)):
        status, _, err = evaluate("picky", "--out", "trial", "--resume", *other)
        assert (status, err.count("\n")) == (2, 1)
        assert "trial was started with" in err
    status, _, err = evaluate("picky", "--resume")
    assert (status, err.count("\n")) == (2, 1)
    assert "add --out DIR" in err


@pytest.mark.long
def test_what_a_critic_that_broke_left_open_is_asked_again(evaluate, endpoint):
    assert evaluate("falling", "--out", "trial")[0] == 0
    assert outcome("trial").critic.unreadable > 0
    kept = JsonlFile(Path("trial/opinions.jsonl")).read(EpisodeVerdicts)
    assert all(call.complete for call in kept)
    assert len(kept) < 2
    before = len(endpoint.asked("falling"))
    evaluate("falling", "--out", "trial", "--resume")
    assert len(endpoint.asked("falling")) > before


@pytest.mark.long
def test_a_reply_that_cannot_be_read_is_an_answer_and_is_not_asked_for_again(evaluate, endpoint):
    assert evaluate("mumbling", "--reasoning", "--out", "trial")[0] == 0
    assert outcome("trial").critic.unreadable > 0
    assert len(JsonlFile(Path("trial/opinions.jsonl")).read(EpisodeVerdicts)) == 2
    before = len(endpoint.asked("mumbling"))
    assert evaluate("mumbling", "--reasoning", "--out", "trial", "--resume")[0] == 0
    assert len(endpoint.asked("mumbling")) == before


def test_verdicts_of_before_faults_were_recorded_are_read():
    line = '{"episode": "e", "turns": [[{"action": "look", "verdict": "wrong", "logit": null}]]}'
    assert EpisodeVerdicts.model_validate_json(line).complete


@pytest.mark.long
def test_an_episode_that_several_collections_hold_counts_once(evaluate, collection, tmp_path):
    assert evaluate("picky", "--out", "once")[0] == 0
    copy = tmp_path / "copy"
    shutil.copytree(collection, copy)
    status, _, err = evaluate("picky", "--examples", copy, "--examples", collection, "--out", "thrice")
    assert status == 0, err
    assert "4 episodes are in several of the collections: each counts once" in err
    assert outcome("thrice") == outcome("once")


@pytest.mark.long
def test_a_critic_that_reasons_is_put_on_trial_with_votes_or_without(evaluate, endpoint):
    assert evaluate("picky", "--out", "plain")[0] == 0
    status, out, err = evaluate("arguing", "--reasoning", "--out", "once")
    assert status == 0, err
    assert outcome("once") == outcome("plain")
    assert "calibration error" not in out
    assert {request["temperature"] for request in endpoint.asked("arguing")} == {0.0}
    before = len(endpoint.asked("arguing"))
    status, out, err = evaluate("arguing", "--reasoning", "--votes", "2", "--out", "votes")
    assert status == 0, err
    assert len(endpoint.asked("arguing")) == 3 * before
    assert (outcome("votes").critic.with_logit, outcome("votes").critic.n) == (outcome("plain").critic.n,) * 2
    assert "calibration error" in out
    status, _, err = evaluate("picky", "--reasoning", "--out", "none")
    assert (status, err.count("\n")) == (2, 2), err
    assert "picky said neither correct nor wrong" in err


@pytest.mark.long
def test_a_critics_reasons_have_the_tokens_asked_for(evaluate, endpoint):
    before = len(endpoint.asked("arguing"))
    assert evaluate("arguing", "--reasoning", "--max-tokens", "77", "--out", "trial")[0] == 0
    assert {request["max_tokens"] for request in endpoint.asked("arguing")[before:]} == {77}
    status, _, err = evaluate("arguing", "--reasoning", "--max-tokens", "76", "--out", "trial", "--resume")
    assert (status, "was started with" in err) == (2, True), "other tokens, other verdicts"


@pytest.mark.long
def test_the_best_of_several_by_a_critic_that_reasons(endpoint, run, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    command = ("evaluate", *WAVERING, "--tasks", "1", "--temperature", "1", "--best-of", "2", "--judge", "arguing")
    status, _, err = run(*command, "--reasoning", "--base-url", endpoint.url, "--out", "run")
    assert status == 0, err
    (played,) = map(Trajectory.model_validate_json, Path("run/trajectories/none.jsonl").read_text().splitlines())
    assert set(played.actions) == {"inventory"}
    assert {candidate.p_correct for step in played.steps if step.choice for candidate in step.choice.candidates} == {
        None
    }


PLAY = ("evaluate", "--env", "alfworld", "--model", "pocket", "--temperature", "1")
RATE = ("critic", "evaluate", "--judge", "x", "--examples", ".")
BAD = {
    "votes of one word": ((*RATE, "--votes", "2"), "add --reasoning"),
    "reasons about nothing": ((*PLAY, "--reasoning"), "--reasoning needs candidates to choose from"),
    "reasons without a critic": ((*PLAY, "--best-of", "2", "--pick", "random", "--reasoning"), "asks no critic"),
    "doubt without probabilities": (
        (*PLAY, "--best-of", "2", "--reasoning", "--abstain-below", "0.5"),
        "--abstain-below needs probabilities",
    ),
    "epochs of steps": (
        ("critic", "train", "--examples", ".", "--reasoning", "--epochs", "2"),
        "--epochs is not for --reasoning",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_nothing_written(case, run):
    arguments, message = BAD[case]
    status, result, err = run(*arguments, "--out", "out")
    assert (status, result, err.count("\n")) == (2, "", 1), err
    assert message in err
    assert list(Path().iterdir()) == []
