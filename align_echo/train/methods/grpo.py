"""GRPO (DeepSeekMath): several episodes of each task, compared with each other. A sample is an episode.

Its loss is `train/objective.py`. It is also a control without a critic: as many fresh attempts as other methods make
refined ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.rollout.session import Episode
from align_echo.train.method import CollectingSettings, Method, episodes_alone
from align_echo.train.methods.refining import tally
from align_echo.train.rows import RolloutBatch, policy_row
from align_echo.train.stage import Stage

SAMPLES = 8


def grpo(tasks: Sequence[str], stage: Stage, *, samples: int = SAMPLES) -> RolloutBatch:
    """Play `samples` episodes of every task; the score is the reward, the task the group."""
    played = stage.play([Episode(task, sample=sample) for task in tasks for sample in range(samples)])
    return RolloutBatch(
        rows=tuple(
            policy_row(trajectory, trajectory.task_id)
            for trajectory in played
            if trajectory.fault is None and trajectory.steps
        ),
        counts=tally(played),
        steps=sum(len(trajectory.steps) for trajectory in played),
    )


def _collect(tasks: Sequence[str], stage: Stage, collecting: CollectingSettings) -> RolloutBatch:
    return grpo(tasks, stage, samples=collecting.samples)


METHOD = Method("grpo", _collect, episodes_alone)
