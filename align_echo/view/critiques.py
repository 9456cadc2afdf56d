"""What a critic said of attempts, in the files beside those of episodes.

    reviews/<part>.jsonl       before a round of an evaluation: the next attempts are in trajectories/<part>.jsonl
    critiques/<step>.jsonl     of a step of training: the next attempts are in the same rollouts/<step>.jsonl

Left out: asking a critic (`align_echo.critic`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from align_echo.critic.review import Review
from align_echo.session import Episode
from align_echo.view.finding import EpisodeFile
from align_echo.view.reading import DamagedLine, records_of

_Attempt = tuple[str, str, str, int, str]
"""Run, part (of a step of training), task, sample, and (of a round) the critique that was shown."""


class _Said(BaseModel):
    """A review with the attempt that it is of: an `Episode`, or its number and, beside it, its task."""

    attempt: Episode | int
    review: Review
    task_id: str = ""


@dataclass(frozen=True)
class PlacedReview:
    """A review, and the part whose episodes followed it."""

    review: Review
    part: str


class Critiques:
    """All reviews of some runs, by the attempt that they are of."""

    def __init__(self, parts: Sequence[EpisodeFile], damaged: list[DamagedLine]) -> None:
        """Reads the files beside those of episodes; damaged lines are added to `damaged`."""
        self._heard: dict[_Attempt, list[PlacedReview]] = defaultdict(list)
        for part in parts:
            for said in records_of(part.critiques, _Said, damaged) if part.critiques else ():
                if isinstance(said.attempt, int):
                    of: _Attempt = (part.run, part.part, said.task_id, said.attempt, "")
                else:
                    of = (part.run, "", said.attempt.task_id, said.attempt.sample, said.attempt.critique)
                self._heard[of].append(PlacedReview(said.review, part.part))

    def of(self, part: EpisodeFile, task_id: str, sample: int, critique: str) -> list[PlacedReview]:
        """What was said of an episode of a part."""
        of_round = self._heard.get((part.run, "", task_id, sample, critique), [])
        return of_round + self._heard.get((part.run, part.part, task_id, sample, ""), [])
