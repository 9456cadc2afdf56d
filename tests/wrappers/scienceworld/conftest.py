"""Fixtures: one environment of ALIGN's test tasks, and how its gold path is played."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from align_echo.wrappers.scienceworld.env import ScienceWorldEnv

needs_engine = pytest.mark.skipif(
    find_spec("scienceworld") is None, reason="the extra is not installed: pip install '.[scienceworld]'"
)


@pytest.fixture(scope="session")
def env() -> Iterator[ScienceWorldEnv]:
    env = ScienceWorldEnv("align_test")
    yield env
    env.close()


def play_gold(env: ScienceWorldEnv, task_id: str) -> list[tuple[str, str]]:
    """The gold path: (action, observation), the first with an empty action."""
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
