"""States of a plain environment are returned to by copies where these answer alike, else by playing again."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import tempfile
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest

from align_echo.errors import EngineError
from align_echo.wrappers.copies import MOST_BYTES
from align_echo.wrappers.plain import PlainEnv, TextEnvironment
from align_echo.wrappers.text_env import Snapshot

Step = tuple[str, float, bool, bool, dict[str, Any]]


class Lift(gym.Env[str, str]):
    """Goes up and down, slow to start. `starts` counts the resets of all lifts."""

    starts: ClassVar[itertools.count[int]] = itertools.count()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        next(type(self).starts)
        sum(range(200_000))
        self.floor = int(self.np_random.integers(5))
        return f"Floor {self.floor}.", {}

    def step(self, action: str) -> Step:
        if action in ("up", "down"):
            self.floor += 1 if action == "up" else -1
        if action == "draw":
            self.floor = int(self.np_random.integers(5))
        return f"Floor {self.floor}.", 0.0, self.floor > 20, False, {}


class Locked(Lift):
    """Moves with a word that no drawn action holds."""

    def step(self, action: str) -> Step:
        return super().step("up" if action == "sesame" else "wait")


def made(kind: type[gym.Env[str, str]], **declared: Any) -> PlainEnv:
    env = TextEnvironment(kind, action_format="up | down | draw", **declared).spec("lift").make("train")
    assert isinstance(env, PlainEnv)
    return env


def walk(env: PlainEnv, count: int = 30) -> list[tuple[str, ...]]:
    """Go to earlier states of two tasks at random, and on from there by an action; what was shown by actions."""
    rng = random.Random(3)
    shown: list[tuple[str, ...]] = []
    moments: list[tuple[tuple[str, ...], Snapshot]] = []
    for task in ("3", "5"):
        opening, _ = env.reset(options={"task": task})
        moments.append(((task, opening), env.snapshot()))
    for _ in range(count):
        said, moment = rng.choice(moments[-6:])
        env.restore(moment)
        action = rng.choice(("up", "up", "down", "draw", "wait"))
        said = (*said, action, env.step(action)[0])
        shown.append(said)
        moments.append((said, env.snapshot()))
    return shown


def played_anew(shown: list[tuple[str, ...]], kind: type[gym.Env[str, str]] = Lift, **declared: Any) -> None:
    """Check what was shown of each state against an environment of its own, from the reset."""
    for task, opening, *turns in shown:
        env = made(kind, **declared)
        assert env.reset(options={"task": task})[0] == opening
        for action, text in zip(turns[::2], turns[1::2], strict=True):
            assert env.step(action)[0] == text


def test_forks_from_copies_answer_like_the_environment_from_its_reset():
    Lift.starts = itertools.count()
    env = made(Lift)
    shown = walk(env, 80)
    starts = next(Lift.starts)
    assert env.fork_way == "by copies, which answered like replays"
    assert not env.replays
    assert starts < 40  # with those of the trial
    played_anew(shown)


class Shared(Lift):
    """Has an engine that all lifts share, whatever is copied."""

    engine: ClassVar[dict[str, int]] = {}

    @property
    def floor(self) -> int:
        return self.engine["floor"]

    @floor.setter
    def floor(self, floor: int) -> None:
        self.engine["floor"] = floor


class WithFile(Lift):
    """Writes a log to a file that is open."""

    def __init__(self) -> None:
        self.log = tempfile.TemporaryFile("w")  # noqa: SIM115


class WithProcess(Lift):
    """Has its floor in another process."""

    def __init__(self) -> None:
        code = "import sys\nwhile line := sys.stdin.readline(): print(line, end='', flush=True)"
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True)

    def step(self, action: str) -> Step:
        text, *rest = super().step(action)
        self.process.stdin.write(f"{text}\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]
        return (self.process.stdout.readline().strip(), *rest)  # type: ignore[return-value, union-attr]

    def close(self) -> None:
        self.process.communicate()


class Large(Lift):
    """Holds more than is worth a copy."""

    def __init__(self) -> None:
        self.map = np.zeros(MOST_BYTES + 1, dtype=np.uint8)


class Mute(Lift):
    """Answers everything alike, so nothing can be compared."""

    def step(self, action: str) -> Step:
        return ("Ping.", *super().step(action)[1:])


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Shared, "a copy answers otherwise"),
        (WithFile, "it cannot be copied (TypeError)"),
        (WithProcess, "it cannot be copied (TypeError)"),
        (Large, "it is too large to copy"),
        (Mute, "no action changed an answer"),
    ],
)
def test_an_environment_whose_copies_are_not_its_own_is_played_again(kind, why):
    env = made(kind)
    shown = walk(env, 12)
    assert env.replays
    assert env.fork_way.startswith("by replaying from the reset (")
    assert why in env.fork_way
    env.close()
    played_anew(shown, kind if kind is Mute else Lift)


def test_a_state_ahead_is_reached_without_a_reset():
    env = made(WithFile)
    env.reset(options={"task": "3"})
    start = env.snapshot()
    env.step("up")
    env.step("up")
    ahead = env.snapshot()
    env.restore(start)
    Lift.starts = itertools.count()
    env.restore(ahead)
    assert next(Lift.starts) == 0
    assert env.step("wait")[0] == ahead.state.observation


def test_actions_that_were_said_are_tried_where_drawn_ones_change_nothing():
    env = made(Locked)
    env.reset(options={"task": "3"})
    for action in ("wait", "sesame"):
        start = env.snapshot()
        texts = [env.step(action)[0] for _ in range(3)]
        end = env.snapshot()
        env.restore(start)
        env.restore(end)
        assert env.state.observation == texts[-1]
    assert not env.replays


class Dice(Lift):
    """Draws from the generators of the process."""

    def step(self, action: str) -> Step:
        self.floor += random.randint(0, 3)
        return super().step(action)


def test_copies_go_on_with_the_chance_that_was_theirs():
    env = made(Dice, global_random=True)
    shown = walk(env)
    assert not env.replays
    played_anew(shown, Dice, global_random=True)


class Restless(Lift):
    """Its words are drawn by nobody's seed."""

    count: ClassVar[itertools.count[int]] = itertools.count()

    def step(self, action: str) -> Step:
        return (f"{next(self.count)}", *super().step(action)[1:])


def test_what_does_not_repeat_itself_is_not_forked_from_copies_either():
    env = made(Restless)
    env.reset(options={"task": "3"})
    env.step("up")
    moment = env.snapshot()
    env.step("up")
    with pytest.raises(EngineError, match="does not repeat itself"):
        env.restore(moment)
    assert "it does not repeat itself" in env.fork_way
