"""ECHO: a critic and a policy that learn from the same refinements. Paper 1, section 3 and appendix D.

The trainer decides who learns: a frozen critic (the ablation) or a frozen policy are settings of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.rollout.batches import failed
from align_echo.rollout.session import Episode
from align_echo.train.method import BatchCost, CollectingSettings, Method
from align_echo.train.methods.refining import RefinedAttempt, critic_rows, refine, scores, tally
from align_echo.train.rewards import REWARDS, CriticReward, saturation_gain
from align_echo.train.rows import RolloutBatch, policy_row
from align_echo.train.stage import CritiqueRequest, Stage
from align_echo.types import Trajectory

REFINEMENTS = 8


def echo(
    tasks: Sequence[str],
    stage: Stage,
    *,
    refinements: int = REFINEMENTS,
    reward: CriticReward = saturation_gain,
    critique_won: bool = True,
) -> RolloutBatch:
    """Play an attempt of each task, N critiques of it, and a refined attempt after each (equations 1 and 2).

    Refined attempts are compared by score, critiques by `reward`(score before, score after). The first attempt is not
    trained on. Without `critique_won`, the N later attempts of a task whose first was won have no critiques.
    """

    def collect(part: Stage, share: Sequence[str]) -> tuple[list[Trajectory], list[RefinedAttempt], list[Trajectory]]:
        attempts = part.play([Episode(task) for task in share])
        sound = [attempt for attempt in attempts if attempt.fault is None]
        chosen, left = sound, []
        if not critique_won:
            chosen, left = failed(sound), [attempt for attempt in sound if attempt.won]
        requests = [CritiqueRequest(attempt, sample) for attempt in chosen for sample in range(refinements)]
        refined = refine(part, requests, lambda request: 1 + request.sample)
        again = [Episode(attempt.task_id, 1 + sample) for attempt in left for sample in range(refinements)]
        return attempts, refined, part.play(again) if again else []

    parts = stage.overlapped(collect, tasks)
    attempts = [attempt for part_attempts, _, _ in parts for attempt in part_attempts]
    refined = [session for _, part_refined, _ in parts for session in part_refined]
    after = [session.after for session in refined if session.after is not None]
    after += [attempt for _, _, part_again in parts for attempt in part_again]
    return RolloutBatch(
        rows=(
            *(policy_row(session, session.task_id) for session in after if session.fault is None and session.steps),
            *critic_rows(refined, reward),
        ),
        refinements=tuple(scores(refined)),
        counts=tally([*attempts, *after], refined),
        steps=sum(len(trajectory.steps) for trajectory in (*attempts, *after)),
    )


def _collect(tasks: Sequence[str], stage: Stage, collecting: CollectingSettings) -> RolloutBatch:
    reward, critique_won = REWARDS.get(collecting.critic_reward), collecting.critique_won
    return echo(tasks, stage, refinements=collecting.samples, reward=reward, critique_won=critique_won)


def _bounds(collecting: CollectingSettings) -> BatchCost:
    refined = collecting.tasks * collecting.samples
    return BatchCost(collecting.tasks + refined, refined, refined)


METHOD = Method("echo", _collect, _bounds, roles=("policy", "critic"), refines=True, critiques_won=True)
