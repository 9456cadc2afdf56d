"""Searching at a server: the same answers as here, and every way in which a server can fail is the engine's fault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

import align_echo
from align_echo.agents.privileged import expert
from align_echo.cli.main import main
from align_echo.errors import EngineError, UsageError
from align_echo.rollout.batches import run_episode
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.searchqa.client import MOST_BYTES, _client, request_url, search_at
from align_echo.wrappers.searchqa.subjects import Document
from tests.conformance.subjects import actions_of, play, play_expert, raw, start
from tests.wrappers.searchqa.servers import answering, in_process

TASK = "test/bridge-2/0005"


def reply(body: bytes, head: bytes = b"200 OK", extra: bytes = b"") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (head, len(body), extra, body)


def test_a_server_answers_as_the_index_in_this_process_does(env, server, monkeypatch):
    steps = play_expert(env, TASK)
    monkeypatch.setenv("SEARCHQA_URL", server)
    assert play_expert(raw(environment("searchqa")), TASK) == steps
    assert f"searched at {server}/retrieve" in environment("searchqa").games(None)


@pytest.fixture
def fresh_clients() -> Iterator[None]:
    """Connections that were not opened before, and are not used after: a client reads once which proxy there is."""
    _client.cache_clear()
    yield
    _client.cache_clear()


@pytest.mark.usefixtures("fresh_clients")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST"])
def test_a_server_on_this_machine_is_asked_past_any_proxy(server, corpus, host, monkeypatch):
    address = request_url(server.replace("127.0.0.1", host))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert search_at(address, corpus.documents[0].title, 1) == [corpus.documents[0]]


@pytest.mark.usefixtures("fresh_clients")
def test_a_server_elsewhere_is_asked_through_the_proxy(monkeypatch):
    with answering(reply(json.dumps({"result": [[{"contents": "A\nb"}]]}).encode())) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.removesuffix("/retrieve"))
        assert search_at("http://search.example/retrieve", "x", 3) == [Document("A", "b")]


@pytest.mark.long
def test_many_threads_search_one_server_at_once(server, corpus):
    titles = [document.title for document in corpus.documents[:200]]
    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(lambda title: search_at(request_url(server), title, 3), titles))
    assert [[document for document, _ in corpus.search(title, 3)] for title in titles] == results


@pytest.mark.parametrize("query", ["\ud800", "\x00", '"', "中", "x" * 1000])
def test_any_query_can_be_sent(server, query):
    assert search_at(request_url(server), query, 3) == []


FAILURES = {
    "status 503: busy": reply(b"busy", b"503 Down"),
    "status 302": reply(b"", b"302 Found", b"Location: http://127.0.0.1:9/\r\n"),
    "no whole reply within": b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{.",
    "cannot be asked": b"",
    "speak the protocol: Expecting": reply(b"<html>"),
    'no "result"': reply(json.dumps({"result": [[], []]}).encode()),
    'no "contents"': reply(json.dumps({"result": [[{"document": {"contents": 1}}]]}).encode()),
    "nested too deeply": reply(b"[" * 200_000),
    "longer than": reply(b" " * (MOST_BYTES + 1)),
    "packs its replies": reply(b"x", extra=b"Content-Encoding: gzip\r\n"),
}


@pytest.mark.parametrize("message", FAILURES)
def test_a_server_that_fails_is_named_in_one_line(message):
    with answering(FAILURES[message]) as address, pytest.raises(EngineError) as fault:
        search_at(address, "x", 3, deadline=2 if "within" in message else 30)
    assert message in str(fault.value)
    assert address in str(fault.value)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    "result", [[{"contents": '"A"\nb c'}], [{"document": {"contents": "A\nb\nc"}, "score": 1.0}] * 9]
)
def test_documents_are_read_with_scores_and_without_and_never_more_than_were_asked_for(result):
    with answering(reply(json.dumps({"result": [result]}).encode())) as address:
        documents = search_at(address, "x", 3)
    assert {(document.title, document.text) for document in documents} == {("A", "b c")}
    assert len(documents) <= 3


@pytest.mark.long
def test_a_server_that_dies_in_the_middle_costs_the_episode_and_not_the_next_one(monkeypatch):
    with in_process("--port", "0") as (process, address):
        monkeypatch.setenv("SEARCHQA_URL", address)
        env = raw(environment("searchqa"))
        searches = actions_of(play_expert(env, TASK))
        start(env, TASK)
        play(env, searches[:1])
        process.kill()
        process.wait()
        with pytest.raises(EngineError, match="retrieval server"):
            play(env, searches[1:])
    follower = expert(lambda: raw(environment("searchqa")))
    lost = run_episode(env, follower, TASK, split="test")
    assert lost.fault is not None
    assert (lost.fault.source, lost.fault.error, lost.won) == ("environment", "EngineError", False)
    with in_process("--port", str(urlsplit(address).port)) as (process, _):  # it is back
        assert run_episode(env, follower, TASK, split="test").won
        process.terminate()  # while a connection is open
        process.wait(timeout=120)
    monkeypatch.delenv("SEARCHQA_URL")
    assert play_expert(raw(environment("searchqa")), TASK)[-1].score == 1.0


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/retrieve"),
        (" https://search.example/api/ ", "https://search.example/api/retrieve"),
        ("http://[::1]:8000/retrieve", "http://[::1]:8000/retrieve"),
    ],
)
def test_the_address_is_a_servers_or_that_of_its_path(given, address):
    assert request_url(given) == address


@pytest.mark.parametrize(
    "given", ["127.0.0.1:8000", "ftp://x", "http://", "http://x:99999", "http://x:0", "http://x/?a=1", "http://a b"]
)
def test_what_is_no_address_is_refused(given, monkeypatch, capsys):
    monkeypatch.setenv("SEARCHQA_URL", given)
    with pytest.raises(UsageError, match="no address of a retrieval server"):
        align_echo.make("searchqa", split="test")
    assert main(["doctor"]) == 0
    assert "$SEARCHQA_URL: cannot be used" in capsys.readouterr().out


def test_a_password_in_the_address_is_refused_and_never_told(monkeypatch, capsys):
    monkeypatch.setenv("SEARCHQA_URL", "http://me:very-secret@127.0.0.1:8000")
    assert main(["evaluate", "--env", "searchqa", "--agent", "random", "--tasks", "1"]) == 2
    assert main(["doctor"]) == 0
    captured = capsys.readouterr()
    assert "no user and no password" in captured.err
    assert "very-secret" not in captured.out + captured.err
