"""Limits on what an evaluation spends at an endpoint: what is sent, how it ends, how it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from align_echo.models import CallLog
from tests.align.endpoint import Endpoint, Reply, serve

PLAY = ["evaluate", "--env", "alfworld", "--agent", "vanilla", "--tasks", "2", "--model", "m", "--out", "run"]


@pytest.fixture(autouse=True)
def key(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"m": {"prompt": 10.0, "completion": 100.0}}))
    monkeypatch.setenv("ALIGN_ECHO_PRICES", str(prices))


def looking(request: dict[str, Any]) -> Reply:
    return Reply("look", prompt_tokens=1000, completion_tokens=10)


def paid(endpoint: Endpoint) -> tuple[int, int, float]:
    """Requests, tokens and dollars that the endpoint was asked for."""
    count = len(endpoint.requests)
    return count, count * 1010, count * (1000 * 10 + 10 * 100) / 1e6


@pytest.mark.parametrize(
    ("option", "limit", "larger"),
    [("--max-requests", "7", "100"), ("--max-tokens-total", "9000", "1000000"), ("--max-cost", "0.5", "50")],
)
def test_nothing_beyond_a_limit_is_sent_and_a_larger_limit_goes_on(option, limit, larger, run):
    with serve({"m": looking}) as endpoint:
        status, _, err = run(*PLAY, "--base-url", endpoint.url, option, limit)
        assert status == 2
        assert f"{option} {limit} leaves no room for the next request" in err.replace(",", "")
        requests, tokens, cost = paid(endpoint)
        spent = {"--max-requests": requests, "--max-tokens-total": tokens, "--max-cost": cost}[option]
        assert 0 < spent <= float(limit)
        status, _, err = run(*PLAY, "--base-url", endpoint.url, option, limit, "--resume")
        assert status == 2, "what was spent before counts"
        assert paid(endpoint)[0] <= requests, "replies are not paid twice"
        status, _, err = run(*PLAY, "--base-url", endpoint.url, option, larger, "--resume")
        assert status == 0, err
        calls = [call for call in CallLog(Path("run/calls.jsonl")).read() if not call.cached]
        assert len({call.request for call in calls}) == len(endpoint.requests)


def test_a_limit_of_cost_needs_a_price_and_any_limit_an_endpoint(run, monkeypatch):
    monkeypatch.delenv("ALIGN_ECHO_PRICES")
    status, _, err = run(*PLAY, "--base-url", "http://127.0.0.1:9/v1", "--max-cost", "1")
    assert status == 2
    assert "--max-cost needs the price of m" in err
    status, _, err = run(*PLAY[:-4], "--model", "novice", "--max-requests", "5", "--out", "run")
    assert status == 2
    assert "no model of this run is asked at an endpoint" in err
    assert not Path("run").exists()
