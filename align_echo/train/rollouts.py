"""Rollouts saved for reading: the episodes of one task of every batch, with the critic's replies.

    rollouts/<step>.jsonl    a `Trajectory` a line: each attempt, followed by those after critiques of it
    critiques/<step>.jsonl   a `CritiquedAttempt` a line: the critic's full replies, unreadable ones too

The task is the one with the most varied scores. Steps that learn from the same batch share a file, named after the
first of them. Not saved: token ids, and replies about single actions (RCM).
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, Field

from align_echo.base.files import clear
from align_echo.base.jsonl import JsonlFile
from align_echo.critic.ask import AttemptRecord, Label, Verdict
from align_echo.rollout.batches import HOPELESS
from align_echo.rollout.faults import stop_if_hopeless
from align_echo.rollout.refusals import PlayJudge
from align_echo.rollout.session import Episode
from align_echo.train.rows import RolloutBatch
from align_echo.train.signals import Signals, play_signals
from align_echo.train.stage import ActionProposal, CritiqueRequest, Made, Stage
from align_echo.types import Frozen, Trajectory, Usage

ROLLOUTS, CRITIQUES = "rollouts", "critiques"

MEBIBYTE = 2**20


class RolloutSettings(Frozen, allow_inf_nan=False):
    """Limits of the saved rollouts: `episodes` in a batch (0: none), and `mebibytes` in all."""

    episodes: int = Field(default=16, ge=0)
    """Maximum number of episodes of a batch; 0: none."""
    mebibytes: float = Field(default=64.0, gt=0)
    """Maximum size for the whole run."""


class CritiquedAttempt(Frozen):
    """A critic's reply about attempt number `attempt` (its `sample`) at task `task_id`."""

    task_id: str
    attempt: int
    review: AttemptRecord


class RolloutFiles:
    """The saved rollouts of a run of at most `steps` steps, in its folder."""

    def __init__(self, folder: Path, settings: RolloutSettings, steps: int) -> None:
        self._folder = folder
        self._settings = settings
        self._steps = steps

    def drop_from(self, step: int) -> None:
        """Remove the files of this step and later ones, before a resumed run repeats them."""
        for part in (ROLLOUTS, CRITIQUES):
            late = [file.name for file in (self._folder / part).glob("*.jsonl") if int(file.stem) >= step]
            clear(self._folder / part, late)

    def keep(self, step: int, batch: RolloutBatch) -> None:
        """Write the rollouts of a batch under the number of its first `step`, if there is room."""
        group = side_by_side(widest_group(batch.episodes), batch.critiqued)[: self._settings.episodes]
        parts: dict[str, Sequence[BaseModel]] = {
            ROLLOUTS: [without_tokens(episode) for episode in group],
            CRITIQUES: select_critiques(group, batch.critiqued),
        }
        size = sum(len(record.model_dump_json().encode()) + 1 for records in parts.values() for record in records)
        if self._written + size > room(step, self._steps, self._settings.mebibytes * MEBIBYTE):
            return
        for part, records in parts.items():
            file = JsonlFile(self._folder / part / f"{step}.jsonl")
            for record in records:
                file.append(record)

    @property
    def _written(self) -> int:
        """Number of bytes written so far."""
        files = [file for part in (ROLLOUTS, CRITIQUES) for file in (self._folder / part).glob("*.jsonl")]
        return sum(file.stat().st_size for file in files)


def room(step: int, steps: int, most: float) -> float:
    """Compute how many bytes may be in use by the end of a step.

    Half of `most` is available at once, the other half grows with the steps, so that the last steps are saved too.
    """
    return most * (1 + min(step, steps) / steps) / 2


def widest_group(episodes: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the episodes of the task with the largest variance of scores (the first of equals).

    Broken episodes have no score.
    """
    by_task: dict[str, list[Trajectory]] = defaultdict(list)
    for episode in episodes:
        by_task[episode.task_id].append(episode)
    return max(by_task.values(), key=_variance, default=[])


def _variance(group: Sequence[Trajectory]) -> float:
    scores = [episode.score for episode in group if episode.fault is None]
    return statistics.pvariance(scores) if scores else 0.0


def side_by_side(group: Sequence[Trajectory], critiqued: Sequence[tuple[Trajectory, Verdict]]) -> list[Trajectory]:
    """Order the episodes of a task: each is followed by the attempts after critiques of it."""
    known = {id(episode) for episode in group}
    criticised: dict[str, deque[Trajectory]] = defaultdict(deque)
    for attempt, verdict in critiqued:
        if verdict.critique is not None and id(attempt) in known:
            criticised[verdict.advice].append(attempt)
    following: dict[int, list[Trajectory]] = defaultdict(list)
    first: list[Trajectory] = []
    for episode in group:
        before = criticised[episode.critique] if episode.critique else None
        (following[id(before.popleft())] if before else first).append(episode)

    def with_following(episode: Trajectory) -> Iterator[Trajectory]:
        yield episode
        for later in following[id(episode)]:
            yield from with_following(later)

    return [attempt for episode in first for attempt in with_following(episode)]


def select_critiques(
    group: Sequence[Trajectory], critiqued: Sequence[tuple[Trajectory, Verdict]]
) -> list[CritiquedAttempt]:
    """Select the critic's replies about these episodes, in order."""
    known = {id(episode) for episode in group}
    return [
        CritiquedAttempt(
            task_id=attempt.task_id, attempt=attempt.sample, review=verdict.model_copy(update={"tokens": None})
        )
        for attempt, verdict in critiqued
        if id(attempt) in known
    ]


def without_tokens(episode: Trajectory) -> Trajectory:
    """Copy an episode without token ids and log-probabilities."""
    steps = tuple(step.model_copy(update={"tokens": None}) for step in episode.steps)
    return episode.model_copy(update={"steps": steps})


# ---------------------------------------------------------------- rollouts on record


class ObservedStage:
    """A stage that records what another one does: the policy's episodes in `played` (broken ones too), the expert's in
    `lessons_played`, attempts with the critic's verdicts in `critiqued`.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.played: list[Trajectory] = []
        self.lessons_played: list[Trajectory] = []
        self.critiqued: list[tuple[Trajectory, Verdict]] = []
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

    def critique(self, requests: Sequence[CritiqueRequest]) -> list[Verdict]:
        """Ask the critic for critiques, timed as "critic"."""
        with self._timed("critic"):
            verdicts = self._stage.critique(requests)
        self.critiqued += [(request.attempt, verdict) for request, verdict in zip(requests, verdicts, strict=True)]
        self._spent = sum((verdict.usage for verdict in verdicts), self._spent)
        return verdicts

    def judge(self, proposals: Sequence[ActionProposal]) -> list[Verdict]:
        """Ask the critic for verdicts, timed as "critic"."""
        with self._timed("critic"):
            judgements = self._stage.judge(proposals)
        self._spent = sum((judgement.usage for judgement in judgements), self._spent)
        return judgements

    def labels(self, played: Sequence[Trajectory]) -> list[list[Label | None]]:
        """Label actions, timed as "oracle"."""
        with self._timed("oracle"):
            return self._stage.labels(played)

    def lessons(self, tasks: Sequence[str]) -> list[Trajectory]:
        """Play the expert's episodes, timed as "oracle"."""
        with self._timed("oracle"):
            lessons = self._stage.lessons(tasks)
        self.lessons_played += lessons
        return lessons

    def demonstrations(self, names: Sequence[str]) -> list[Trajectory]:
        """Return stored episodes; nothing is played, so that nothing is recorded."""
        return self._stage.demonstrations(names)

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
            self.critiqued += seen.critiqued
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
