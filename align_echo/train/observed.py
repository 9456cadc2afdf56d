"""A stage that records its episodes and the time of each part, for the signals of a step.

Not here: held-out episodes, which belong to evaluations.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from align_echo.critic.reasoned_verdict import ReasonedVerdict
from align_echo.critic.review import CriticReview
from align_echo.critic.verdict import Verdict
from align_echo.faults import stop_if_hopeless
from align_echo.refusals import PlayJudge
from align_echo.rollout import HOPELESS
from align_echo.session import Episode
from align_echo.train.signals import Signals, play_signals
from align_echo.train.stage import ActionProposal, Made, ReviewRequest, Stage
from align_echo.types import Trajectory, Usage


class ObservedStage:
    """A stage that records what another one does: the policy's episodes in `played` (broken ones too), the expert's in
    `lessons_played`, attempts with the critic's reviews in `reviewed`.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.played: list[Trajectory] = []
        self.lessons_played: list[Trajectory] = []
        self.reviewed: list[tuple[Trajectory, CriticReview]] = []
        self._spent = Usage()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def signals(self, judge: PlayJudge | None) -> Signals:
        """Compute the signals so far. `judge` identifies refused turns; None if unknown."""
        measured = play_signals(self.played, judge) | {f"seconds/{name}": took for name, took in self._seconds.items()}
        drawing = self._seconds.get("play", 0.0) + self._seconds.get("critic", 0.0)
        sampled = self._spent.completion_tokens
        return measured | ({"tokens_per_second": sampled / drawing} if drawing and sampled else {})

    def play(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        """Play episodes, timed as "play"."""
        with self._timed("play"):
            played = self._stage.play(episodes)
        self.played += played
        self._spent = sum((trajectory.usage for trajectory in played), self._spent)
        return played

    def review(self, requests: Sequence[ReviewRequest]) -> list[CriticReview]:
        """Ask the critic for reviews, timed as "critic"."""
        with self._timed("critic"):
            reviews = self._stage.review(requests)
        self.reviewed += [(request.attempt, review) for request, review in zip(requests, reviews, strict=True)]
        self._spent = sum((review.usage for review in reviews), self._spent)
        return reviews

    def judge(self, proposals: Sequence[ActionProposal]) -> list[ReasonedVerdict]:
        """Ask the critic for verdicts, timed as "critic"."""
        with self._timed("critic"):
            judgements = self._stage.judge(proposals)
        self._spent = sum((judgement.usage for judgement in judgements), self._spent)
        return judgements

    def labels(self, played: Sequence[Trajectory]) -> list[list[Verdict | None]]:
        """Label actions, timed as "oracle"."""
        with self._timed("oracle"):
            return self._stage.labels(played)

    def lessons(self, tasks: Sequence[str]) -> list[Trajectory]:
        """Play the expert's episodes, timed as "oracle"."""
        with self._timed("oracle"):
            lessons = self._stage.lessons(tasks)
        self.lessons_played += lessons
        return lessons

    def opening(self, trajectory: Trajectory) -> tuple[int, ...]:
        """Return the tokens before the first reply; not timed."""
        return self._stage.opening(trajectory)

    def overlapped(self, collect: Callable[[Stage, Sequence[str]], Made], tasks: Sequence[str]) -> list[Made]:
        """Collect the parts and record each. The total time is divided in proportion to the parts' own times.

        Raises `ModelError` or `AgentError` if one of these broke every episode so far, and there were `HOPELESS` or
        more: a single part may be too small for this check.
        """

        def observed(part: Stage, share: Sequence[str]) -> tuple[ObservedStage, Made]:
            seen = ObservedStage(part)
            return seen, collect(seen, share)

        start = time.perf_counter()
        parts = self._stage.overlapped(observed, tasks)
        took = time.perf_counter() - start
        alone = sum(sum(seen._seconds.values()) for seen, _ in parts)
        for seen, _ in parts:
            self.played += seen.played
            self.lessons_played += seen.lessons_played
            self.reviewed += seen.reviewed
            self._spent += seen._spent
            for kind, seconds in seen._seconds.items():
                self._seconds[kind] += seconds * took / alone if alone else 0.0
        _check_hope(self.played)
        return [result for _, result in parts]

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self._seconds[part] += time.perf_counter() - start


def _check_hope(played: Sequence[Trajectory]) -> None:
    faults = [trajectory.fault for trajectory in played if trajectory.fault is not None]
    if len(faults) == len(played) >= HOPELESS:
        stop_if_hopeless([fault.source for fault in faults], faults[-1])
