"""What servers are known to do differently, each through an evaluation, a generation and a judge.

A manner is how a server answers a request for which a plain one would say `wanted`; `DIFFERENCES` is the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from align_echo.models.client import RetryPolicy
from tests.align.endpoint import Answer, Raw, Reply, Status, serve
from tests.cli.test_messy_endpoint import FEW, STATION, wanted
from tests.messy_endpoint import body

Manner = Callable[[dict[str, Any]], Answer]


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr(RetryPolicy, "pause", lambda self, attempt, after: 0.0)


def refused(message: str, when: Callable[[dict[str, Any]], bool], status: int = 400, **more: Any) -> Manner:
    """A server that refuses some requests in these words."""
    error = Status(status, body=json.dumps({"error": {"message": message, **more}}))
    return lambda request: error if when(request) else wanted(request)


def length(request: dict[str, Any]) -> int:
    return sum(len(str(message["content"])) for message in request["messages"])


def warm(request: dict[str, Any]) -> bool:
    return bool(request.get("temperature", 1) != 1)


def with_system(request: dict[str, Any]) -> bool:
    return any(message["role"] == "system" for message in request["messages"])


def long(request: dict[str, Any]) -> bool:
    return length(request) > 3000


def beside(request: dict[str, Any]) -> Answer:
    """A context of 1,100 tokens, of which a reply gets what the prompt leaves."""
    prompt, most = length(request) // 4, request["max_tokens"]
    if prompt + most <= 1100:
        return Reply(wanted(request), prompt_tokens=prompt)
    words = f"This model's maximum context length is 1100 tokens and your request has {prompt} input tokens"
    return Status(400, body=json.dumps({"error": {"message": f"max_tokens is too large: {most}. {words}."}}))


def few_probabilities(request: dict[str, Any]) -> Answer:
    if request.get("top_logprobs", 0) > 5:
        return Status(400, body='{"error": {"message": "top_logprobs is 20, and may be 5 at most"}}')
    listed = [{"token": word, "logprob": logprob} for word, logprob in (("correct", -0.1), ("wrong", -2.5))]
    content = [{**listed[0], "top_logprobs": listed}]
    choice = {"message": {"content": wanted(request)}, "finish_reason": "stop", "logprobs": {"content": content}}
    return Raw(json.dumps({"choices": [choice if "logprobs" in request else {**choice, "logprobs": None}]}))


def streamed(request: dict[str, Any]) -> Raw:
    parts: tuple[dict[str, str], ...] = ({"content": wanted(request)}, {})
    choices = [{"index": 0, "delta": part, "finish_reason": None if part else "stop"} for part in parts]
    return Raw("".join(f"data: {json.dumps({'choices': [each]})}\n\n" for each in choices) + "data: [DONE]\n\n")


def only_streamed(request: dict[str, Any]) -> Answer:
    refusal = Status(400, body='{"error": {"message": "stream must be set to true"}}')
    return streamed(request) if request.get("stream") else refusal


def thoughtful(request: dict[str, Any]) -> Answer:
    """A judge that thinks before its word."""
    return body(None, reason="length", reasoning_content="Let") if request["max_tokens"] < 20 else wanted(request)


class Difference(NamedTuple):
    """A manner, what is said of it once, and whether an episode is played to its end, and an interface is written."""

    manner: Manner
    said: str = ""
    plays: bool = True
    generates: bool = True


DIFFERENCES: dict[str, Difference] = {
    "one temperature": Difference(refused("temperature: only 1 is allowed here", warm), "it takes temperature 1 only"),
    "one temperature in thinking": Difference(
        refused("`temperature` may only be set to 1 if thinking is on", warm), "it takes temperature 1 only"
    ),
    "no system role": Difference(refused("System role is not supported here", with_system), "it takes no system role"),
    "no system role, by its field": Difference(
        refused("'messages[0].role' does not support 'system'", with_system, param="messages[0].role"),
        "it takes no system role",
    ),
    "sixteen tokens at least": Difference(
        refused("max_output_tokens is below the minimum: expected >= 16", lambda request: request["max_tokens"] < 16)
    ),
    "a context that is full": Difference(refused("the request exceeds the available context size", long)),
    "a context that is full, as a fault": Difference(refused("context size has been exceeded", long, status=500)),
    "a prompt that is too long": Difference(refused("prompt is too long: 2091 tokens > 2000 maximum", long)),
    "inputs that are too many": Difference(refused("`inputs` must have less than 1000 tokens. Given: 1001", long, 422)),
    "a context that is full, by its code": Difference(refused("no", long, code="context_length_exceeded")),
    "a reply that does not fit": Difference(beside, "its context holds 1,100 tokens"),
    "five probabilities": Difference(few_probabilities),
    "a stream alone": Difference(only_streamed, "it only streams its replies"),
    "a stream nobody asked for": Difference(streamed),
    "an answer in the thinking": Difference(
        lambda request: body("", reasoning_content=wanted(request)), "its replies stand in the field of its thinking"
    ),
    "a judge that thinks": Difference(thoughtful),
    "an error under 200": Difference(
        lambda request: Raw('{"error": {"message": "upstream failed", "code": 429}}'), plays=False, generates=False
    ),
    "an error in a choice": Difference(lambda request: body("", reason="error"), plays=False, generates=False),
    "no content": Difference(lambda request: body(None), plays=False, generates=False),
    "no message": Difference(
        lambda request: Raw('{"choices": [{"finish_reason": "length", "index": 0}]}'), generates=False
    ),
    "a quota in a list": Difference(
        lambda request: Status(429, body='[{"error": {"code": 429, "message": "quota: retry in 0.5s"}}]'),
        plays=False,
        generates=False,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", DIFFERENCES)
def test_an_evaluation_comes_to_what_its_server_allows(name, run):
    """An overflow ends an episode, and is no fault; each adaptation is asked for and said once."""
    known = DIFFERENCES[name]
    with serve({"m": known.manner}) as endpoint:
        status, _, err = run("evaluate", *FEW, "--model", "m", "--base-url", endpoint.url, "--out", "run")
    assert status == (0 if known.plays else 2), err
    assert err.count(known.said) == 1 or not known.said
    assert "Traceback" not in err
    if not known.plays:
        assert len(endpoint.requests) in (1, 7), "asked again if that may help"
        return
    none = json.loads(Path("run/summary.json").read_text())["variants"]["none"]
    overflow = "full" in name or "too" in name
    assert (none["faults"], none["context_overflows"]) == (0, int(overflow))
    turns = none["mean_turns"]
    assert turns < 50 if overflow else turns == 50
    assert len(endpoint.requests) <= turns + 3


@pytest.mark.long
@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_generation_comes_to_what_its_server_allows(name, run):
    known = DIFFERENCES[name]
    with serve({"m": known.manner}) as endpoint:
        options = ["--backend", "hybrid", "--play-tasks", "1", "--tasks-per-iteration", "1"]
        status, _, err = run(*STATION, *options, "--model", "m", "--base-url", endpoint.url, "--out", "run")
    assert status == (0 if known.generates else 2), err
    assert known.said in err
    assert not [line for line in err.splitlines() if "the model broke" in line] or not known.plays
    assert Path("run/interface.py").exists() == known.generates


@pytest.mark.long
@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_judge_comes_to_what_its_server_allows(name, run, tmp_path, monkeypatch):
    """A judge without room leaves the first candidate; one that breaks is a fault, and no candidate is sent."""
    known = DIFFERENCES[name]
    with serve({"m": known.manner}) as endpoint, serve({"m": lambda request: "look"}) as plain:
        (tmp_path / "file.toml").write_text(f'[plain]\nurl = "{plain.url}"\n[other]\nurl = "{endpoint.url}"\n')
        monkeypatch.setenv("ALIGN_ECHO_ENDPOINTS", str(tmp_path / "file.toml"))
        options = ["--turns", "5", "--best-of", "2", "--temperature", "1", "--model", "plain:m", "--judge", "other:m"]
        status, _, err = run("evaluate", *FEW, *options, "--out", "run")
    assert status == (0 if known.plays else 2), err
    if not known.plays:
        assert "the model broke: no verdict on the candidates" in err
        return
    assert json.loads(Path("run/summary.json").read_text())["variants"]["none"]["faults"] == 0
    if name != "no message":
        choices = json.loads(Path("run/summary.json").read_text())["variants"]["none"]["choices"]
        assert choices is not None
        assert endpoint.requests
