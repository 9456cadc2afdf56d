"""What `--dry-run` says a run will ask, beside what the run asks of a scripted endpoint; and the price of it."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from align_echo.models import CallLog
from tests.align.endpoint import Reply, serve

FACTOR = 3.0
"""Most that an estimate is off for an agent that plays every turn."""

PLACES = itertools.cycle(["here", "there", "here"])

THOUGHT = "I look at what there is, and at what I carry, and then go on with what the task asks for."
WRITES = {"hypothes": "[]", "claims": "[]", "Suggest an improved": "Go on.", "Verdict": "Verdict: keep"}


def answering(request: dict[str, Any]) -> Reply:
    """Says what the environment refuses, not always alike, and counts four characters as a token."""
    texts = [str(message["content"]) for message in request["messages"]]
    asked = "correct" if request["max_tokens"] <= 8 else ""
    asked = asked or next((words for key, words in WRITES.items() if key in texts[-1]), "")
    count = sum(map(len, texts))
    words = asked or f"Thought: {THOUGHT}\nAction: look around {next(PLACES)}"
    return Reply(words, prompt_tokens=count // 4, completion_tokens=max(1, len(words) // 4))


ONE = ["--model", "m", "--base-url", "URL"]
ALFWORLD = ["--env", "alfworld", "--tasks", "2", *ONE]
STATION = ["generate-interface", "--env", "tests.align.hybrid.station:SPEC", "--iterations", "1", "--agent", "vanilla"]
RUNS = {
    "an interface": ["evaluate", *ALFWORLD, "--agent", "react", "--interface", "probe", "--compare"],
    "candidates": ["evaluate", *ALFWORLD, "--best-of", "3", "--judge", "judge", "--temperature", "1"],
    "votes": ["evaluate", *ALFWORLD, "--agent", "self-consistency"],
    "rounds": ["evaluate", *ALFWORLD, "--refine-rounds", "1", "--critic", "judge", "--temperature", "1"],
    "a bounded history": ["evaluate", *ALFWORLD, "--history-turns", "5"],
    "a grid": ["grid", *ALFWORLD, "--agent", "vanilla", "--agent", "react", "--interface", "probe"],
    "a collection": ["critic", "collect", *ALFWORLD, "--agent", "vanilla", "--candidates", "2"],
    "a generation": [*STATION, *ONE, "--backend", "hybrid", "--play-tasks", "2"],
}


@pytest.fixture(autouse=True)
def prices(monkeypatch, tmp_path):
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({model: {"prompt": 1.0, "completion": 10.0} for model in ("m", "judge")}))
    monkeypatch.setenv("ALIGN_ECHO_PRICES", str(file))


def forecast(out: str) -> dict[str, tuple[float, float, float]]:
    """Requests, tokens and dollars by role."""
    found = re.findall(r"expected: (\w+) \w+: about ([\d,]+) requests, ([\d,]+) tokens, \$([\d.,]+)", out)
    return {role: (number(requests), number(tokens), number(dollars)) for role, requests, tokens, dollars in found}


def number(text: str) -> float:
    return float(text.replace(",", ""))


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_the_run_asks_what_the_forecast_said(name, run, monkeypatch):
    with serve({"m": answering, "judge": answering}) as endpoint:
        command = [word.replace("URL", endpoint.url) for word in RUNS[name]]
        status, out, err = run(*command, "--dry-run")
        assert status == 0, err
        assert not endpoint.requests
        expected = forecast(out)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        status, _, err = run(*command, "--out", "run")
        assert status == 0, err
    calls = [call for file in Path("run").rglob("calls.jsonl") for call in CallLog(file).read() if not call.cached]
    roles = {call.role for call in calls}
    assert roles - {"optimizer"} <= expected.keys()
    for role in roles:
        asked = [call.usage for call in calls if call.role == role]
        real = len(asked), sum(usage.tokens or 0 for usage in asked), sum(usage.cost_usd or 0 for usage in asked)
        writes = role in ("analyzer", "optimizer")
        factor = 5 if writes else FACTOR  # writers are asked as often as they find something, and here it is nothing
        for figure, (said, was) in enumerate(zip(expected[role], real, strict=True)):
            margin = 0 if figure < 2 else 0.1 if writes else 0.01
            assert was / factor - margin <= said <= was * factor + margin, (role, expected[role], real)


def test_a_forecast_needs_no_key_and_no_server_and_names_its_basis(run):
    command = ["evaluate", "--env", "alfworld", "--base-url", "http://127.0.0.1:9/v1", "--tasks", "1", "--dry-run"]
    status, out, _ = run(*command, "--model", "m", "--max-tokens", "16")
    first, basis = out.splitlines()
    assert status == 0
    assert first.startswith("expected: agent m: about 50 requests, ")
    assert basis.startswith("estimated from 1 episode played with random actions and replies of ")
    assert "for 1 episode of all 50 turns" in basis
    assert run(*command, "--model", "nobody-prices-it")[1].splitlines()[0].endswith("its price is not known")
    assert run("evaluate", "--env", "alfworld", "--model", "novice", "--dry-run")[1].endswith("model is asked\n")
    assert not Path("run").exists()


def test_a_dry_run_says_the_memory_of_local_models_and_refuses_what_cannot_run(run, tmp_path):
    command = ["evaluate", "--env", "alfworld", "--tasks", "1", "--dry-run"]
    status, out, _ = run(*command, "--model", "pocket", "--max-tokens", "24")
    first, second, basis = out.splitlines()
    assert status == 0
    assert first.startswith("memory for pocket: ")
    assert "conversation of 4,096 tokens" in first
    assert second.startswith("expected: agent pocket: about 50 requests, ")
    assert "replies of 24 tokens" in basis
    (tmp_path / "empty").mkdir()
    for model, said in {
        "pocket --memory 20MiB": "pocket does not fit in 20 MiB of memory",
        "none.gguf": "there is no file none.gguf",
        f"{tmp_path}/empty/": "is not the folder of a model",
        "transformers:/nowhere/model": "there is no folder /nowhere/model",
    }.items():
        status, out, err = run(*command, "--model", *model.split())
        assert (status, out) == (2, "")
        assert said in err


def test_a_local_model_that_was_meant_is_named_where_an_endpoint_has_no_key(run, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Path("weights").mkdir()
    for model, said in {
        "SmolLM2": "did you mean smollm2? set OPENAI_API_KEY",
        "weights": "to run the folder on this machine: transformers:weights; ",
    }.items():
        status, _, err = run("evaluate", "--env", "alfworld", "--tasks", "1", "--model", model)
        assert status == 2
        assert said in err


def test_a_dry_run_of_writing_names_what_is_asked_and_what_it_could_not_check(run, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    command = ["generate-interface", "--env", "gymnasium:FrozenLake-v1", "--agent", "random", "--backend", "hybrid"]
    status, out, err = run(*command, "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--dry-run")
    assert status == 0, err
    assert "expected: analyzer m" in out
    assert "no language model is asked" not in out
    assert out.splitlines()[-1].startswith("not checked: whether m ")
