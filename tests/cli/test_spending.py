"""Limits on what an evaluation spends at an endpoint: what is sent, how it ends, how it goes on."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from align_echo.cli.main import main
from align_echo.evaluate.ablation import list_switches, without_rules
from align_echo.interface.contract import load_interface, save_interface
from align_echo.models import CallLog
from tests.align.endpoint import Endpoint, Reply, serve

PLAY = ["evaluate", "--env", "alfworld", "--agent", "vanilla", "--tasks", "2", "--model", "m", "--out", "run"]


@pytest.fixture(autouse=True)
def key(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"m": {"prompt": 10.0, "completion": 100.0}}))
    monkeypatch.setenv("ALIGN_ECHO_PRICES", str(prices))
    monkeypatch.setitem(globals(), "DOORS", itertools.cycle(["red", "green", "green"]))  # as if no test went before


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
        requests, tokens, cost = paid(endpoint)
        spent = {"--max-requests": requests, "--max-tokens-total": tokens, "--max-cost": cost}[option]
        assert spent <= float(limit), "also if a shorter request fitted"
        status, _, err = run(*PLAY, "--base-url", endpoint.url, option, larger, "--resume")
        assert status == 0, err
        calls = [call for call in CallLog(Path("run/calls.jsonl")).read() if not call.cached]
        assert len({call.request for call in calls}) == len(endpoint.requests)


DOORS = itertools.cycle(["red", "green", "green"])


def answering(request: dict[str, Any]) -> Reply:
    """Says what the environment refuses, or an open door, and proposes nothing; every action is right."""
    asked = request["messages"][-1]["content"]
    if "doors" in request["messages"][0]["content"] + asked:
        return Reply(f"open {next(DOORS)}", prompt_tokens=1000, completion_tokens=10)
    words = "[]" if "hypothes" in asked or "claims" in asked else "look around here"
    words = "<misalignments>none</misalignments>" if "misalignment" in asked else words
    words = "correct" if "correct" in asked else words
    return Reply(words, prompt_tokens=1000, completion_tokens=10)


STUDY = """\
environments: [alfworld]
agents: [{agent: vanilla, model: m}]
interface: generate
backend: llm
iterations: 1
tasks_per_iteration: 1
tasks: 1
base_url: URL
"""
ONE = ["--env", "alfworld", "--model", "m", "--base-url", "URL"]
STATION = "tests.align.hybrid.station:SPEC"
HYBRID = [
    "generate-interface", "--env", STATION, *ONE[2:], "--agent", "vanilla", "--backend", "hybrid", "--iterations", "1",
    "--tasks-per-iteration", "1", "--play-tasks", "1",
]  # fmt: skip
COLLECT = ["critic", "collect", *ONE, "--agent", "vanilla", "--tasks", "1", "--candidates", "2"]
PAYING = {
    "evaluate": (["evaluate", *ONE, "--agent", "vanilla", "--tasks", "2"], 60),
    "grid": (["grid", *ONE, "--agent", "vanilla", "--agent", "react", "--interface", "probe", "--tasks", "1"], 60),
    "critic collect": (COLLECT, 30),
    "critic evaluate": (["critic", "evaluate", "--examples", "made", "--judge", "m", *ONE[4:]], 12),
    "critic flywheel": (
        [
            "critic", "flywheel", "--env", "tests.cli.door_models:DOORS", *ONE[2:], "--agent", "vanilla",
            "--tasks", "8", "--test-tasks", "4",
            "--candidates", "2", "--rounds", "1", "--held-out", "0", "--epochs", "1", "--workers", "1",
        ],
        6,
    ),
    "refinement": (
        ["evaluate", *ONE, "--tasks", "1", "--refine-rounds", "1", "--critic", "self", "--temperature", "1"], 60
    ),
    "interface ablate": (["interface", "ablate", "one.py", *ONE, "--agent", "vanilla", "--tasks", "1"], 60),
    "study": (["study", "study.yaml"], 50),
    "generate-interface, in an episode": (HYBRID, 20),
    "generate-interface, at the analyzer": (HYBRID, 30),
    "generate-interface, in the play at its end": (HYBRID, 90),
}  # fmt: skip
"""Commands, and a limit of requests that ends each of them before its end."""


def paid_calls() -> dict[tuple[str, str], int]:
    """Folder and name of each call that was answered by the endpoint -> its requests; none is there twice."""
    files = sorted(Path("run").rglob("calls.jsonl"))
    calls = [(str(file), call) for file in files for call in CallLog(file).read() if not call.cached]
    paid = [((file, call.request), call.requests) for file, call in calls]
    assert len(paid) == len(dict(paid))
    return dict(paid)


def prepared(verb: str, url: str) -> list[str]:
    """The command of a verb, whose files are here."""
    if verb == "study":
        Path("study.yaml").write_text(STUDY.replace("URL", url))
    if verb == "interface ablate":
        shipped = load_interface("alfworld/probe")
        rules = [rule for rule in list_switches(shipped) if not rule.startswith("Before `examine X`")]
        save_interface(without_rules(shipped, rules, "one"), Path(), "one")
    if verb == "critic evaluate":
        assert main([*(word.replace("URL", url) for word in COLLECT), "--turns", "20", "--out", "made"]) == 0
    return [word.replace("URL", url) for word in PAYING[verb][0]]


def with_its_own_figures(verb: str) -> bool:
    """Whether the summary has figures by role: a generation has them by model."""
    return not verb.startswith("generate")


@pytest.mark.long
@pytest.mark.parametrize("verb", PAYING)
def test_every_verb_that_pays_keeps_to_its_limits_and_ends_alike(verb, run):
    """Over all its parts and sessions: status 2 at a limit, nothing paid twice, one total at the end.

    A verdict that is asked for again without probabilities counts as two requests. The flywheel is not played to its
    end, which takes a training.
    """
    limit = PAYING[verb][1]

    def sent() -> int:
        return len(endpoint.requests)

    with serve({"m": answering}) as endpoint:
        command = [*prepared(verb, endpoint.url), "--out", "run"]
        endpoint.requests.clear()
        for more in ([], ["--resume"]):
            status, out, err = run(*command, "--max-requests", str(limit), *more)
            assert "--resume with a larger --max-requests goes on" in out + err, out + err
            assert status == 2
            assert limit - 16 < sent() <= limit
        if verb == "critic flywheel":
            return
        status, out, err = run(*command, "--max-requests", "10000", "--resume")
        assert status == 0, err
        paid = sum(paid_calls().values())
        assert paid == sent() > limit
        words = re.findall(r"(\w+) ([\d,]+) requests?, ([\d,]+) tokens, \$([\d.,]+)", out)
        assert sum(int(requests.replace(",", "")) for _, requests, _, _ in words) == paid, out
        cost = sum(float(dollars.replace(",", "")) for *_, dollars in words)
        assert cost == pytest.approx(len(endpoint.requests) * 0.011, abs=0.0002)
        if with_its_own_figures(verb):
            roles = json.loads(Path("run/summary.json").read_text())["at_endpoints"]
            assert {role for role, *_ in words} == {*roles}
            assert sum(role["requests"] for role in roles.values()) == paid


LIMITS = dict.fromkeys(
    ("max_cost", "max_requests", "max_tokens_total"), test_every_verb_that_pays_keeps_to_its_limits_and_ends_alike
)


@pytest.mark.long
def test_a_study_keeps_to_its_limits_and_takes_no_interface_that_they_cut_short(run):
    with serve({"m": answering}) as endpoint:
        Path("study.yaml").write_text(STUDY.replace("URL", endpoint.url))
        command = ["study", "study.yaml", "--out", "run"]
        status, _, err = run(*command, "--max-cost", "0.56")
        assert status == 2
        assert "--max-cost 0.56 leaves no room for the next request" in err
        assert len(endpoint.requests) * 0.011 <= 0.56
        status, _, err = run(*command, "--max-cost", "100", "--resume")
        assert status == 0, err
        assert sum(paid_calls().values()) == len(endpoint.requests)


@pytest.mark.parametrize("limit", [[], ["--max-requests", "50"]])
def test_what_a_killed_session_was_about_to_be_told_counts_with_the_most_that_it_may_cost(limit, run):
    """The copy of the folder is what a kill leaves while the fifth request is under way, with a limit and without."""
    asked: list[dict[str, Any]] = []

    def look(request: dict[str, Any]) -> Reply:
        asked.append(request)
        if len(asked) == 5:
            shutil.copytree("run", "killed")
        return looking(request)

    with serve({"m": look}) as endpoint:
        command = [*PLAY[:-4], "--model", "m", "--turns", "8", "--workers", "1", "--base-url", endpoint.url, "--out"]
        assert run(*command, "run", *limit)[0] == 0
        assert not Path("run/under_way.jsonl").exists()
        for more in (1, 2):
            before = len(asked)
            status, _, err = run(*command, "killed", "--resume", "--max-requests", str(5 + more))
            assert status == 2
            assert f"{5 + more} requests" in err
            assert len(asked) == before + 1
        status, out, _ = run(*command, "killed", "--resume")
    assert status == 0
    assert re.search(r"agent \d+ requests, at most [\d,]+ tokens, at most \$", out)


def test_the_summary_and_the_screen_have_one_total_for_each_role(run):
    """Also where replies come to nothing: some are withheld, and their episodes are played again."""
    sent = itertools.count(1)

    def reply(request: dict[str, Any]) -> Reply:
        return Reply(None if next(sent) % 7 == 0 else "look", prompt_tokens=1000, completion_tokens=10)

    with serve({"m": reply}) as endpoint:
        command = [*PLAY, "--turns", "5", "--base-url", endpoint.url]
        run(*command)
        status, out, err = run(*command, "--resume")
    assert status == 0, err
    requests, tokens, cost = paid(endpoint)
    assert f"at endpoints: agent {requests} requests, {tokens:,} tokens, ${cost:.4f}\n" in out
    assert out.count("tokens") == 1
    figures = json.loads(Path("run/summary.json").read_text())["at_endpoints"]["agent"]
    assert figures == {
        "requests": requests, "prompt_tokens": requests * 1000, "completion_tokens": requests * 10,
        "cost_usd": pytest.approx(cost), "at_most": False,
    }  # fmt: skip


@pytest.mark.long
def test_local_tokens_are_told_apart_from_those_that_are_paid(run):
    with serve({"m": lambda request: Reply("correct", prompt_tokens=1000, completion_tokens=1)}) as endpoint:
        command = ["evaluate", "--env", "alfworld", "--model", "pocket", "--tasks", "3", "--turns", "9"]
        judged = ["--best-of", "8", "--judge", "m", "--temperature", "1", "--base-url", endpoint.url, "--out", "run"]
        status, out, err = run(*command, *judged)
    assert status == 0, err
    count = len(endpoint.requests)
    assert re.search(rf"at endpoints: judge \d+ requests, {count * 1001:,} tokens, \$", out), out
    assert re.search(r"\nof local models: [\d,]+ tokens\n", out), out
    assert re.search(r"won \d+; judge \$", err), err


def test_a_limit_of_cost_needs_a_price_and_any_limit_an_endpoint(run, monkeypatch):
    monkeypatch.delenv("ALIGN_ECHO_PRICES")
    status, _, err = run(*PLAY, "--base-url", "http://127.0.0.1:9/v1", "--max-cost", "1")
    assert status == 2
    assert "--max-cost needs the price of m" in err
    status, _, err = run(*PLAY[:-4], "--model", "novice", "--max-requests", "5", "--out", "run")
    assert status == 2
    assert "no model of this run is asked at an endpoint" in err
    assert not Path("run").exists()
