"""A critic's reviews of attempts, from the files for a part's episodes.

    reviews/<part>.jsonl       before a round of an evaluation: the next attempts are in trajectories/<part>.jsonl
    critiques/<step>.jsonl     of a step of training: the next attempts are in the same rollouts/<step>.jsonl

Not here: asking a critic (`align_echo.critic`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from align_echo.critic.review import CriticReview
from align_echo.session import Episode
from align_echo.view.finding import EpisodeFile
from align_echo.view.reading import DamagedLine, read_records

_Attempt = tuple[str, str, str, int, str]
"""Run, part (for a step of training), task, sample, and (for a round) the critique given to the agent."""


class _ReviewRecord(BaseModel):
    """A review with its attempt: an `Episode`, or its number and its task."""

    attempt: Episode | int
    review: CriticReview
    task_id: str = ""


@dataclass(frozen=True)
class PlacedReview:
    """A review, and the part with the episodes after it."""

    review: CriticReview
    part: str


class ReviewIndex:
    """All reviews of some runs, by attempt."""

    def __init__(self, parts: Sequence[EpisodeFile], damaged: list[DamagedLine]) -> None:
        """Reads the files for these parts; damaged lines are added to `damaged`."""
        self._heard: dict[_Attempt, list[PlacedReview]] = defaultdict(list)
        for part in parts:
            for record in read_records(part.critiques, _ReviewRecord, damaged) if part.critiques else ():
                if isinstance(record.attempt, int):
                    attempt: _Attempt = (part.run, part.part, record.task_id, record.attempt, "")
                else:
                    attempt = (part.run, "", record.attempt.task_id, record.attempt.sample, record.attempt.critique)
                self._heard[attempt].append(PlacedReview(record.review, part.part))

    def for_episode(self, part: EpisodeFile, task_id: str, sample: int, critique: str) -> list[PlacedReview]:
        """Return the reviews of an episode."""
        of_round = self._heard.get((part.run, "", task_id, sample, critique), [])
        return of_round + self._heard.get((part.run, part.part, task_id, sample, ""), [])
