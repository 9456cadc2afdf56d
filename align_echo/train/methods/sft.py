"""SFT: the policy imitates the environment's expert, as a warm start for the methods that learn from rewards.

The loss is the likelihood of the expert's tokens, in the trainer's objective. Not here: training on stored
demonstrations (`align_echo.train.sft`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

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


def _collect(tasks: Sequence[str], stage: Stage, collecting: CollectingSettings) -> RolloutBatch:
    return sft(tasks, stage)


def _bounds(collecting: CollectingSettings) -> BatchCost:
    return BatchCost(0, rows=collecting.tasks, lessons=collecting.tasks)


METHOD = Method("sft", _collect, _bounds, needs="expert", imitates=True)
