"""GRPO: several episodes a query, compared with each other. DeepSeekMath; here a sample is a whole episode.

It is also the control without a critic ("regeneration"): as many fresh attempts as others make refined ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.session import Episode
from align_echo.train.method import Collecting, Method, episodes_alone
from align_echo.train.methods.refining import tally
from align_echo.train.rows import Harvest, policy_row
from align_echo.train.stage import Stage

SAMPLES = 8


def grpo(queries: Sequence[str], stage: Stage, *, samples: int = SAMPLES) -> Harvest:
    """`samples` episodes of every query; the score is the reward, the query the group."""
    played = stage.play([Episode(query, sample=sample) for query in queries for sample in range(samples)])
    return Harvest(
        rows=tuple(
            policy_row(trajectory, trajectory.task_id)
            for trajectory in played
            if trajectory.fault is None and trajectory.steps
        ),
        counts=tally(played),
        steps=sum(len(trajectory.steps) for trajectory in played),
    )


def _harvest(queries: Sequence[str], stage: Stage, collecting: Collecting) -> Harvest:
    return grpo(queries, stage, samples=collecting.samples)


METHOD = Method("grpo", _harvest, episodes_alone)
