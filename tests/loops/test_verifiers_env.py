"""Episodes as an environment of verifiers: its ends are told apart, and what breaks has no reward."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers")

from verifiers.v1 import Episode, Trace
from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.configs.cli.eval import EvalConfig

from align_echo.agents.reasoning import Vanilla
from align_echo.errors import EngineError, UsageError
from align_echo.loops.verifiers import EpisodesConfig, EpisodesTaskset
from align_echo.models.drawing import ScriptedModel
from align_echo.rollout.batches import run_episode
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import environment, register
from tests.align.endpoint import Answer, Reply, Status, serve
from tests.play import WINNING
from tests.room_env import TASK_IDS, RoomEnv, instead_of

MUG = TASK_IDS[0]
ROOM = instead_of(environment("alfworld"))
LIMIT = 4
FULL = Status(400, body='{"error": {"message": "the maximum context length is 10", "code": "context_length_exceeded"}}')


class Brittle(RoomEnv):
    """Breaks at the second action."""

    def _act(self, action: str):
        if self._turns == 1:
            raise EngineError("pipe closed")
        return super()._act(action)


class Ended(RoomEnv):
    """Is over after one action, and not won."""

    def _act(self, action: str):
        return dataclasses.replace(super()._act(action), done=True)


@pytest.fixture(scope="module", autouse=True)
def games(tmp_path_factory: pytest.TempPathFactory) -> Iterable[None]:
    """The environment as verifiers knows it: a module of a stranger's."""
    for name, kind in (("room", RoomEnv), ("brittle-room", Brittle), ("ended-room", Ended)):
        register(name, instead_of(ROOM, kind))
    folder = tmp_path_factory.mktemp("modules")
    parts = "EpisodesEnv, EpisodesHarness, EpisodesTaskset"
    (folder / "games_of_a_stranger.py").write_text(
        f"from align_echo.loops.verifiers import {parts}\n\n__all__ = {parts.split(', ')}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield


def play(folder: Path, replies: Iterable[Answer], *, env: str = "room", **player: Any) -> tuple[Episode, list[Any]]:
    """One episode, and the requests that the model got."""
    rest = iter(replies)
    with serve({"script": lambda request: next(rest, "look")}) as endpoint:
        config = {
            "env": {
                "taskset": {"id": "games-of-a-stranger", "env": env, "tasks": [MUG], "step_limit": LIMIT},
                "player": player,
            },
            "model": "script",
            "client": {"base_url": endpoint.url, "api_key_var": "NO_KEY"},
            "output_dir": str(folder),
            "push": False,
            "rich": None,
        }
        (episode,) = asyncio.run(run_eval(EvalConfig.model_validate(config)))
        return episode, endpoint.requests


def of(trace: Trace) -> Trajectory:
    return Trajectory.model_validate(trace.info["trajectory"])


def broke(trace: Trace) -> str:
    """What broke the episode."""
    fault = of(trace).fault
    return fault.source if fault else ""


@pytest.mark.parametrize(
    ("env", "replies", "end", "reward"),
    [
        ("room", WINNING, "won", 1.0),
        ("ended-room", (), "lost", 0.0),
        ("room", (), "truncated", 0.0),
        ("room", ("look", FULL), "truncated", 0.0),
    ],
)
def test_the_ends_of_an_episode_are_told_apart(tmp_path, env, replies, end, reward):
    episode, _ = play(tmp_path, replies, env=env)
    (trace,) = episode.traces
    assert episode.ok
    assert (trace.info["end"], trace.reward) == (end, reward)
    assert {name for name, value in trace.metrics.items() if name in ("won", "lost", "truncated") and value} == {end}
    assert of(trace).context_overflow == (FULL in replies)


def test_an_episode_is_the_one_that_the_agent_plays(tmp_path):
    episode, requests = play(tmp_path, WINNING)
    model = ScriptedModel(WINNING)
    alone = run_episode(RoomEnv(LIMIT), Vanilla(model), MUG, split=ROOM.test_split, action_format=ROOM.action_format)
    assert of(episode.traces[0]).steps == alone.steps
    sent = [[(message["role"], message["content"]) for message in request["messages"]] for request in requests]
    assert sent == [[(message.role, message.content) for message in request] for request in model.requests]
    assert episode.task.key == MUG


def test_an_environment_that_breaks_is_an_error_and_has_no_reward(tmp_path):
    episode, _ = play(tmp_path, WINNING, env="brittle-room")
    (trace,) = episode.traces
    assert not episode.ok
    assert "pipe closed" in episode.errors[0].message
    assert (trace.rewards, trace.info["end"]) == ({}, "broken")
    assert broke(trace) == "environment"


def test_a_model_that_breaks_is_an_error_and_has_no_reward(tmp_path):
    episode, _ = play(tmp_path, ["look", Status(401)])
    (trace,) = episode.traces
    assert not episode.ok
    assert (trace.rewards, trace.info["end"]) == ({}, "broken")
    assert (broke(trace), len(of(trace).steps)) == ("model", 1)


def test_a_reply_that_was_cut_off_costs_its_turn_and_a_limit_of_verifiers_truncates(tmp_path):
    episode, _ = play(tmp_path, [Reply("take mug 1", finish_reason="length"), "look"], max_turns=2)
    played = of(episode.traces[0])
    assert [(step.action, step.cut_off) for step in played.steps] == [(None, True), ("look", False)]
    assert (episode.traces[0].info["end"], played.context_overflow, episode.ok) == ("truncated", False, True)


def test_what_cannot_be_played_is_refused_in_one_line():
    for options, message in (
        ({}, "--env.taskset.env alfworld"),
        ({"env": "room", "tasks": ["room/mug-to-studio"]}, "did you mean room/mug-to-study"),
        ({"env": "room", "agent": "self-refine"}, "just once a turn"),
    ):
        with pytest.raises(UsageError, match=message):
            EpisodesTaskset(EpisodesConfig(id="games", **options))
