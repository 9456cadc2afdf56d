"""How the suite handles any environment: open it, follow its expert, play actions, break its engine."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

import align_echo
from align_echo.evaluate.plan import pick_tasks
from align_echo.rollout.session import base_env
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("golden")

ENDLESS = 10_000
"""A step limit that no expert reaches."""

NONSENSE = ("xyzzy", "take moon 1 from sky 1", "{}", "click[the moon]")
"""Actions that no environment knows."""


class Told(NamedTuple):
    """What an environment told of one step."""

    action: str
    observation: str
    reward: float
    terminated: bool
    truncated: bool
    score: float


def raw(spec: EnvironmentSpec, *, split: str | None = None, step_limit: int | None = None) -> TextEnv:
    """An environment without an interface, of the test split unless another is named."""
    return base_env(align_echo.make(spec.name, split=split or spec.test_split, step_limit=step_limit))


def sample(spec: EnvironmentSpec, count: int, *, split: str | None = None) -> list[str]:
    """Some tasks of a split (the test split), spread over the task types."""
    split = split or spec.test_split
    return pick_tasks(align_echo.tasks(spec.name, split=split), count, task_type=spec.task_type)


def with_expert(spec: EnvironmentSpec, split: str) -> list[str]:
    """The tasks of a split for which the environment says that it has an expert: all of them, in most."""
    return [task for task in align_echo.tasks(spec.name, split=split) if spec.has_expert(task)]


def frozen(spec: EnvironmentSpec) -> list[dict[str, Any]]:
    """The recorded episodes of an environment: `task`, `goal`, `observation` at the start, `steps` (of `Told`)."""
    record = json.loads((GOLDEN / f"{spec.name}.json").read_text(encoding="utf-8"))
    return [episode | {"steps": [Told(**step) for step in episode["steps"]]} for episode in record["episodes"]]


def frozen_tasks(spec: EnvironmentSpec) -> list[str]:
    """The tasks of the recorded episodes: short ones that repeat themselves."""
    return [episode["task"] for episode in frozen(spec)]


def start(env: gym.Env[str, str], task: str) -> tuple[str, dict[str, Any]]:
    """Reset to a task."""
    return env.reset(seed=0, options={"task": task})


def play(env: gym.Env[str, str], actions: Iterable[str]) -> list[Told]:
    """Send actions until the episode is over or there are no more."""
    steps: list[Told] = []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        steps.append(Told(action, observation, float(reward), terminated, truncated, info["score"]))
        if terminated or truncated:
            break
    return steps


def play_expert(env: TextEnv, task: str, *, at_most: int = ENDLESS) -> list[Told]:
    """The expert's episode from a fresh reset, to its end or to where the expert has nothing to say."""
    start(env, task)
    steps: list[Told] = []
    while len(steps) < at_most and not (steps and (steps[-1].terminated or steps[-1].truncated)):
        action = env.oracle().expert_action()
        if action is None:
            break
        steps += play(env, [action])
    return steps


def actions_of(steps: Iterable[Told]) -> list[str]:
    """The actions that were sent."""
    return [step.action for step in steps]


def looks(env: TextEnv) -> list[str]:
    """What every read-only action without an object answers now."""
    return [env.probe(action) for action in env.contract.read_only_actions if "{}" not in action]


# ---------------------------------------------------------------- breaking a real engine


def _break_alfworld(env: Any) -> None:
    """The compiled game is gone from under the engine."""
    env._engine.restore(dataclasses.replace(env._engine.sight, program=None))


def _kill_java(env: Any) -> None:
    """The simulator's process is killed."""
    os.kill(env._leased.pid, signal.SIGKILL)


def _lose_catalogue(env: Any) -> None:
    """The products are gone from under the pages."""
    env._shop.catalogue = None


def _lose_tools(env: Any) -> None:
    """The tools are gone."""
    env._tools = None


def _kill_browser(env: Any) -> None:
    """The browser's processes are killed."""
    os.killpg(env._leased.pid, signal.SIGKILL)


def _lose_problem(env: Any) -> None:
    """The problem is gone from under the reply."""
    env._problem = None


def _lose_documents(env: Any) -> None:
    """The documents are gone from under the search."""
    env._search = None


BREAK: dict[str, Callable[[Any], None]] = {
    "alfworld": _break_alfworld,
    "m3tooleval": _lose_tools,
    "scienceworld": _kill_java,
    "webshop": _lose_catalogue,
    "miniwob": _kill_browser,
    "textworldexpress": _kill_java,
    "math": _lose_problem,
    "searchqa": _lose_documents,
}
"""How to break each environment's engine in the middle of an episode, so that the next action fails."""
