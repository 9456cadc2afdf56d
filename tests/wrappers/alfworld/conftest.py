"""Fixtures: the embedded games in a cache of this test run alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from align_echo.wrappers.alfworld.data import load_embedded, read_json
from align_echo.wrappers.alfworld.env import AlfworldEnv
from align_echo.wrappers.alfworld.fast.engine import FastEngine
from align_echo.wrappers.alfworld.oracle import GameSpec
from align_echo.wrappers.alfworld.spec import GAME


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALIGN_ECHO_CACHE", str(folder))
        patch.delenv("ALFWORLD_DATA", raising=False)
        yield folder


@pytest.fixture(scope="session")
def unseen() -> Iterator[AlfworldEnv]:
    env = AlfworldEnv(load_embedded(), "valid_unseen")
    yield env
    env.close()


@pytest.fixture(scope="session")
def engine() -> Iterator[FastEngine]:
    engine = FastEngine()
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def load() -> Callable[[str], tuple[GameSpec, Path]]:
    """A listed game by id, and its folder."""

    def read(task_id: str) -> tuple[GameSpec, Path]:
        folder = load_embedded().folder(task_id)
        record: dict[str, Any] = read_json(folder / GAME)
        return GameSpec(record["pddl_domain"], record["grammar"], record["pddl_problem"]), folder

    return read


def play(env: AlfworldEnv, task_id: str) -> list[tuple[str, str]]:
    """The expert's episode: (action, observation), the first with an empty action."""
    observation, _ = env.reset(options={"task": task_id})
    lines = [("", observation)]
    over = False
    while not over:
        action = env.oracle().expert_action()
        assert action is not None
        observation, _, terminated, truncated, _ = env.step(action)
        lines.append((action, observation))
        over = terminated or truncated
    return lines


@pytest.fixture(scope="session")
def expert_episode() -> Callable[[AlfworldEnv, str], list[tuple[str, str]]]:
    return play
