"""LUFFY: an expert's episode among the policy's own, its tokens shaped so that unlikely ones are not lost.

Yan et al., "Learning to Reason under Off-Policy Guidance" (2025), a baseline of ECHO. The shaping is in the
trainer's objective.
"""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.rollout.session import Episode
from align_echo.train.method import BatchCost, CollectingSettings, Method
from align_echo.train.methods.refining import tally
from align_echo.train.rows import RolloutBatch, expert_row, policy_row
from align_echo.train.stage import Stage

SAMPLES = 8


def luffy(tasks: Sequence[str], stage: Stage, *, samples: int = SAMPLES) -> RolloutBatch:
    """Play `samples` - 1 episodes of every task and one with the environment's expert, compared with each other.

    Failed episodes of the expert are omitted and counted. The expert's turns count as environment steps.
    """
    played = stage.play([Episode(task, sample=sample) for task in tasks for sample in range(samples - 1)])
    lessons = [lesson for lesson in stage.lessons(tasks) if lesson.won]
    counts = tally(played)
    counts["failed lessons"] = len(tasks) - len(lessons)
    return RolloutBatch(
        rows=(
            *(
                policy_row(trajectory, trajectory.task_id)
                for trajectory in played
                if trajectory.fault is None and trajectory.steps
            ),
            *map(expert_row, lessons),
        ),
        counts=counts,
        steps=sum(len(trajectory.steps) for trajectory in (*played, *lessons)),
    )


def _collect(tasks: Sequence[str], stage: Stage, collecting: CollectingSettings) -> RolloutBatch:
    return luffy(tasks, stage, samples=collecting.samples)


def _bounds(collecting: CollectingSettings) -> BatchCost:
    rows = collecting.tasks * collecting.samples
    return BatchCost(rows - collecting.tasks, rows=rows, lessons=collecting.tasks)


METHOD = Method("luffy", _collect, _bounds, needs="expert")
