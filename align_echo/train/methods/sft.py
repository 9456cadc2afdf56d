"""SFT: the policy imitates the environment's expert or stored episodes, as a warm start for methods that learn from
rewards.

The loss is the likelihood of the expert's tokens, in the trainer's objective. Not here: training on chats
(`align_echo.train.sft`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from align_echo.train.method import BatchCost, CollectingSettings, Method
from align_echo.train.rows import RolloutBatch, expert_row
from align_echo.train.stage import Stage


def sft(tasks: Sequence[str], stage: Stage) -> RolloutBatch:
    """Play every task with the expert, in the policy's chat format, and omit failures.

    The score is the reward, without groups.
    """
    lessons = stage.lessons(tasks)
    won = [lesson for lesson in lessons if lesson.won]
    return RolloutBatch(
        rows=tuple(map(expert_row, won)),
        counts=Counter({"broken rollouts": len(tasks) - len(lessons), "failed lessons": len(lessons) - len(won)}),
        steps=sum(len(lesson.steps) for lesson in lessons),
    )


def imitate(names: Sequence[str], stage: Stage) -> RolloutBatch:
    """Learn from stored episodes, all alike, and omit those that exceed the policy's context. Nothing is played."""
    shown = stage.demonstrations(names)
    fit = [episode for episode in shown if not episode.context_overflow]
    return RolloutBatch(
        rows=tuple(replace(expert_row(episode), reward=1.0) for episode in fit),
        counts=Counter({"broken rollouts": 0, "too long demonstrations": len(shown) - len(fit)}),
    )


def _collect(tasks: Sequence[str], stage: Stage, collecting: CollectingSettings) -> RolloutBatch:
    return imitate(tasks, stage) if collecting.demonstrations else sft(tasks, stage)


def _bounds(collecting: CollectingSettings) -> BatchCost:
    played = 0 if collecting.demonstrations else collecting.tasks
    return BatchCost(0, rows=collecting.tasks, lessons=played)


METHOD = Method("sft", _collect, _bounds, needs="expert", imitates=True)
