"""A stage that keeps what was played on it and how long each part took, for the signals of a step.

Left out: held-out episodes, which are evaluations and no part of a step.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from align_echo.critic.reasoned_verdict import Judgement
from align_echo.critic.review import Review
from align_echo.critic.verdict import Verdict
from align_echo.faults import stop_if_hopeless
from align_echo.refusals import PlayJudge
from align_echo.rollout import HOPELESS
from align_echo.session import Episode
from align_echo.train.signals import Signals, of_play
from align_echo.train.stage import Made, Proposal, ReviewRequest, Stage
from align_echo.types import Trajectory, Usage


class ObservedStage:
    """Another stage, observed. `played` holds the policy's episodes, the broken ones too, `shown` the expert's, and
    `reviewed` what the critic said of attempts.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.played: list[Trajectory] = []
        self.shown: list[Trajectory] = []
        self.reviewed: list[tuple[Trajectory, Review]] = []
        self._spent = Usage()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def signals(self, judge: PlayJudge | None) -> Signals:
        """What came of it so far; `judge` tells refused turns, None where nobody does."""
        measured = of_play(self.played, judge) | {f"seconds/{name}": took for name, took in self._seconds.items()}
        drawing = self._seconds.get("play", 0.0) + self._seconds.get("critic", 0.0)
        sampled = self._spent.completion_tokens
        return measured | ({"tokens_per_second": sampled / drawing} if drawing and sampled else {})

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        """Counted as "play"."""
        with self._timed("play"):
            played = self._stage.play(episodes)
        self.played += played
        self._spent = sum((trajectory.usage for trajectory in played), self._spent)
        return played

    def review(self, requests: Sequence[ReviewRequest]) -> list[Review]:
        """Counted as "critic"."""
        with self._timed("critic"):
            reviews = self._stage.review(requests)
        self.reviewed += [(request.attempt, review) for request, review in zip(requests, reviews, strict=True)]
        self._spent = sum((review.usage for review in reviews), self._spent)
        return reviews

    def judge(self, proposals: Sequence[Proposal]) -> list[Judgement]:
        """Counted as "critic"."""
        with self._timed("critic"):
            judgements = self._stage.judge(proposals)
        self._spent = sum((judgement.usage for judgement in judgements), self._spent)
        return judgements

    def labels(self, played: Sequence[Trajectory]) -> list[list[Verdict | None]]:
        """Counted as "oracle"."""
        with self._timed("oracle"):
            return self._stage.labels(played)

    def lessons(self, queries: Sequence[str]) -> list[Trajectory]:
        """Counted as "oracle"."""
        with self._timed("oracle"):
            lessons = self._stage.lessons(queries)
        self.shown += lessons
        return lessons

    def opening(self, trajectory: Trajectory) -> tuple[int, ...]:
        """Not timed."""
        return self._stage.opening(trajectory)

    def overlapped(self, collect: Callable[[Stage, Sequence[str]], Made], queries: Sequence[str]) -> list[Made]:
        """Each part is observed by itself, and what all took is divided by kinds as their own times are.

        Raises `ModelError` or `AgentError` if the one of them broke every episode so far, `HOPELESS` at least: parts do
        not look at each other, and each may be too small to tell.
        """

        def observed(part: Stage, share: Sequence[str]) -> tuple[ObservedStage, Made]:
            seen = ObservedStage(part)
            return seen, collect(seen, share)

        begun = time.perf_counter()
        parts = self._stage.overlapped(observed, queries)
        took = time.perf_counter() - begun
        alone = sum(sum(seen._seconds.values()) for seen, _ in parts)
        for seen, _ in parts:
            self.played += seen.played
            self.shown += seen.shown
            self.reviewed += seen.reviewed
            self._spent += seen._spent
            for kind, seconds in seen._seconds.items():
                self._seconds[kind] += seconds * took / alone if alone else 0.0
        _check_hope(self.played)
        return [made for _, made in parts]

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self._seconds[part] += time.perf_counter() - begun


def _check_hope(played: Sequence[Trajectory]) -> None:
    faults = [trajectory.fault for trajectory in played if trajectory.fault is not None]
    if len(faults) == len(played) >= HOPELESS:
        stop_if_hopeless([fault.source for fault in faults], faults[-1])
