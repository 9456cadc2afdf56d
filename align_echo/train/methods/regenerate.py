"""ECHO without its critic: as many fresh attempts in place of refined ones. The control of paper 1, appendix C.2.

The first attempt is played and not trained on, as in ECHO: both spend the same number of episodes, and the change of
the score after it is what sampling again is worth. Left out: the critic, who is asked nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.session import Episode
from align_echo.train.method import Bounds, Collecting, Method
from align_echo.train.methods.refining import tally
from align_echo.train.rows import Harvest, policy_row
from align_echo.train.stage import Stage

SAMPLES = 8


def regenerate(tasks: Sequence[str], stage: Stage, *, samples: int = SAMPLES) -> Harvest:
    """One attempt a task and `samples` more, which are compared with each other by score."""
    attempts = stage.play([Episode(task) for task in tasks])
    first = {attempt.task_id: attempt for attempt in attempts if attempt.fault is None}
    again = stage.play([Episode(task, 1 + sample) for task in first for sample in range(samples)])
    whole = [trajectory for trajectory in again if trajectory.fault is None]
    return Harvest(
        rows=tuple(policy_row(trajectory, trajectory.task_id) for trajectory in whole if trajectory.steps),
        refinements=tuple((first[trajectory.task_id].score, trajectory.score) for trajectory in whole),
        counts=tally([*attempts, *again]),
        steps=sum(len(trajectory.steps) for trajectory in (*attempts, *again)),
    )


def _collect(tasks: Sequence[str], stage: Stage, collecting: Collecting) -> Harvest:
    return regenerate(tasks, stage, samples=collecting.samples)


def _bounds(collecting: Collecting) -> Bounds:
    several = collecting.tasks * collecting.samples
    return Bounds(collecting.tasks + several, rows=several)


METHOD = Method("regenerate", _collect, _bounds, refines=True)
