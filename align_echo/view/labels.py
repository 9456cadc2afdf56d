"""An oracle's labels of the proposed actions, if the episodes are from a collection.

    labels.jsonl      one `LabelledEpisode` a line (`gaia/collection.py`)

Not here: labelling (`gaia/labelling.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from align_echo.critic.labels import Rule
from align_echo.gaia.collection import LABELS
from align_echo.gaia.labelling import LabelledEpisode
from align_echo.types import Trajectory
from align_echo.view.finding import EpisodeFile
from align_echo.view.reading import DamagedLine, read_records

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
                action.action: ", ".join(f"{rule}: {label}" for rule in get_args(Rule) if (label := action.label(rule)))
                for action in turn
                if any(action.label(rule) for rule in get_args(Rule))
            }
            for turn in labelled.turns
        ]
