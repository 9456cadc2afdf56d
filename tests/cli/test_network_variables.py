"""Variables of the environment and waits for an endpoint, as whoever runs a command sees them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from align_echo.models.client import RetryPolicy
from tests.hostile_endpoint.faults import refusal, said
from tests.hostile_endpoint.server import Exchange, serving

PLAYED = ("evaluate", "--env", "alfworld", "--agent", "vanilla", "--model", "m", "--tasks", "1")
BAD = {
    "ALL_PROXY": "foo://proxy.example",
    "HTTPS_PROXY": "http://[proxy",
    "SSL_CERT_FILE": "/nonexistent",
    "SSL_CERT_DIR": "/nonexistent",
    "SSLKEYLOGFILE": "/nonexistent/keys",
    "OPENAI_ORG_ID": "a\nb",
    "OPENAI_PROJECT_ID": "é",
    "OPENAI_CUSTOM_HEADERS": "no header",
    "OPENAI_BASE_URL": "127.0.0.1:8000/v1",
    "OPENAI_API_KEY": "a\nb",
    "ALIGN_ECHO_TIMEOUT": "soon",
}
"""Variables that a library reads, each with what it cannot hold."""


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("OPENAI_", "SSL")):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("name", BAD)
def test_a_variable_that_cannot_be_used_is_one_line_before_anything_else(name, run, monkeypatch):
    monkeypatch.setenv(name, BAD[name])
    options = () if name == "OPENAI_BASE_URL" else ("--base-url", "https://models.example/v1")
    status, out, err = run(*PLAYED, *options, "--out", "run")
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert f"${name}" in err
    assert not Path("run").exists()


@pytest.mark.parametrize("name", ["ALL_PROXY", "SSL_CERT_FILE"])
def test_a_retrieval_server_says_the_variable_too_and_so_does_doctor(name, run, monkeypatch):
    monkeypatch.setenv("SEARCHQA_URL", "https://search.example")
    monkeypatch.setenv(name, BAD[name])
    status, out, err = run("evaluate", "--env", "searchqa", "--agent", "expert", "--tasks", "1", "--out", "run")
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert f"${name}" in err
    status, out, _ = run("doctor")
    assert (status, f"${name} names" in out) == (0, True)


def test_the_line_is_on_the_terminal_of_a_command(run, monkeypatch):
    monkeypatch.setattr(RetryPolicy, "pause", lambda self, attempt, after: 0.0)
    noise = refusal("busy \x1b[2J now")

    def answer(exchange: Exchange) -> None:
        exchange.answer(*((noise, "503 Busy") if exchange.number == 1 else (said("look"),)))

    with serving(answer) as server:
        status, _, err = run(*PLAYED, "--base-url", server.url, "--out", "run")
    assert status == 0, err
    assert err.count("waiting 0 s, then attempt 2 of 7 (Ctrl-C stops)\n") == 1
    assert f"align-echo: {server.url}: busy" in err
    assert "\x1b" not in err


def test_a_server_that_cannot_be_reached_ends_a_run_at_once(run, monkeypatch):
    monkeypatch.setattr(RetryPolicy, "pause", lambda self, attempt, after: 0.0)
    with serving(lambda exchange: None) as server:
        gone = server.url
    status, out, err = run(*PLAYED[:-1], "9", "--base-url", gone, "--out", "run")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"align-echo: m at {gone} cannot be reached in 3 attempts: nothing listens")
    assert "Traceback" not in err
