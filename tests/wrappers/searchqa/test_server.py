"""The retrieval server over real HTTP: the protocol, what it refuses, and how its process ends."""

from __future__ import annotations

import http.client
import json
import signal
import socket
from urllib.parse import urlsplit

import pytest

from align_echo.cli.main import main
from align_echo.errors import UsageError
from align_echo.wrappers.searchqa.protocol import LONGEST_QUERY, MOST_BYTES, MOST_QUERIES, MOST_TOPK, make_server
from tests.wrappers.searchqa.servers import in_process


@pytest.fixture
def ask(server):
    """(status, JSON) of a request's body, on one connection."""
    connection = http.client.HTTPConnection(urlsplit(server).netloc)

    def post(body, path="/retrieve", method="POST"):
        connection.request(method, path, body if isinstance(body, bytes) else json.dumps(body))
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    yield post
    connection.close()


def test_every_query_gets_its_best_documents_with_scores(ask, corpus):
    title = corpus.documents[0].title
    status, answer = ask({"queries": [title, "capital"], "topk": 2, "return_scores": True})
    assert status == 200
    first, second = answer["result"]
    assert [len(first), len(second)] == [2, 2]
    assert first[0]["document"]["contents"].startswith(f"{title}\n")
    assert first[0]["score"] >= first[1]["score"] > 0


def test_without_more_said_there_are_three_bare_documents(ask, corpus):
    for request in ({"queries": ["capital"]}, {"queries": ["capital"], "topk": None, "return_scores": False}):
        status, answer = ask(request)
        assert status == 200
        assert [set(document) for document in answer["result"][0]] == [{"contents"}] * 3
    assert ask({"queries": ["qqqq"]}) == (200, {"result": [[]]})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 50_000, "not JSON"),
        ([], "an object"),
        ({}, "list of texts"),
        ({"queries": "x"}, "list of texts"),
        ({"queries": [1]}, "list of texts"),
        ({"queries": ["x"] * (MOST_QUERIES + 1)}, "up to"),
        ({"queries": ["x"], "topk": -1}, "topk"),
        ({"queries": ["x"], "topk": "many"}, "topk"),
        ({"queries": ["x"], "topk": "inf"}, "topk"),
        ({"queries": ["x"], "topk": MOST_TOPK + 1}, "topk"),
        ({"queries": ["x"], "topk": True}, "topk"),
        ({"queries": ["x"], "topk": 2.5}, "topk"),
        ({"queries": ["x"], "return_scores": 1}, "return_scores"),
    ],
)
def test_what_is_no_request_is_refused_in_json_and_the_connection_goes_on(ask, body, message):
    status, answer = ask(body)
    assert (status, list(answer)) == (400, ["error"])
    assert message in answer["error"]
    assert ask({"queries": ["\ud800 capital"]})[0] == 200


@pytest.mark.parametrize(
    "further", [{"topk": 0}, {"topk": "3"}, {"topk": 3.0}, {"topk": None}, {"model": "e5", "k": 1}], ids=str
)
def test_a_trainer_s_request_is_answered_as_its_own_server_does(ask, further):
    plain = ask({"queries": ["capital"], "return_scores": True})
    assert plain[0] == 200
    assert ask({"queries": ["capital"], "return_scores": True, **further}) == plain


def test_a_batch_of_a_trainer_is_answered_whole(ask):
    queries = ["capital"] * 2_560
    queries[7] += " x" * LONGEST_QUERY
    status, answer = ask({"queries": queries, "topk": 1})
    assert (status, len(answer["result"])) == (200, len(queries))
    assert answer["result"][7] == answer["result"][0]
    assert ask({"queries": []}) == (200, {"result": []})


def test_other_paths_methods_and_bodies_without_end_are_refused_in_json(ask, server):
    assert ask({"queries": ["x"]}, path="/search")[0] == 404
    assert ask({}, path="/retrieve", method="GET")[0] == 405
    assert ask({}, path="/retrieve", method="PUT")[0] == 501
    for length in ("", "-1", "1_0", str(MOST_BYTES + 1), "9" * 5000):
        with socket.create_connection(("127.0.0.1", urlsplit(server).port)) as sent:
            sent.sendall(f"POST /retrieve HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
            answer = sent.makefile("rb").read()
            assert answer.split()[1] == b"413", answer
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


@pytest.mark.long
def test_the_process_serves_a_file_until_ctrl_c(folder):
    with in_process("--corpus", str(folder / "corpus.jsonl"), "--port", "0") as (process, address):
        assert address.startswith("http://127.0.0.1:")
        connection = http.client.HTTPConnection(urlsplit(address).netloc)
        connection.request("POST", "/retrieve", json.dumps({"queries": ["Ronda"], "topk": 1}))
        assert "Ronda" in connection.getresponse().read().decode()
        process.send_signal(signal.SIGINT)  # while a connection is open
        process.wait(timeout=120)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
        connection.close()


@pytest.mark.parametrize("port", [70_000, -1])
def test_a_port_that_cannot_be_is_refused(corpus, port):
    with pytest.raises(UsageError, match=rf"^cannot serve on port {port} \(.*0-65535.*\): take another one"):
        make_server(corpus, port)


def test_bad_options_are_one_line(server, tmp_path, capsys):
    assert main(["retrieval-server", "--port", str(urlsplit(server).port)]) == 2
    assert main(["retrieval-server", "--corpus", str(tmp_path / "none.jsonl")]) == 2
    assert main(["retrieval-server", "--host", " "]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3
    assert "--host: the name is empty" in errors[2]
    assert "take another one" in errors[0]
    assert "none.jsonl" in errors[1]
