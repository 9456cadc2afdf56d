"""Keys and passwords, planted in every way that they come in: no command prints one or writes one to any file."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from align_echo.models.client import RetryPolicy
from tests.hostile_endpoint.faults import FAULTS
from tests.hostile_endpoint.server import serving

KEY, OTHER = "sk-planted-3f9a77c1", "sk-another-8be02d64"
PASSWORD, TOKEN = "hunter22/x", base64.b64encode(b"me:hunter22/x").decode()
SECRETS = (KEY, OTHER, PASSWORD, "hunter22%2Fx", TOKEN)
ACCOUNT = "http://me:hunter22%2Fx@"

WAYS = {
    "a key with a line break": ({"OPENAI_API_KEY": f" {KEY}\r\n"}, "http://", f"Bearer {KEY}"),
    "two keys": ({"ALIGN_ECHO_API_KEY": OTHER, "OPENAI_API_KEY": KEY}, "http://", f"Bearer {OTHER}"),
    "a password in --base-url": ({"OPENAI_API_KEY": KEY}, ACCOUNT, f"Basic {TOKEN}"),
    "a password in the variable": ({"OPENAI_BASE_URL": ACCOUNT}, ACCOUNT, f"Basic {TOKEN}"),
}
"""What is in the environment, what the base URL begins with, and what the endpoint is sent."""

PLAYED = ("--env", "alfworld", "--agent", "vanilla", "--model", "m", "--tasks", "1")
COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "headers echoed in a 400": [("evaluate", *PLAYED), ("grid", *PLAYED, "--interface", "probe")],
    "headers echoed in a 500": [("evaluate", *PLAYED), ("doctor",)],
    "the key in the reply": [
        ("evaluate", *PLAYED),
        ("generate-interface", *PLAYED[:-2], "--backend", "llm", "--iterations", "1", "--tasks-per-iteration", "1"),
    ],
    "a redirect": [("evaluate", *PLAYED)],
}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryPolicy, "pause", lambda self, attempt, after: 0.0)


def holding(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("fault", COMMANDS)
@pytest.mark.parametrize("way", WAYS)
def test_no_secret_is_printed_or_written(way, fault, run, monkeypatch):
    variables, begin, sent = WAYS[way]
    with serving(FAULTS[fault].answering) as server:
        url = server.url.replace("http://", begin)
        for name, value in variables.items():
            monkeypatch.setenv(name, url if name == "OPENAI_BASE_URL" else value)
        options = () if "OPENAI_BASE_URL" in variables else ("--base-url", url)
        for number, command in enumerate(COMMANDS[fault]):
            more = () if command == ("doctor",) else (*options, "--out", f"run{number}")
            _, out, err = run(*command, *more)
            assert holding(out + err) == []
            assert "Traceback" not in err
        assert any(f"uthorization: {sent}\n" in headers.replace("\r", "") for headers in server.headers)
    files = [file for file in Path().rglob("*") if file.is_file()]
    assert any(file.name == "config.json" for file in files) or fault == "a redirect"
    assert [file for file in files if holding(file.read_text())] == []


BAD_KEYS = {"a line break inside": f"{KEY[:8]}\n{KEY[8:]}", "not ASCII": f"{KEY}é", "a space inside": f"Bearer {KEY}"}


@pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS)
def test_a_key_that_cannot_be_sent_is_one_line_that_does_not_tell_it(key, run, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    status, out, err = run("evaluate", *PLAYED, "--base-url", "http://127.0.0.1:1/v1", "--out", "run")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "the key in $OPENAI_API_KEY holds a space, a line break or a letter that no key has" in err
    assert KEY[8:] not in err
    assert not Path("run").exists()
    status, out, _ = run("doctor")
    assert status == 0
    assert "$OPENAI_API_KEY cannot be used" in out
    assert KEY[8:] not in out


BAD_URLS = {
    "no scheme": "me:hunter22@127.0.0.1:1/v1",
    "a slash in the password": "http://me:hun/ter22@127.0.0.1:1/v1",
    "a line break": "http://me:hunter22@127.0.0.1:1/v\n1",
    "a port that is none": "http://me:hunter22@127.0.0.1:x/v1",
    "no host": "http://me:hunter22@/v1",
}


@pytest.mark.parametrize("url", BAD_URLS.values(), ids=BAD_URLS)
def test_a_base_url_that_cannot_be_read_is_one_line_that_does_not_tell_its_password(url, run, monkeypatch):
    status, out, err = run("evaluate", *PLAYED, "--base-url", url, "--out", "run")
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert "the base URL" in err
    assert "ter22" not in err
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    assert "ter22" not in run("doctor")[1]


def test_a_traceback_holds_no_secret():
    code = (
        "from align_echo.cli.output import redact_tracebacks; redact_tracebacks()\n"
        f"url = 'http://me:{'hunter'}22@host'\nraise ValueError(url + ' {KEY}')"
    )
    variables = {**os.environ, "OPENAI_API_KEY": KEY, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 1
    assert "ValueError: http://[redacted]@host [redacted]" in done.stderr
