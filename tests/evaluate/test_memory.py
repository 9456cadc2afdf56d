"""What an evaluation holds of its episodes: figures, and none of their texts."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import align_echo
from align_echo.evaluate.plan import EvaluationConfig, plan_evaluation
from align_echo.evaluate.playing import play
from align_echo.types import AgentReply, AgentView

PAGE = "The corridor has doors on both sides, and a lamp above each of them. " * 15
"""1 KB."""


class Corridor(gym.Env[str, str]):
    """A world of long pages in which the fourth action wins."""

    observation_space = action_space = gym.spaces.Text(10_000)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.turns = 0
        return PAGE, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turns += 1
        return f"{PAGE} {self.turns}", float(self.turns == 4), self.turns == 4, False, {}


class Walker:
    name = "walker"

    def act(self, view: AgentView) -> AgentReply:
        return AgentReply(text="walk", action="walk")


SPLITS = {"train": range(3), "test": range(100, 450)}
QUIET = align_echo.TextEnvironment(Corridor, step_limit=9, splits=SPLITS)
DECLARED = align_echo.TextEnvironment(Corridor, step_limit=9, splits=SPLITS, is_invalid=lambda text: "lamp" not in text)


def held(name: str, folder: Path, tasks: int, workers: int) -> int:
    """Bytes that are held at most while so many tasks are played and compared."""
    world, walker = f"{__name__}:{name}", f"{__name__}:Walker"
    plan = plan_evaluation(EvaluationConfig(env=world, agent=walker, tasks=tasks, workers=workers))
    tracemalloc.start()
    try:
        assert play(plan, folder).variants["none"].episodes == tasks
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.long
@pytest.mark.parametrize(("name", "workers"), [("QUIET", 1), ("DECLARED", 3)])
def test_more_episodes_take_no_more_memory(name, workers, tmp_path, monkeypatch):
    """An episode has 10 KB of pages; what is left of it are a place in a file and the sums of its task."""
    monkeypatch.setattr("align_echo.intervals.AT_ONCE", 2**10)
    monkeypatch.setattr("align_echo.rollout.refusals.IN_MEMORY", 2**16)
    held(name, tmp_path / "first", 1, workers)  # what is loaded once
    few, many = (held(name, tmp_path / str(tasks), tasks, workers) for tasks in (50, 250))
    episode = (many - few) / 200
    assert episode < 2000, f"{episode:.0f} bytes an episode"
