"""The page on a port of this machine: there for who asks for it by its address, and new when it is loaded again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from align_echo.errors import UsageError
from align_echo.report.view.serving import ViewerServer, make_viewer
from tests.report.view.episodes import episode, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "run/trajectories/none.jsonl", [episode("x/1")])


@pytest.fixture
def server(file) -> Iterator[ViewerServer]:
    with make_viewer([file], 0) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def ask(server: ViewerServer, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    """What is answered to a request with no more than that."""
    address = f"http://127.0.0.1:{server.server_port}{path}"
    return httpx.request(method, address, headers=headers, trust_env=False, timeout=60)


def get(server: ViewerServer, path: str = "/", host: str | None = None) -> httpx.Response:
    """What is answered to who knows the address."""
    token = server.address.partition("?")[2]
    return ask(server, f"{path}?{token}", **({"Host": host} if host else {}))


def test_the_page_has_what_came_since(server, file):
    assert "x/1" in get(server).text
    assert "x/2" not in get(server).text
    write(file, [episode("x/2")])
    answer = get(server)
    assert "x/2" in answer.text
    assert answer.headers["Cache-Control"] == "no-store"


def test_files_that_are_gone_are_said(server, file):
    file.unlink()
    answer = get(server)
    assert answer.status_code == 500
    assert answer.text.startswith("there is no ")


def test_nothing_else_and_no_other_name_is_answered(server):
    assert get(server, "/none.jsonl").status_code == 404
    assert get(server, host="evil.example:80").status_code == 403
    assert get(server, host=f"localhost:{server.server_port}").status_code == 200
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.long
def test_without_the_token_nothing_is_answered(server):
    token = server.address.partition("ticket=")[2]
    assert httpx.get(server.address, trust_env=False, timeout=60).status_code == 200
    assert len(token) > 40
    wrong = ["", "?", "?ticket=", "?ticket=" + token[:-1], f"?ticket={token}x", f"?Ticket={token}", "?ticket=%ff%00"]
    wrong += [f"?ticket=x&ticket={token}", "?ticket=\u017f", f"?{token}", f"#ticket={token}"]
    for path in ("/", "/index.html", "/none.jsonl", "/../run", "/favicon.ico", "//[", "/data"):
        for query in wrong:
            answer = ask(server, path + query)
            assert answer.status_code == 403, path + query
            assert token not in answer.text + str(answer.headers)
            assert "x/1" not in answer.text
    for headers in ({"Cookie": f"ticket={token}"}, {"Authorization": f"token {token}"}, {"Referer": server.address}):
        assert ask(server, "/", **headers).status_code == 403
    for method in ("HEAD", "POST", "OPTIONS", "PUT"):
        assert "x/1" not in ask(server, "/", method).text
    assert get(server, host="evil.example:80").status_code == 403, "with the token, by another name"


def test_each_server_has_a_token_of_its_own_and_leaves_no_trace_of_it(server, file):
    with make_viewer([file], 0) as other:
        mine, theirs = (made.address.partition("?")[2] for made in (server, other))
    assert mine != theirs
    assert ask(server, f"/?{theirs}").status_code == 403
    answer = get(server)
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "Set-Cookie" not in answer.headers
    assert mine.partition("=")[2] not in answer.text


def test_a_port_that_is_taken_is_said(server, file):
    with pytest.raises(UsageError, match="cannot serve on port"):
        make_viewer([file], server.server_port)
