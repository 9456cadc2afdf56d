"""An MCP server: a client lists, resets and acts; what cannot be done is told in words and costs no turn."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("mcp.server.mcpserver", reason="the extra mcp is not installed")

from mcp import Client

from align_echo.base.jsonl import JsonlFile
from align_echo.loops.driving import LEFT, TaskPanel
from align_echo.loops.mcp import make_server
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import environment
from tests.play import WINNING
from tests.room_env import TASK_IDS, RoomEnv, instead_of

ROOT = Path(__file__).parents[2]
MUG, BOOK = TASK_IDS
closed: list[RoomEnv] = []


class Rooms(RoomEnv):
    """Keeps a list of those that were closed, and breaks where a test asks for it."""

    def _act(self, action: str):
        if action == "break":
            raise OSError("pipe closed")
        return super()._act(action)

    def close(self) -> None:
        closed.append(self)


def answers(*calls: tuple[str, dict[str, object]], record: Path | None = None) -> list[tuple[bool, str]]:
    """What a client is answered, call by call: whether it is an error, and the text."""
    panel = TaskPanel.build(instead_of(environment("alfworld"), Rooms))
    server = make_server(panel, JsonlFile(record) if record else None)

    async def asked() -> list[tuple[bool, str]]:
        async with Client(server) as client:
            results = [await client.call_tool(tool, arguments) for tool, arguments in calls]
        return [(result.is_error, result.content[0].text) for result in results]

    return asyncio.run(asked())


def act(action: object) -> tuple[str, dict[str, object]]:
    return "act", {"action": action}


RESET: tuple[str, dict[str, object]] = ("reset", {"task": MUG})


def test_an_episode_is_played_to_its_end_and_the_environment_closed(tmp_path):
    file = tmp_path / "played.jsonl"
    closed.clear()
    listed, begun, *acted = answers(("list_tasks", {}), RESET, *map(act, WINNING), record=file)
    assert listed == (False, f"2 tasks; from number 0 on:\n{MUG}\n{BOOK}")
    assert "Your task: bring the mug 1 to the study" in begun[1]
    assert acted[0] == (False, "You take the mug 1.")
    end = "The episode is over: it was won; its score is 1 of 1."
    assert acted[2] == (False, f"You put down the mug 1.\n{end}")
    (episode,) = JsonlFile(file).read(Trajectory)
    assert (episode.agent, episode.won, len(closed)) == ("mcp", True, 1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (act("x" * 100_001), "at most 100,000 are taken"),
        (act(5), "valid string"),
        (("act", {}), "required"),
        (("rm", {}), "Unknown tool"),
        (("reset", {"task": "room/none"}), f"its first is '{MUG}'"),
    ],
)
def test_what_cannot_be_done_is_told_and_the_episode_goes_on(call, said):
    before, _, refused, *acted = answers(act("look"), RESET, call, *map(act, WINNING))
    assert before[0]
    assert "reset to a task first" in before[1]
    assert refused[0]
    assert said in refused[1]
    assert "it was won" in acted[2][1]


def test_an_environment_that_breaks_is_told_and_is_no_loss(tmp_path):
    file = tmp_path / "played.jsonl"
    _, _, broken, over, again, _ = answers(
        RESET, act("look"), act("break"), act("look"), RESET, act("look"), record=file
    )
    assert broken[0]
    assert "pipe closed" in broken[1]
    assert over[0]
    assert "over" in over[1]
    assert not again[0]
    first, left = [episode.fault for episode in JsonlFile(file).read(Trajectory)]
    assert first
    assert left
    assert (first.source, left.message) == ("environment", LEFT)


def test_tasks_are_listed_in_bounded_parts():
    first, beyond, negative = answers(
        ("list_tasks", {"start": 1, "count": 10**9}),
        ("list_tasks", {"start": 10**9}),
        ("list_tasks", {"start": -5, "count": -1}),
    )
    assert first[1] == f"2 tasks; from number 1 on:\n{BOOK}"
    assert beyond[1] == f"2 tasks; from number {10**9} on:"
    assert negative[1] == f"2 tasks; from number 0 on:\n{MUG}"


class Narrow(RoomEnv):
    """Notes how many are in it at once, and lets other threads go first."""

    inside = 0
    most = 0

    def _act(self, action: str):
        Narrow.inside += 1
        Narrow.most = max(Narrow.most, Narrow.inside)
        for _ in range(100):
            time.sleep(0)
        Narrow.inside -= 1
        return super()._act(action)


def test_calls_at_once_are_carried_out_one_after_the_other():
    server = make_server(TaskPanel.build(instead_of(environment("alfworld"), Narrow)))

    async def asked() -> list[str]:
        async with Client(server) as client:
            await client.call_tool(*RESET)
            results = await asyncio.gather(*(client.call_tool(*act("look")) for _ in range(20)))
        return [result.content[0].text for result in results]

    shown = asyncio.run(asked())
    assert len([text for text in shown if text.endswith("the last turn was taken; its score is 0 of 1.")]) == 1
    assert Narrow.most == 1


def test_the_command_ends_with_its_client_and_says_nothing_on_its_own():
    line = [sys.executable, str(ROOT / "align_echo_command.py"), "serve", "mcp", "--env", "alfworld"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, env=environment, input="", capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
