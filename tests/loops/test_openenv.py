"""An OpenEnv server: its episodes are the environment's own, clients do not meet, and what is hostile is told so."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("openenv", reason="the extra openenv is not installed")

import httpx
import uvicorn
from openenv.core import GenericEnvClient
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from align_echo.base.jsonl import JsonlFile
from align_echo.loops.driving import LEFT, TaskPanel
from align_echo.loops.openenv import LOCAL, MOST_BYTES, EpisodeClient, TextAction, make_app
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import environment
from tests.play import WINNING
from tests.room_env import TASK_IDS, RoomEnv, instead_of

ROOT = Path(__file__).parents[2]
MUG, BOOK = TASK_IDS
closed = threading.Semaphore(0)
"""Counts the environments that were closed."""


class Rooms(RoomEnv):
    """Says when it is closed, and breaks where a test asks for it."""

    def _act(self, action: str):
        if action == "break":
            raise OSError("pipe closed")
        return super()._act(action)

    def close(self) -> None:
        super().close()
        closed.release()


@contextmanager
def serving(sessions: int = 4, record: Path | None = None) -> Iterator[str]:
    """A server of the two rooms on a free port; its address."""
    panel = TaskPanel.build(instead_of(environment("alfworld"), Rooms), split="valid_unseen")
    listener = socket.create_server(("127.0.0.1", 0))
    app = make_app(panel, sessions=sessions, hosts=LOCAL, record=JsonlFile(record) if record else None)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws_max_size=MOST_BYTES))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as address:
        yield address


def test_two_clients_play_at_once_and_do_not_meet(url):
    with EpisodeClient(base_url=url).sync() as one, EpisodeClient(base_url=url).sync() as other:
        begun = one.reset(task=MUG, episode_id="mine")
        assert (begun.done, begun.reward, begun.observation.goal) == (False, None, "bring the mug 1 to the study")
        assert "look" in begun.observation.action_format
        other.reset(index=1)
        rewards = []
        for action in WINNING:
            result = one.step(TextAction(action=action))
            assert other.step(TextAction(action="look")).observation.text == "You are in the kitchen. You see a mug 1."
            rewards.append(result.reward)
        assert (rewards, result.done) == ([0.0, 0.0, 1.0], True)
        end = result.observation
        assert (end.won, end.score, end.terminated, end.truncated) == (True, 1.0, True, False)
        state = one.state()
        assert (state.episode_id, state.step_count, state.task_id) == ("mine", 3, MUG)
        assert (state.split, state.interface, state.score) == ("valid_unseen", "none", 1.0)
        assert (other.state().task_id, other.state().step_count) == (BOOK, 3)


def test_an_episode_without_an_end_is_truncated(url):
    with EpisodeClient(base_url=url).sync() as client:
        result = client.reset(task=MUG)
        count = 0
        while not result.done:
            result = client.step(TextAction(action="look"))
            count += 1
        assert (count, result.observation.terminated, result.observation.truncated) == (20, False, True)


def test_a_seed_draws_the_same_task_again(url):
    with GenericEnvClient(base_url=url).sync() as client:
        drawn = [client.reset(seed=seed).observation["task_id"] for seed in [*range(8), *range(8)]]
        assert drawn[:8] == drawn[8:]
        assert {*drawn} == {MUG, BOOK}
        assert client.reset().observation["task_id"] in TASK_IDS


def step(action: object) -> dict[str, object]:
    return {"type": "step", "data": {"action": action}}


def reset(**asked: object) -> dict[str, object]:
    return {"type": "reset", "data": asked}


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (step(5), "an action is a text, not a number"),
        (step(None), "not nothing"),
        (step("x" * 100_001), "at most 100,000 are taken"),
        (step("\ud800"), "half of a character"),
        (reset(task="room/none"), f"its first is '{MUG}'"),
        (reset(task=["room"]), "by its id"),
        (reset(taks=MUG), "not taks"),
        (reset(index=2), "from 0 to 1"),
        (reset(index=True), "from 0 to 1"),
        (reset(seed="a"), "a seed is a whole number"),
        (reset(split="train"), "valid_unseen of alfworld and no other"),
    ],
)
def test_what_is_hostile_is_refused_in_words_and_the_episode_goes_on(url, sent, said):
    with connect(url.replace("http", "ws") + "/ws") as client:

        def asked(message: dict[str, object]) -> dict[str, object]:
            client.send(json.dumps(message))
            answer = json.loads(client.recv())
            assert isinstance(answer, dict)
            return answer

        asked(reset(task=MUG))
        answer = asked(sent)
        assert answer["type"] == "error"
        assert said in str(answer["data"])
        assert len(str(answer)) < 600
        rewards = [asked(step(action))["data"] for action in WINNING]
        assert [reward["reward"] for reward in rewards if isinstance(reward, dict)] == [0.0, 0.0, 1.0]


def test_a_message_that_is_too_long_ends_the_connection(url):
    with connect(url.replace("http", "ws") + "/ws") as client:
        client.send("x" * (MOST_BYTES + 1))
        with pytest.raises(ConnectionClosed, match="1009"):
            client.recv()


def test_an_environment_that_breaks_is_an_error_and_no_reward(url):
    with EpisodeClient(base_url=url).sync() as client:
        client.reset(task=MUG)
        with pytest.raises(RuntimeError, match="pipe closed"):
            client.step(TextAction(action="break"))
        with pytest.raises(RuntimeError, match="over"):
            client.step(TextAction(action="look"))
        assert client.reset(task=MUG).observation.text


def test_clients_are_bounded_and_one_that_vanishes_is_closed_and_makes_room(tmp_path):
    file = tmp_path / "played.jsonl"
    with serving(sessions=1, record=file) as url:
        client = EpisodeClient(base_url=url).sync().connect()
        client.reset(task=MUG)
        client.step(TextAction(action="look"))
        with EpisodeClient(base_url=url).sync() as second, pytest.raises(RuntimeError, match="1/1 sessions active"):
            second.reset(task=MUG)
        while closed.acquire(blocking=False):
            pass
        client._loop.call_soon_threadsafe(client.async_client._ws.transport.abort)
        assert closed.acquire(timeout=30)
        client._stop_loop()
        fault = JsonlFile(file).read(Trajectory)[0].fault
        assert fault
        assert fault.message == LEFT
        with EpisodeClient(base_url=url).sync() as third:
            assert third.reset(task=MUG).observation.text


def test_the_tasks_are_told_by_openenvs_own_api(url):
    assert httpx.get(f"{url}/health").json() == {"status": "healthy"}
    assert httpx.get(f"{url}/metadata").json()["name"] == "alfworld"
    assert httpx.get(f"{url}/schema").json()["action"]["properties"]["action"]["type"] == "string"
    assert httpx.get(f"{url}/alfworld/splits").json()[0]["name"] == "valid_unseen"

    def asked(what: str, **body: object) -> httpx.Response:
        return httpx.post(f"{url}/alfworld/{what}", json={"split": "valid_unseen", **body})

    assert asked("num_tasks").json() == {"num_tasks": 2}
    assert [task["id"] for task in asked("tasks").json()["tasks"]] == [MUG, BOOK]
    assert asked("task", index=1).json()["task"]["id"] == BOOK
    assert asked("task", index=2).status_code == asked("task", index=-1).status_code == 400
    assert "no other" in asked("tasks", split="train").json()["detail"]


def test_what_http_cannot_do_is_said(url):
    refused = httpx.post(f"{url}/step", json={"action": {"action": "look"}})
    assert (refused.status_code, "WebSocket" in refused.json()["detail"]) == (400, True)
    refused = httpx.post(f"{url}/reset", json={"task": "room/none"})
    assert (refused.status_code, MUG in refused.json()["detail"]) == (400, True)


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
def test_a_strangers_page_is_turned_away(url, headers):
    assert httpx.get(f"{url}/health", headers=headers).status_code == 403


@pytest.mark.parametrize("body", [b" " * (MOST_BYTES + 1), iter([b"{}"])], ids=["too long", "of unknown length"])
def test_a_body_without_bounds_is_turned_away(url, body):
    refused = httpx.post(f"{url}/reset", content=body)
    assert (refused.status_code, "at most 2,000,000 bytes" in refused.json()["detail"]) == (403, True)


def test_a_strangers_page_opens_no_connection(url):
    with pytest.raises(InvalidStatus, match="403"), connect(url.replace("http", "ws") + "/ws", origin="http://evil"):
        pass


def test_the_idle_are_looked_for():
    app = make_app(TaskPanel.build(instead_of(environment("alfworld"))), sessions=1)
    names = [getattr(handler, "__name__", "") for handler in app.router.on_startup]
    assert "_start_session_reaper" in names


def command(*arguments: str) -> subprocess.Popen[str]:
    line = [sys.executable, str(ROOT / "align_echo_command.py"), "serve", "openenv", "--env", "alfworld", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_the_command_serves_until_ctrl_c_and_a_taken_port_is_said():
    with command("--port", "0", "--split", "valid_unseen", "--interface", "probe") as server:
        assert server.stdout
        line = server.stdout.readline()
        assert line.startswith("134 valid_unseen tasks of alfworld under alfworld/probe@")
        url = line.partition(": ")[2].partition(";")[0]
        with command("--port", url.rpartition(":")[2]) as second:
            errors = second.communicate(timeout=120)[1]
        assert (second.returncode, "in use" in errors, errors.count("\n")) == (2, True, 1)
        with EpisodeClient(base_url=url).sync() as client:
            assert client.reset(index=0).observation.rules
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=60) == 130


