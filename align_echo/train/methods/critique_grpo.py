"""Critique-GRPO: episodes and refinements of failed ones in one group; the critic is not trained.

Zhang et al., "Critique-GRPO" (2025), a baseline of both papers. A refined episode is trained without its critique and,
as it comes from another distribution, with LUFFY's shaping (in the trainer's objective).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from align_echo.rollout.batches import failed
from align_echo.rollout.session import Episode
from align_echo.train.method import BatchCost, CollectingSettings, Method
from align_echo.train.methods.refining import RefinedAttempt, refine, scores, tally
from align_echo.train.rows import RolloutBatch, policy_row, without_critique
from align_echo.train.stage import CritiqueRequest, Stage
from align_echo.types import Trajectory

SAMPLES = 8


def critique_grpo(tasks: Sequence[str], stage: Stage, *, samples: int = SAMPLES) -> RolloutBatch:
    """Play `samples` episodes of every task, criticise and refine each failed one, and add a task's best refinement to
    its group.
    """

    def collect(part: Stage, share: Sequence[str]) -> tuple[list[Trajectory], list[RefinedAttempt]]:
        played = part.play([Episode(task, sample) for task in share for sample in range(samples)])
        requests = [CritiqueRequest(trajectory, trajectory.sample) for trajectory in failed(played)]
        return played, refine(part, requests, lambda request: request.sample + samples)

    parts = stage.overlapped(collect, tasks)
    played = [trajectory for part_played, _ in parts for trajectory in part_played]
    refined = [session for _, part_refined in parts for session in part_refined]
    after = [session.after for session in refined if session.after is not None]
    joined = [
        replace(without_critique(policy_row(session, session.task_id), session, stage.opening(session)), expert=True)
        for session in best_by_task(after)
    ]
    return RolloutBatch(
        rows=(
            *(
                policy_row(trajectory, trajectory.task_id)
                for trajectory in played
                if trajectory.fault is None and trajectory.steps
            ),
            *joined,
        ),
        refinements=tuple(scores(refined)),
        counts=tally([*played, *after], refined),
        steps=sum(len(trajectory.steps) for trajectory in (*played, *after)),
    )


def best_by_task(played: Sequence[Trajectory]) -> list[Trajectory]:
    """Return each task's episode with the highest score (the first of equals), in the order of the tasks."""
    best: dict[str, Trajectory] = {}
    for trajectory in played:
        known = best.get(trajectory.task_id)
        if trajectory.fault is None and trajectory.steps and (known is None or trajectory.score > known.score):
            best[trajectory.task_id] = trajectory
    return list(best.values())


def _collect(tasks: Sequence[str], stage: Stage, collecting: CollectingSettings) -> RolloutBatch:
    return critique_grpo(tasks, stage, samples=collecting.samples)


def _bounds(collecting: CollectingSettings) -> BatchCost:
    episodes = collecting.tasks * collecting.samples
    return BatchCost(2 * episodes, episodes, episodes + collecting.tasks)


METHOD = Method("critique_grpo", _collect, _bounds, refines=True, moves=True)
