"""Read what belongs to the episodes of runs: an oracle's labels, and critiques.

Not here: the episodes (`rollout/episode_files.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from align_echo.critic.ask import Verdict
from align_echo.gaia.collect import LABELS
from align_echo.gaia.examples import LabelledEpisode
from align_echo.rollout.episode_files import DamagedLine, EpisodeFile, read_records
from align_echo.rollout.session import Episode
from align_echo.types import Trajectory

# ---------------------------------------------------------------- labels

Labels = dict[str, str]
"""By action: its label by each rule, in words; without actions undecided by all rules."""


class OracleLabels:
    """All labels of some runs, by episode."""

    def __init__(self, parts: Sequence[EpisodeFile], damaged: list[DamagedLine]) -> None:
        """Reads the label files of these parts; damaged lines are added to `damaged`."""
        self._known: dict[tuple[str, str, int], LabelledEpisode] = {}
        for run, folder in dict.fromkeys((part.run, part.folder) for part in parts):
            file = folder / LABELS
            for labelled in read_records(file, LabelledEpisode, damaged) if file.is_file() else ():
                self._known[run, labelled.task_id, labelled.sample] = labelled

    def for_episode(self, part: EpisodeFile, trajectory: Trajectory) -> list[Labels]:
        """Return the labels of each turn of an episode; empty for an episode without any."""
        labelled = self._known.get((part.run, trajectory.task_id, trajectory.sample))
        if labelled is None or not labelled.belongs_to(trajectory):
            return [{} for _ in trajectory.steps]
        return [
            {
                action.action: ", ".join(f"{rule}: {label}" for rule, label in action.labels.items() if label)
                for action in turn
                if any(action.labels.values())
            }
            for turn in labelled.turns
        ]


# ---------------------------------------------------------------- critiques

_Attempt = tuple[str, str, str, int, str]
"""Run, part (for a step of training), task, sample, and (for a round) the critique given to the agent."""


class _CritiqueRecord(BaseModel):
    """A critique with its attempt: an `Episode`, or its number and its task."""

    attempt: Episode | int
    review: Verdict
    task_id: str = ""


@dataclass(frozen=True)
class PlacedCritique:
    """A critique, and the part with the episodes after it."""

    review: Verdict
    part: str


class CritiqueIndex:
    """All critiques of some runs, by attempt."""

    def __init__(self, parts: Sequence[EpisodeFile], damaged: list[DamagedLine]) -> None:
        """Reads the files for these parts; damaged lines are added to `damaged`."""
        self._heard: dict[_Attempt, list[PlacedCritique]] = defaultdict(list)
        for part in parts:
            for record in read_records(part.critiques, _CritiqueRecord, damaged) if part.critiques else ():
                if isinstance(record.attempt, int):
                    attempt: _Attempt = (part.run, part.part, record.task_id, record.attempt, "")
                else:
                    attempt = (part.run, "", record.attempt.task_id, record.attempt.sample, record.attempt.critique)
                self._heard[attempt].append(PlacedCritique(record.review, part.part))

    def for_episode(self, part: EpisodeFile, task_id: str, sample: int, critique: str) -> list[PlacedCritique]:
        """Return the critiques of an episode."""
        of_round = self._heard.get((part.run, "", task_id, sample, critique), [])
        return of_round + self._heard.get((part.run, part.part, task_id, sample, ""), [])
