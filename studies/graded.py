"""GRPO, ECHO and ICRL whose scores and critiques are made up from what was sampled, so that random weights learn too.

A model of random weights says nothing that an environment would reward. Here every third of an episode's token ids that
is even earns something, an episode in which most are even is won, and critiques are read as a fixed text. All else is
the methods' own: `method: studies.graded:ECHO`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym

from align_echo.critic.ask import Label, Verdict
from align_echo.critic.language import Critique
from align_echo.rollout.session import Episode
from align_echo.train.method import CollectingSettings, Method
from align_echo.train.methods.echo import METHOD as PLAIN_ECHO
from align_echo.train.methods.grpo import METHOD as PLAIN_GRPO
from align_echo.train.methods.icrl import METHOD as PLAIN_ICRL
from align_echo.train.rows import RolloutBatch
from align_echo.train.stage import ActionProposal, CritiqueRequest, Made, Stage
from align_echo.types import Trajectory

WINNING = 0.6
"""The share of even token ids from which on an episode is won."""


class Hall(gym.Env[str, str]):
    """A room in which nothing is to be done, in several wordings: the task is the seed."""

    observation_space = gym.spaces.Text(1000)
    action_space = gym.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return f"A hall with {2 + int(self.np_random.integers(97))} doors.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "A hall.", 0.0, False, False, {}


class GradedStage:
    """Another stage, whose scores and critiques are made up."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        return [_graded(trajectory) for trajectory in self._stage.play(episodes)]

    def critique(self, requests: Sequence[CritiqueRequest]) -> list[Verdict]:
        reviews = self._stage.critique(requests)
        return [review.model_copy(update={"critique": _critique(review), "problem": ""}) for review in reviews]

    def demonstrations(self, names: Sequence[str]) -> list[Trajectory]:
        return self._stage.demonstrations(names)

    def opening(self, trajectory: Trajectory) -> tuple[int, ...]:
        return self._stage.opening(trajectory)

    def overlapped(self, collect: Callable[[Stage, Sequence[str]], Made], queries: Sequence[str]) -> list[Made]:
        return self._stage.overlapped(lambda part, share: collect(GradedStage(part), share), queries)

    def labels(self, played: Sequence[Trajectory]) -> list[list[Label | None]]:
        return self._stage.labels(played)

    def judge(self, proposals: Sequence[ActionProposal]) -> list[Verdict]:
        return self._stage.judge(proposals)

    def lessons(self, queries: Sequence[str]) -> list[Trajectory]:
        return self._stage.lessons(queries)


def _graded(trajectory: Trajectory) -> Trajectory:
    sampled = [token for step in trajectory.steps if step.tokens for token in step.tokens.sampled_ids]
    score = round(sum(token % 2 == 0 for token in sampled) / max(1, len(sampled)), 2)
    won = score >= WINNING
    return trajectory.model_copy(update={"score": 1.0 if won else score, "won": won})


def _critique(review: Verdict) -> Critique:
    ids = review.tokens.sampled_ids if review.tokens else ()
    return Critique(reason="Made up.", suggestions=(f"Try door {sum(ids) % 7}.",))


def _with_grades(method: Method) -> Method:
    plain: Callable[[Sequence[str], Stage, CollectingSettings], RolloutBatch] = method.collect

    def collect(tasks: Sequence[str], stage: Stage, collecting: CollectingSettings) -> RolloutBatch:
        return plain(tasks, GradedStage(stage), collecting)

    return replace(method, collect=collect)


GRPO, ECHO, ICRL = map(_with_grades, (PLAIN_GRPO, PLAIN_ECHO, PLAIN_ICRL))
