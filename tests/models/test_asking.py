"""Where and with which key a model is asked, how long it is waited for, and what several threads do when one fails."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from align_echo.base.halting import Halt, on_threads, pause, under
from align_echo.errors import ModelError, UsageError
from align_echo.models.client import PassingFault, RetryPolicy, ask
from align_echo.models.endpoint import TIMEOUT, read_endpoint, resolve_key, resolve_timeout
from align_echo.models.openai_model import OpenAICompatibleModel
from align_echo.types import Message
from tests.hostile_endpoint.faults import FAULTS, said
from tests.hostile_endpoint.server import Exchange, serving

HELLO = (Message(role="user", content="Hello?"),)


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ALIGN_ECHO_API_KEY", "OPENAI_BASE_URL", "ALIGN_ECHO_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)


# ---------------------------------------------------------------- keys, addresses, deadlines


def test_spaces_around_a_key_are_not_part_of_it_and_an_empty_variable_is_none(monkeypatch):
    monkeypatch.setenv("ALIGN_ECHO_API_KEY", " \n")
    monkeypatch.setenv("OPENAI_API_KEY", "\tabc\r\n")
    assert resolve_key(None) == "abc"
    assert resolve_key(" given ") == "given"
    assert read_endpoint("http://h/v1").authorization(None) == "Bearer abc"


def test_an_account_in_the_base_url_is_sent_in_the_place_of_a_key_and_is_not_in_the_url():
    assert read_endpoint("http://me:p%40ss@host:8000/v1/").url == "http://host:8000/v1"
    assert read_endpoint("http://me:p%40ss@host/v1").authorization("key") == "Basic bWU6cEBzcw=="
    assert read_endpoint("http://host/v1").authorization(None) is None


def test_the_deadline_comes_from_the_argument_or_the_variable(monkeypatch):
    assert resolve_timeout(None) == TIMEOUT
    monkeypatch.setenv("ALIGN_ECHO_TIMEOUT", "0.3")
    assert (resolve_timeout(None), resolve_timeout(5)) == (0.3, 5)
    with serving(FAULTS["silent"].answering) as server, pytest.raises(ModelError, match=r"2 attempts.*within 0\.3 s"):
        OpenAICompatibleModel("m", base_url=server.url, wait=lambda seconds: None).complete(HELLO, temperature=0)


@pytest.mark.parametrize("value", ["soon", "0", "-1", "nan", "inf"])
def test_a_deadline_that_is_none_is_refused(value, monkeypatch):
    monkeypatch.setenv("ALIGN_ECHO_TIMEOUT", value)
    with pytest.raises(UsageError, match="must be a number of seconds above 0"):
        OpenAICompatibleModel("m", base_url="http://127.0.0.1:1/v1")


# ---------------------------------------------------------------- how often


def test_what_is_waited_for_is_bounded_by_the_sum_of_all_attempts():
    calls: list[int] = []

    def slow() -> str:
        calls.append(1)
        fault = PassingFault("slow")
        fault.waited = 0.7
        raise fault

    with pytest.raises(ModelError, match="no reply in 3 attempts; the last: slow"):
        ask(slow, RetryPolicy(attempts=7), lambda seconds: None, "m", 2.0)
    assert len(calls) == 3


@pytest.mark.long
def test_waiting_for_a_slot_is_no_waiting_for_the_server():
    """Eight replies of 0.4 s through one slot, under a deadline of 3 s: nothing is given up."""

    def slow(exchange: Exchange) -> None:
        exchange.stall(0.4)
        exchange.answer(said("a"))

    with serving(slow) as server:
        model = OpenAICompatibleModel("m", base_url=server.url, max_concurrency=1, timeout=3.0)
        replies = on_threads(lambda _: model.complete(HELLO, temperature=0), range(8), 8)
    assert [reply.text for reply in replies] == ["a"] * 8


# ---------------------------------------------------------------- on threads


def test_what_one_thread_raises_ends_what_the_others_wait_for():
    everybody = threading.Barrier(3)
    given_up = threading.Semaphore(0)

    def work(number: int) -> None:
        everybody.wait()
        if number == 2:
            raise KeyboardInterrupt
        try:
            pause(600)
        except CancelledError:
            given_up.release()
            raise

    with pytest.raises((KeyboardInterrupt, CancelledError)):
        on_threads(work, range(3), 3)
    assert [given_up.acquire(timeout=60) for _ in range(2)] == [True, True]


def test_a_halt_around_the_threads_ends_them_too():
    halt, waiting = Halt(), threading.Semaphore(0)

    def work(number: int) -> None:
        waiting.release()
        pause(600)

    def stop() -> None:
        for _ in range(2):
            waiting.acquire()
        halt.set()

    threading.Thread(target=stop).start()
    with under(halt), pytest.raises(CancelledError):
        on_threads(work, range(2), 2)
