"""What is said while an endpoint keeps a request waiting, and what is not waited for at all."""

from __future__ import annotations

import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from align_echo.base.network import LOGGER
from align_echo.errors import EngineError, ModelError, UsageError
from align_echo.models.client import BRIEF, EndpointClient, RetryPolicy
from align_echo.models.openai_model import OpenAICompatibleModel
from align_echo.types import Message
from align_echo.wrappers.searchqa.client import request_url, search_at
from tests.hostile_endpoint.faults import refusal, said
from tests.hostile_endpoint.server import Exchange, serving

HELLO = (Message(role="user", content="Hello?"),)
CERTIFICATE = Path(__file__).parents[1] / "data" / "localhost.pem"
"""A key and its own certificate, for localhost and 127.0.0.1."""


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("OPENAI_", "SSL_CERT")) or name == "ALIGN_ECHO_API_KEY":
            monkeypatch.delenv(name)


def asked(url: str, policy: RetryPolicy | None = None) -> tuple[str | Exception, list[float]]:
    """The reply of a model, or what it raised, and the seconds of each pause between its attempts."""
    pauses: list[float] = []
    try:
        model = OpenAICompatibleModel("m", base_url=url, retry=policy, wait=pauses.append)
        return model.complete(HELLO, temperature=0).text, pauses
    except (ModelError, UsageError) as error:
        return error, pauses


@contextmanager
def accepting(handle: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port of this machine whose connections are handled one by one."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with suppress(OSError), connection:
                        handle(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def serving_tls() -> Iterator[str]:
    """A server that answers "look" by TLS, under a certificate that nobody vouches for; its base URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    body = said("look")
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def handle(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            request = b""
            while not request.endswith(b"}"):  # what is not read when a connection closes resets it
                request += secure.recv(65_536)
            secure.sendall(answer)

    with accepting(handle) as port:
        yield f"https://localhost:{port}/v1"


def refuse_tls(connection: socket.socket) -> None:
    """Answers as a server without TLS does that is sent what it cannot read."""
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


# ---------------------------------------------------------------- pauses


def test_the_first_pause_is_said_with_its_length_and_its_cause(caplog):
    body = refusal("come back tomorrow")
    with serving(lambda exchange: exchange.answer(body, "429 Slow", "Retry-After: 86400\r\n")) as server:
        outcome, pauses = asked(server.url)
    assert isinstance(outcome, ModelError)
    assert pauses == [300.0] * 6
    (line,) = caplog.messages
    assert line.startswith(f"{server.url}: come back tomorrow, to be asked again in 86,400 s; ")
    assert "waiting 300 s, then attempt 2 of 7 (Ctrl-C stops)" in line


def test_longer_pauses_are_said_again_and_others_are_not(caplog):
    asks_for = {1: "1", 2: "2", 3: "30", 4: "1"}

    def answer(exchange: Exchange) -> None:
        if after := asks_for.get(exchange.number):
            exchange.answer(refusal("busy"), "503 Busy", f"Retry-After: {after}\r\n")
        else:
            exchange.answer(said("look"))

    with serving(answer) as server:
        assert asked(server.url) == ("look", [1.0, 2.0, 30.0, 1.0])
    assert [line.partition("waiting ")[2].partition(",")[0] for line in caplog.messages] == ["1 s", "30 s"]


# ---------------------------------------------------------------- answers that do not come


class Released(logging.Handler):
    """Lets something go as soon as a line is said."""

    def __init__(self, release: Callable[[], object]) -> None:
        super().__init__()
        self._go = release

    def emit(self, record: logging.LogRecord) -> None:
        self._go()


@contextmanager
def when_said(release: Callable[[], object]) -> Iterator[None]:
    handler = Released(release)
    LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


@pytest.mark.parametrize("first", [b"", HEAD + b"{"], ids=["silent", "half a body"])
def test_an_answer_that_does_not_come_is_said_while_it_is_waited_for(first, caplog):
    """The server goes on once the line is said: without it, nothing would ever come."""
    heard = threading.Event()

    def answer(exchange: Exchange) -> None:
        exchange.send(first)
        heard.wait()
        exchange.send((HEAD + b"{}")[len(first) :])

    with serving(answer) as server, when_said(heard.set):
        client = EndpointClient(server.url, authorization=None, timeout=600.0, quiet=0.01)
        assert client.post(f"{server.url}/x", {}) == "{}"
        assert client.post(f"{server.url}/x", {}) == "{}"
    assert caplog.messages == [f"{server.url}: no whole answer after 0 s; given up after 600 s (Ctrl-C stops)"]


def test_a_search_that_does_not_come_is_said_while_it_is_waited_for(caplog):
    heard = threading.Event()

    def answer(exchange: Exchange) -> None:
        heard.wait()
        exchange.answer(b'{"result": [[]]}')

    with serving(answer) as server, when_said(heard.set):
        assert search_at(request_url(server.url), "tea", 3, quiet=0.01) == []
    waits = "no whole answer after 0 s; given up after 30 s (Ctrl-C stops)"
    assert caplog.messages == [f"the retrieval server at {server.url}/retrieve: {waits}"]


def test_an_answer_that_comes_is_not_spoken_of(caplog):
    with serving(lambda exchange: exchange.answer(said("look"))) as server:
        assert asked(server.url) == ("look", [])
    assert caplog.messages == []


# ---------------------------------------------------------------- what is hopeless


def test_a_certificate_that_nobody_vouches_for_ends_it_at_once(monkeypatch, caplog):
    with serving_tls() as url:
        outcome, pauses = asked(url)
        assert isinstance(outcome, UsageError)
        assert str(outcome).startswith(f"{url} cannot be reached: its certificate is not trusted (self-signed")
        assert "let $SSL_CERT_FILE name a file with the authority's certificate" in str(outcome)
        with pytest.raises(UsageError, match="its certificate is not trusted"):
            search_at(request_url(url), "tea", 3)
        assert (pauses, caplog.messages) == ([], [])
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert asked(url) == ("look", [])
        with pytest.raises(EngineError, match="does not speak the protocol"):  # but it is reached
            search_at(request_url(url), "tea", 3)


def test_a_server_without_tls_ends_it_at_once():
    with accepting(refuse_tls) as port:
        outcome, pauses = asked(f"https://127.0.0.1:{port}/v1")
    assert isinstance(outcome, UsageError)
    assert "no TLS comes about" in str(outcome)
    assert "its address begins with http://" in str(outcome)
    assert pauses == []


@pytest.mark.parametrize(("code", "attempts"), [(socket.EAI_NONAME, 1), (socket.EAI_AGAIN, BRIEF)])
def test_a_host_without_an_address_is_not_waited_for(code, attempts, monkeypatch):
    lookups: list[str] = []

    def look_up(host: str | bytes, *rest: object, **options: object) -> object:
        lookups.append(host.decode() if isinstance(host, bytes) else host)
        raise socket.gaierror(code, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    outcome, pauses = asked("http://models.example/v1")
    assert isinstance(outcome, UsageError)
    assert "the host's name" in str(outcome)
    assert (lookups, len(pauses)) == (["models.example"] * attempts, attempts - 1)
    with pytest.raises(EngineError if attempts > 1 else UsageError, match="the host's name"):
        search_at(request_url("http://search.example"), "tea", 3)


def test_a_port_that_nobody_listens_at_is_tried_briefly(caplog):
    url = f"http://127.0.0.1:{free_port()}/v1"
    outcome, pauses = asked(url)
    assert isinstance(outcome, UsageError)
    assert str(outcome) == (
        f"m at {url} cannot be reached in 3 attempts: nothing listens there (connection refused); start it, or correct "
        "its address"
    )
    assert len(pauses) == BRIEF - 1
    assert len(caplog.messages) == 1


def test_a_server_that_once_answered_is_waited_for_when_it_is_away():
    with serving(lambda exchange: exchange.answer(said("look"), headers="Connection: close\r\n")) as server:
        pauses: list[float] = []
        model = OpenAICompatibleModel("m", base_url=server.url, wait=pauses.append)
        assert model.complete(HELLO, temperature=0).text == "look"
    with pytest.raises(ModelError, match="no reply in 7 attempts; the last: nothing listens there"):
        model.complete(HELLO, temperature=0)
    assert len(pauses) == 6


STUCK = """
import os, socket, sys
look_up = socket.getaddrinfo
def stuck(host, *rest, **options):
    if host in ("models.example", b"models.example"):
        os.write(1, b"asked\\n")
        os.read(0, 1)
    return look_up(host, *rest, **options)
socket.getaddrinfo = stuck
import align_echo_command
sys.argv[1:] = "evaluate --env alfworld --agent vanilla --model m --tasks 1 --base-url http://models.example/v1".split()
align_echo_command.run()
"""


@pytest.mark.long
def test_a_stop_waits_for_no_look_up_of_a_name(tmp_path):
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", STUCK]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path, env=variables
    ) as process:
        try:
            assert process.stdout is not None
            while process.stdout.readline() != "asked\n":
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()
