"""Self-improvement at test time: failed tasks are criticised and played again, for some rounds (ICRL, paper 4, section
5).

The same rounds without a critic are the control: as many fresh attempts. Not here: training (`align_echo.train`), and
the files of a run (`folder.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pydantic import Field, NonNegativeInt
from rich.table import Table

from align_echo.base.halting import Halt, under
from align_echo.critic.ask import AttemptRecord, Verdict
from align_echo.errors import ModelError, UsageError
from align_echo.evaluate.tables import cell, failed_on, plain_table
from align_echo.intervals import Percent, Score, mean_score, scored, success_rate
from align_echo.rollout.batches import HOPELESS, failed
from align_echo.rollout.faults import InterfaceConduct, fault_text, faults_by_source
from align_echo.rollout.session import Episode
from align_echo.types import Frozen, Trajectory, Usage

Play = Callable[[int, Sequence[Episode]], list[Trajectory]]
"""Plays the episodes of a round, in order."""

Reviews = Callable[[int, Sequence[Trajectory]], list[Verdict]]
"""Criticises the attempts to improve in a round, in order."""


class RoundResult(Frozen):
    """State of all episodes after a round; round 0 is the first attempt. A won episode is not played again.

    Rates and scores are those of the latest attempts; `mean_best_score` is that of the best attempts so far, which
    differs with partial scores, since a later attempt may be worse. Success is the same by both.

    `played` counts the episodes played in this round, and `faults` those with a fault of an engine, a model or the
    agent's own code (`faults_by_source`); `episodes` counts those with a score so far. `unread` counts unreadable
    critiques, whose episodes were played without one. `unanswered` counts critiques with a model fault, whose episodes
    wait for the next round.
    """

    number: NonNegativeInt
    episodes: NonNegativeInt
    success_rate: Percent
    mean_score: Score
    mean_best_score: Score
    played: NonNegativeInt
    faults: NonNegativeInt = 0
    faults_by_source: dict[str, NonNegativeInt] = Field(default_factory=dict)
    unread: NonNegativeInt = 0
    unanswered: NonNegativeInt = 0


class RefinementResult(Frozen):
    """Results of refinement rounds. `critic` is None without one; `usage` is the agent's, `critic_usage` the critic's.

    `conduct` reports failures of the interface over all episodes.
    """

    environment: str
    split: str
    agent: str
    interface: str
    critic: str | None
    critic_form: str | None
    seed: int
    games: str
    tasks: tuple[str, ...]
    rounds: tuple[RoundResult, ...]
    conduct: InterfaceConduct = InterfaceConduct()
    usage: Usage
    critic_usage: Usage


class ReviewRecord(Frozen):
    """A review and its attempt."""

    attempt: Episode
    review: AttemptRecord


def attempt_episode(attempt: Trajectory) -> Episode:
    """Return the identity of an attempt of an agent."""
    return Episode(attempt.task_id, attempt.sample, attempt.critique)


def refine_rounds(
    tasks: Sequence[str], play: Play, reviews: Reviews | None, *, rounds: int, samples: int = 1, seed: int = 0
) -> tuple[list[RoundResult], list[Trajectory]]:
    """Play `rounds` + 1 rounds, and return their results and the final episodes. Without `reviews`, fresh attempts.

    Episode `sample` of a task is played as `sample + number * samples` in a round. Its latest attempt decides. After a
    fault the earlier attempt stays, and is criticised again in the next round. Raises `UsageError` if all first
    attempts broke.
    """
    standing = play(0, [Episode(task, sample) for task in tasks for sample in range(samples)])
    if not scored(standing):
        fault = next(
            (fault_text(attempt.fault) for attempt in standing if attempt.fault is not None), "no task was played"
        )
        raise UsageError(f"no first attempt finished without a fault; the first: {fault}")
    best = list(standing)
    results = [_round(0, standing, best, standing, (), seed)]
    for number in range(1, rounds + 1):
        lost = [index for index, attempt in enumerate(standing) if failed([attempt])]
        critiques: list[Verdict] = []
        advice = dict.fromkeys(lost, "")
        if reviews is not None:
            critiques = reviews(number, [standing[slot] for slot in lost])
            advice = {slot: review.advice for slot, review in zip(lost, critiques, strict=True) if review.fault is None}
        episodes = [
            Episode(standing[slot].task_id, standing[slot].sample % samples + number * samples, critique)
            for slot, critique in advice.items()
        ]
        again = play(number, episodes) if episodes else []
        for slot, played in zip(advice, again, strict=True):
            if played.fault is None:
                standing[slot] = played
                best[slot] = max(best[slot], played, key=lambda attempt: attempt.score)
        results.append(_round(number, standing, best, again, critiques, seed))
    return results, standing


def review_all(
    ask: Callable[[Trajectory], Verdict],
    attempts: Sequence[Trajectory],
    *,
    workers: int = 1,
    on_review: Callable[[Trajectory, Verdict], None],
) -> list[Verdict]:
    """Review each attempt, in order, `workers` at once; `on_review` is called for each new review, one at a time.

    Raises `ModelError` if the model failed on each of the first `HOPELESS`. Any exception, Ctrl-C too, stops the
    others.
    """
    report, halt = threading.Lock(), Halt()

    def review_one(attempt: Trajectory) -> Verdict:
        halt.check()
        try:
            with under(halt):
                review = ask(attempt)
            with report:
                on_review(attempt, review)
        except BaseException:
            halt.set()  # now: this thread's next attempt may begin before the caller sees the error
            raise
        return review

    reviews: list[Verdict] = []
    with ThreadPoolExecutor(max_workers=workers) as pool:
        try:
            for review in pool.map(review_one, attempts):
                reviews.append(review)
                if len(reviews) == HOPELESS and all(finished_review.fault for finished_review in reviews):
                    raise ModelError(f"the critic broke on each of the first {HOPELESS} attempts: {review.problem}")
        except BaseException:
            halt.set()
            raise
    return reviews


def rounds_table(refinement: RefinementResult) -> Table:
    """Build the table with a line per round, and columns for faults only if there were any."""
    title = f"{refinement.environment} {refinement.split}, by round: % with 95% intervals"
    works = refinement.conduct.works
    table = plain_table(title if works else f"{title}; the interface {failed_on(refinement.conduct)}")
    broken = any(summary.faults or summary.unanswered for summary in refinement.rounds)
    headings = ("round", "n", "success", "score", "best score", "played", "unread critiques")
    for heading in (*headings, *(("faults", "unanswered") if broken else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    for summary in refinement.rounds:
        scores = (cell(score, digits=3) for score in (summary.mean_score, summary.mean_best_score))
        figures = str(summary.episodes), cell(summary.success_rate), *scores
        trouble = (str(summary.faults), str(summary.unanswered)) if broken else ()
        table.add_row(str(summary.number), *figures, str(summary.played), str(summary.unread), *trouble)
    return table


def _round(
    number: int,
    standing: Sequence[Trajectory],
    best: Sequence[Trajectory],
    played: Sequence[Trajectory],
    critiques: Sequence[Verdict],
    seed: int,
) -> RoundResult:
    return RoundResult(
        number=number,
        episodes=len(scored(standing)),
        success_rate=success_rate(standing),
        mean_score=mean_score(standing, seed=seed),
        mean_best_score=mean_score(best, seed=seed),
        played=len(played),
        faults=len(played) - len(scored(played)),
        faults_by_source=faults_by_source(played),
        unread=sum(review.critique is None and review.fault is None for review in critiques),
        unanswered=sum(review.fault is not None for review in critiques),
    )
