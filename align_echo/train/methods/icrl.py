"""ICRL: one backbone solves, criticises its failures, solves again, and learns to do without. Paper 4, section 3.

Left out: the weights of tokens and how rewards are normalised, which are the trainer's; both ablations are settings of
it.
"""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.session import Episode
from align_echo.train.method import Bounds, Collecting, Method
from align_echo.train.methods.refining import Refined, critic_rows, refine, scores, tally
from align_echo.train.rewards import REWARDS, CriticReward, revision_reward
from align_echo.train.rows import Harvest, Row, policy_row, without_critique
from align_echo.train.stage import ReviewRequest, Stage
from align_echo.types import Trajectory

SESSIONS = 8
ROUNDS = 2


def icrl(
    queries: Sequence[str],
    stage: Stage,
    *,
    sessions: int = SESSIONS,
    rounds: int = ROUNDS,
    reward: CriticReward = revision_reward,
) -> Harvest:
    """`sessions` of at most `rounds` attempts a query; a failed attempt is criticised and made anew (algorithm 1).

    All attempts of a query are one group, all critiques another. Attempts that followed a critique are trained without
    it. A critique that cannot be read ends its session.
    """
    latest = stage.play([Episode(query, sample=session) for query in queries for session in range(sessions)])
    played, refined = list(latest), list[Refined]()
    for _ in range(1, rounds):
        failed = [ReviewRequest(lost, lost.sample) for lost in latest if lost.fault is None and not lost.won]
        again = refine(stage, failed, lambda request: request.sample + sessions)
        latest = [session.after for session in again if session.after is not None]
        played += latest
        refined += again
    attempts = [_row(trajectory, stage) for trajectory in played if trajectory.fault is None and trajectory.steps]
    return Harvest(
        rows=(*attempts, *critic_rows(refined, reward)),
        refinements=tuple(scores(refined)),
        counts=tally(played, refined),
        steps=sum(len(trajectory.steps) for trajectory in played),
    )


def _row(attempt: Trajectory, stage: Stage) -> Row:
    row = policy_row(attempt, attempt.task_id)
    return without_critique(row, attempt, stage.opening(attempt)) if attempt.critique else row


def _harvest(queries: Sequence[str], stage: Stage, collecting: Collecting) -> Harvest:
    reward = REWARDS[collecting.critic_reward]
    return icrl(queries, stage, sessions=collecting.samples, rounds=collecting.rounds, reward=reward)


def _bounds(collecting: Collecting) -> Bounds:
    several, rounds = collecting.queries * collecting.samples, collecting.rounds
    return Bounds(several * rounds, several * (rounds - 1), several * rounds)


METHOD = Method("icrl", _harvest, _bounds, roles=("policy", "critic"), refines=True)
