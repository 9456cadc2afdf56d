"""What a broken or hostile endpoint does to a run: faults of the model, counted apart, and never a game lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from align_echo.evaluate.comparison import VariantComparison
from align_echo.models.client import RetryPolicy
from align_echo.types import Trajectory
from tests.hostile_endpoint.faults import FAULTS, said
from tests.hostile_endpoint.server import Exchange, serving

PLAYED = ("evaluate", "--env", "alfworld", "--agent", "vanilla", "--model", "m", "--workers", "1", "--out", "run")
WITHHELD = [name for name, fault in FAULTS.items() if fault.comes_to == "ReplyWithheldError"]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryPolicy, "pause", lambda self, attempt, after: 0.0)


@pytest.mark.parametrize("name", WITHHELD)
def test_a_reply_that_was_withheld_is_a_fault_and_no_score(name, run):
    fault = FAULTS[name]

    def answer(exchange: Exchange) -> None:
        """The third turn's reply is withheld, in the first of two episodes."""
        if exchange.number == 3:
            fault.answering(exchange)
        else:
            exchange.answer(said("look"))

    with serving(answer) as server:
        status, _, err = run(*PLAYED, "--tasks", "2", "--base-url", server.url)
        assert status == 0, err
        assert len(server.requests) == 3 + 50
    played = Trajectory.model_validate_json(Path("run/trajectories/none.jsonl").read_text().splitlines()[0])
    assert played.fault is not None
    assert (played.fault.source, played.fault.error) == ("model", "ReplyWithheldError")
    assert fault.says in played.fault.message
    assert len(played.steps) == 2
    result = VariantComparison.model_validate_json(Path("run/summary.json").read_text()).variants["none"]
    assert (result.episodes, result.faults) == (1, 1)


def test_an_endpoint_that_withholds_everything_ends_the_run(run):
    with serving(FAULTS["null content"].answering) as server:
        status, _, err = run(*PLAYED, "--tasks", "5", "--base-url", server.url)
    assert (status, "the first 4 episodes were all broken" in err) == (2, True)
    assert not Path("run/summary.json").exists()


def test_an_empty_reply_and_one_cut_before_its_first_letter_are_the_models_own(run):
    def answer(exchange: Exchange) -> None:
        exchange.answer(said("") if exchange.number % 2 else said(None, finish_reason="length"))

    with serving(answer) as server:
        assert run(*PLAYED, "--tasks", "1", "--base-url", server.url)[0] == 0
    result = VariantComparison.model_validate_json(Path("run/summary.json").read_text()).variants["none"]
    assert (result.episodes, result.faults) == (1, 0)
    assert [share.value for share in (result.unparsed, result.cut_off) if share] == [100.0, 50.0]


@pytest.mark.long
def test_replies_far_beyond_their_limit_fill_no_disk(run):
    with serving(lambda exchange: exchange.answer(said("x" * 200_000))) as server:
        assert run(*PLAYED, "--tasks", "1", "--base-url", server.url, "--max-tokens", "256")[0] == 0
    written = sum(file.stat().st_size for file in Path("run").rglob("*") if file.is_file())
    assert written < 20 * 2**20  # of 255 MB: every turn's prompt is logged with all replies before it
    result = VariantComparison.model_validate_json(Path("run/summary.json").read_text()).variants["none"]
    assert result.cut_off is not None
    assert result.cut_off.value == 100.0


def test_the_limit_of_a_reply_is_sent_and_on_record(run):
    with serving(lambda exchange: exchange.answer(said("look"))) as server:
        options = ("--base-url", server.url, "--tasks", "1")
        assert run(*PLAYED, *options, "--max-tokens", "4000")[0] == 0
        assert {request["max_tokens"] for request in server.requests} == {4000}
        assert json.loads(Path("run/config.json").read_text())["agent_details"]["max_tokens"] == "4000"
        status, _, err = run(*PLAYED, *options, "--max-tokens", "4001", "--resume")
        assert (status, "4000" in err) == (2, True)
    status, _, err = run("evaluate", "--env", "alfworld", "--agent", "novice", "--max-tokens", "4000", "--out", "other")
    assert (status, err) == (2, "align-echo: the agent novice asks no model: leave --max-tokens out\n")
