"""ECHO without its critic: fresh attempts in place of refined ones. The control of paper 1, appendix C.2.

The first attempt is not trained on, as in ECHO, so both play the same number of episodes. The change of score after it
is the gain of sampling again.
"""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.rollout.session import Episode
from align_echo.train.method import BatchCost, CollectingSettings, Method
from align_echo.train.methods.refining import tally
from align_echo.train.rows import RolloutBatch, policy_row
from align_echo.train.stage import Stage

SAMPLES = 8


def regenerate(tasks: Sequence[str], stage: Stage, *, samples: int = SAMPLES) -> RolloutBatch:
    """Play an attempt of each task and `samples` more, which are compared with each other by score."""
    attempts = stage.play([Episode(task) for task in tasks])
    first = {attempt.task_id: attempt for attempt in attempts if attempt.fault is None}
    again = stage.play([Episode(task, 1 + sample) for task in first for sample in range(samples)])
    sound = [trajectory for trajectory in again if trajectory.fault is None]
    return RolloutBatch(
        rows=tuple(policy_row(trajectory, trajectory.task_id) for trajectory in sound if trajectory.steps),
        refinements=tuple((first[trajectory.task_id].score, trajectory.score) for trajectory in sound),
        counts=tally([*attempts, *again]),
        steps=sum(len(trajectory.steps) for trajectory in (*attempts, *again)),
    )


def _collect(tasks: Sequence[str], stage: Stage, collecting: CollectingSettings) -> RolloutBatch:
    return regenerate(tasks, stage, samples=collecting.samples)


def _bounds(collecting: CollectingSettings) -> BatchCost:
    again = collecting.tasks * collecting.samples
    return BatchCost(collecting.tasks + again, rows=again)


METHOD = Method("regenerate", _collect, _bounds, refines=True)
