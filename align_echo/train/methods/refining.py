"""Common parts of ECHO, ICRL and similar methods: an attempt, a critique, the next attempt, and their rewards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from align_echo.critic.ask import Verdict
from align_echo.rollout.session import Episode
from align_echo.train.rewards import CriticReward
from align_echo.train.rows import Row, critic_row
from align_echo.train.stage import CritiqueRequest, Stage
from align_echo.types import Trajectory


@dataclass(frozen=True)
class RefinedAttempt:
    """An attempt with the critic's verdict on it. `after` is the next attempt, None without a readable critique."""

    attempt: Trajectory
    verdict: Verdict
    after: Trajectory | None


def refine(
    stage: Stage, requests: Sequence[CritiqueRequest], sample: Callable[[CritiqueRequest], int]
) -> list[RefinedAttempt]:
    """Criticise the attempts; play the task again under each readable critique, with the number `sample(request)`."""
    criticised = list(zip(requests, stage.critique(requests), strict=True))
    readable = [(request, verdict) for request, verdict in criticised if verdict.critique is not None]
    played = iter(
        stage.play([Episode(request.attempt.task_id, sample(request), verdict.advice) for request, verdict in readable])
    )
    return [
        RefinedAttempt(request.attempt, verdict, None if verdict.critique is None else next(played))
        for request, verdict in criticised
    ]


def critic_rows(refined: Iterable[RefinedAttempt], reward: CriticReward) -> list[Row]:
    """Convert critiques to rows with their rewards; the task is the group.

    An unreadable critique has the reward of a next score of 0. Critiques with a fault of a model or an engine are
    omitted.
    """
    rows = []
    for session in refined:
        broken = session.verdict.fault is not None or (session.after is not None and session.after.fault is not None)
        if not broken and session.verdict.tokens is not None:
            after = session.after.score if session.after is not None else 0.0
            rows.append(critic_row(session.verdict, session.attempt.task_id, reward(session.attempt.score, after)))
    return rows


def scores(refined: Iterable[RefinedAttempt]) -> list[tuple[float, float]]:
    """Return the scores before and after each critique followed by a sound attempt."""
    return [
        (session.attempt.score, session.after.score)
        for session in refined
        if session.after is not None and session.after.fault is None
    ]


def tally(played: Iterable[Trajectory], refined: Iterable[RefinedAttempt] = ()) -> Counter[str]:
    """Count events, such as broken episodes and unreadable critiques."""
    rollouts = list(played)
    counts = Counter({"broken rollouts": sum(rollout.fault is not None for rollout in rollouts)})
    choices = [step.choice for rollout in rollouts for step in rollout.steps if step.choice is not None]
    if choices:
        counts["missing verdicts"] = sum(choice.counts.no_verdict for choice in choices)
    for session in refined:
        counts["broken critiques"] += session.verdict.fault is not None
        if session.verdict.fault is None:
            outcome = "won" if session.attempt.won else "lost"
            counts[f"critiques of {outcome} attempts"] += 1
            counts[f"unread critiques of {outcome} attempts"] += session.verdict.critique is None
            counts[f"cut critiques of {outcome} attempts"] += session.verdict.cut
    return counts
