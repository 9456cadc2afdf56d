"""The page on a port of this machine: there for who asks for it by its address, and new when it is loaded again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from align_echo.errors import UsageError
from align_echo.view.serving import make_viewer
from align_echo.wrappers.serving import QuietServer
from tests.view.episodes import episode, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "run/trajectories/none.jsonl", [episode("x/1")])


@pytest.fixture
def server(file) -> Iterator[QuietServer]:
    with make_viewer([file], 0) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def get(server: QuietServer, path: str = "/", host: str | None = None) -> httpx.Response:
    headers = {"Host": host} if host else {}
    return httpx.get(f"http://127.0.0.1:{server.server_port}{path}", headers=headers, trust_env=False, timeout=60)


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


def test_a_port_that_is_taken_is_said(server, file):
    with pytest.raises(UsageError, match="cannot serve on port"):
        make_viewer([file], server.server_port)
