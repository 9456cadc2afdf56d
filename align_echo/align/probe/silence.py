"""Silence: an engine that answers a refused action with what it had shown before, and with no word about it.

An answer that repeats the one before need not be a refusal: a second look shows the same, and so does an action whose
effect is not shown. Who hears silence here has to find out by trying.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from align_echo.types import Trajectory

MIN_SILENT = 5
"""So many different actions must have been answered by silence before it is looked into."""


def answers(trajectory: Trajectory) -> Iterator[tuple[str, str, str]]:
    """(action, the engine's answer, its answer before) of each turn on which the engine was asked."""
    before = trajectory.initial_observation
    for step in trajectory.steps:
        if step.action is not None and step.raw_observation is not None:
            yield step.action, step.raw_observation, before
            before = step.raw_observation


def silenced(trajectories: Iterable[Trajectory]) -> list[tuple[str, str]]:
    """(task id, action) of the turns after which the engine showed what it had shown before."""
    return [
        (trajectory.task_id, action)
        for trajectory in trajectories
        for action, answer, before in answers(trajectory)
        if answer.strip() == before.strip()
    ]


def is_often_silent(trajectories: Sequence[Trajectory]) -> bool:
    """Whether many different actions were answered by silence."""
    return len({action for _, action in silenced(trajectories)}) >= MIN_SILENT
