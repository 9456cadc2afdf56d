"""Every fault of an endpoint over real connections: what a request for a reply comes to, how often it is sent."""

from __future__ import annotations

import tracemalloc

import pytest

from align_echo.errors import ContextOverflowError, ModelError, UsageError
from align_echo.models.client import RetryPolicy
from align_echo.models.openai_model import CHARACTERS_PER_TOKEN, OpenAICompatibleModel
from align_echo.types import Completion, Message
from tests.hostile_endpoint.faults import AGAIN, FAULTS, TWICE, HostileAnswer
from tests.hostile_endpoint.server import serving

HELLO = (Message(role="user", content="Hello?"),)
KEY = "sk-planted-3f9a77c1"
ATTEMPTS = 3
LIMIT = 16


@pytest.fixture(autouse=True)
def _planted_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("ALIGN_ECHO_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")


def ask(fault: HostileAnswer) -> tuple[Completion | Exception, int]:
    """What comes of one request for a reply, and how often it was sent."""
    with serving(fault.answering) as server:
        model = OpenAICompatibleModel(
            "m",
            base_url=server.url,
            retry=RetryPolicy(attempts=ATTEMPTS),
            wait=lambda seconds: None,
            timeout=0.4 if fault.attempts == TWICE else 60.0,
        )
        try:
            outcome: Completion | Exception = model.complete(HELLO, temperature=0.2, max_tokens=LIMIT)
        except (ModelError, UsageError) as error:
            outcome = error
        if fault.attempts == TWICE:
            server.wait_for(2)  # the client's deadline may pass before the server has looked at its request
        assert all(f"Bearer {KEY}" in headers for headers in server.headers)
        assert all("accept-encoding: identity" in headers.lower() for headers in server.headers)
        return outcome, len(server.requests)


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_comes_to_what_it_should(name: str) -> None:
    fault = FAULTS[name]
    outcome, requests = ask(fault)
    if isinstance(outcome, Completion):
        assert fault.comes_to == "reply"
        assert outcome.text[: len(fault.says)] == fault.says
        assert outcome.usage.prompt_tokens in (None, 12)
        assert outcome.usage.completion_tokens is None, "no answer here tells a number"
        assert len(outcome.text) <= LIMIT * CHARACTERS_PER_TOKEN
        text = outcome.text
    else:
        assert type(outcome).__name__ == fault.comes_to
        text = str(outcome)
        assert fault.says in text
        assert "\n" not in text
        assert len(text) < 600
    assert requests == {AGAIN: ATTEMPTS, TWICE: 2}.get(str(fault.attempts), fault.attempts)
    assert KEY not in text
    assert "hunter22" not in text


def test_a_reply_beyond_the_tokens_asked_for_is_cut_and_says_so() -> None:
    reply, _ = ask(FAULTS["reply of 5 MB"])
    assert isinstance(reply, Completion)
    assert (len(reply.text), reply.finish_reason) == (LIMIT * CHARACTERS_PER_TOKEN, "length")


def test_a_bomb_takes_little_memory() -> None:
    bomb = FAULTS["gzip bomb of 512 MB"]
    ask(bomb)  # which makes it
    tracemalloc.start()
    try:
        ask(bomb)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


def test_what_a_model_wants_is_remembered_only_once_it_answered() -> None:
    outcome, _ = ask(FAULTS["max_tokens too large"])
    assert isinstance(outcome, ModelError)
    assert not isinstance(outcome, ContextOverflowError)
    with serving(FAULTS["refuses max_tokens (gateway)"].answering) as server:
        model = OpenAICompatibleModel("m", base_url=server.url)
        for _ in range(2):
            assert model.complete(HELLO, temperature=0.2).text == "look"
        assert ["max_tokens" in request for request in server.requests] == [True, False, False]
        assert all("temperature" in request for request in server.requests)
