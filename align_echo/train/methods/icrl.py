"""ICRL: one model solves tasks, criticises its failures, tries again, and learns to do without. Paper 4, section 3.

The weights of tokens and the normalisation of rewards are settings of the trainer, as are both ablations.
"""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.rollout.batches import failed
from align_echo.rollout.session import Episode
from align_echo.train.method import BatchCost, CollectingSettings, Method
from align_echo.train.methods.refining import RefinedAttempt, critic_rows, refine, scores, tally
from align_echo.train.rewards import REWARDS, CriticReward, revision_reward
from align_echo.train.rows import RolloutBatch, Row, policy_row, without_critique
from align_echo.train.stage import CritiqueRequest, Stage
from align_echo.types import Trajectory

SESSIONS = 8
ROUNDS = 2


def icrl(
    tasks: Sequence[str],
    stage: Stage,
    *,
    sessions: int = SESSIONS,
    rounds: int = ROUNDS,
    reward: CriticReward = revision_reward,
) -> RolloutBatch:
    """Play `sessions` of each task, with at most `rounds` attempts: each failed one is criticised and repeated
    (algorithm 1).

    All attempts of a task form a group, all its critiques another. Attempts after a critique are trained without it. An
    unreadable critique ends its session.
    """

    def collect(part: Stage, share: Sequence[str]) -> tuple[list[Trajectory], list[list[RefinedAttempt]]]:
        first = part.play([Episode(task, session) for task in share for session in range(sessions)])
        latest, by_round = first, list[list[RefinedAttempt]]()
        for _ in range(1, rounds):
            requests = [CritiqueRequest(lost, lost.sample) for lost in failed(latest)]
            by_round.append(refine(part, requests, lambda request: request.sample + sessions))
            latest = [session.after for session in by_round[-1] if session.after is not None]
        return first, by_round

    parts = stage.overlapped(collect, tasks)
    by_round = zip(*(part_rounds for _, part_rounds in parts), strict=True)
    refined = [session for round_parts in by_round for part in round_parts for session in part]
    played = [trajectory for first, _ in parts for trajectory in first]
    played += [session.after for session in refined if session.after is not None]
    attempts = [_row(trajectory, stage) for trajectory in played if trajectory.fault is None and trajectory.steps]
    return RolloutBatch(
        rows=(*attempts, *critic_rows(refined, reward)),
        refinements=tuple(scores(refined)),
        counts=tally(played, refined),
        steps=sum(len(trajectory.steps) for trajectory in played),
    )


def _row(attempt: Trajectory, stage: Stage) -> Row:
    row = policy_row(attempt, attempt.task_id)
    return without_critique(row, attempt, stage.opening(attempt)) if attempt.critique else row


def _collect(tasks: Sequence[str], stage: Stage, collecting: CollectingSettings) -> RolloutBatch:
    reward = REWARDS.get(collecting.critic_reward)
    return icrl(tasks, stage, sessions=collecting.samples, rounds=collecting.rounds, reward=reward)


def _bounds(collecting: CollectingSettings) -> BatchCost:
    sessions, rounds = collecting.tasks * collecting.samples, collecting.rounds
    return BatchCost(sessions * rounds, sessions * (rounds - 1), sessions * rounds)


METHOD = Method("icrl", _collect, _bounds, roles=("policy", "critic"), refines=True, moves=True)
