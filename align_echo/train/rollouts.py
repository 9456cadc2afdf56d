"""Rollouts that a run keeps to be read: of every step the episodes of one task, and what the critic said of them.

    rollouts/<step>.jsonl    a `Trajectory` a line: each attempt, and behind it those that followed critiques of it
    critiques/<step>.jsonl   a `ReviewedAttempt` a line: the critic's whole replies about them, the unreadable ones too

The task is the one whose scores differ most within the step. Several steps that learn from one harvest have one file,
named after the first of them. Left out: token ids, which are for learning, and replies about single actions (RCM).
"""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, Field

from align_echo.critic.review import Review
from align_echo.files import clear
from align_echo.jsonl import JsonlFile
from align_echo.train.rows import Harvest
from align_echo.types import Frozen, Trajectory

ROLLOUTS, CRITIQUES = "rollouts", "critiques"

MEBIBYTE = 2**20


class Rollouts(Frozen, allow_inf_nan=False):
    """What is kept: at most so many `episodes` a step (0: none at all), and at most `mebibytes` in all."""

    episodes: int = Field(default=16, ge=0)
    """Of a harvest, at most; 0: none."""
    mebibytes: float = Field(default=64.0, gt=0)
    """Of the whole run, at most."""


class ReviewedAttempt(Frozen):
    """A critic's reply about the attempt at `task_id` whose number is `attempt` (its `sample`)."""

    task_id: str
    attempt: int
    review: Review


class RolloutFiles:
    """The kept rollouts of a run of at most `steps` steps, in its folder."""

    def __init__(self, folder: Path, settings: Rollouts, steps: int) -> None:
        self._folder = folder
        self._settings = settings
        self._steps = steps

    def drop_from(self, step: int) -> None:
        """Remove what is of this step and later ones, which will be made again."""
        for part in (ROLLOUTS, CRITIQUES):
            late = [file.name for file in (self._folder / part).glob("*.jsonl") if int(file.stem) >= step]
            clear(self._folder / part, late)

    def keep(self, step: int, harvest: Harvest) -> None:
        """Write what is kept of a harvest from which `step` is the first to learn; nothing where there is no room."""
        group = side_by_side(widest_group(harvest.episodes), harvest.reviewed)[: self._settings.episodes]
        parts: dict[str, Sequence[BaseModel]] = {
            ROLLOUTS: [without_tokens(episode) for episode in group],
            CRITIQUES: reviews_of(group, harvest.reviewed),
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
        """Bytes of all that is kept so far."""
        files = [file for part in (ROLLOUTS, CRITIQUES) for file in (self._folder / part).glob("*.jsonl")]
        return sum(file.stat().st_size for file in files)


def room(step: int, steps: int, most: float) -> float:
    """How many bytes may be kept by the end of a step. Half of `most` may be used at once, and the other half as the
    run goes on, so that its last steps are kept too.
    """
    return most * (1 + min(step, steps) / steps) / 2


def widest_group(episodes: Sequence[Trajectory]) -> list[Trajectory]:
    """The episodes of the task whose scores have the greatest variance, the first of equals; broken ones have none."""
    by_task: dict[str, list[Trajectory]] = defaultdict(list)
    for episode in episodes:
        by_task[episode.task_id].append(episode)
    return max(by_task.values(), key=_variance, default=[])


def _variance(group: Sequence[Trajectory]) -> float:
    scores = [episode.score for episode in group if episode.fault is None]
    return statistics.pvariance(scores) if scores else 0.0


def side_by_side(
    group: Sequence[Trajectory], reviewed: Sequence[tuple[Trajectory, Review]]
) -> list[Trajectory]:
    """The episodes of one task, behind each of them those that followed critiques of it."""
    known = {id(episode) for episode in group}
    criticised: dict[str, deque[Trajectory]] = defaultdict(deque)
    for attempt, review in reviewed:
        if review.critique is not None and id(attempt) in known:
            criticised[review.advice].append(attempt)
    following: dict[int, list[Trajectory]] = defaultdict(list)
    first: list[Trajectory] = []
    for episode in group:
        before = criticised[episode.critique] if episode.critique else None
        (following[id(before.popleft())] if before else first).append(episode)

    def with_following(episode: Trajectory) -> Iterator[Trajectory]:
        yield episode
        for later in following[id(episode)]:
            yield from with_following(later)

    return [shown for episode in first for shown in with_following(episode)]


def reviews_of(
    group: Sequence[Trajectory], reviewed: Sequence[tuple[Trajectory, Review]]
) -> list[ReviewedAttempt]:
    """What the critic said of these episodes, in the order in which it was asked."""
    known = {id(episode) for episode in group}
    return [
        ReviewedAttempt(
            task_id=attempt.task_id, attempt=attempt.sample, review=review.model_copy(update={"tokens": None})
        )
        for attempt, review in reviewed
        if id(attempt) in known
    ]


def without_tokens(episode: Trajectory) -> Trajectory:
    """An episode to be read, without token ids and their log-probabilities."""
    steps = tuple(step.model_copy(update={"tokens": None}) for step in episode.steps)
    return episode.model_copy(update={"steps": steps})
