"""What an oracle said of the actions that were proposed, where a collection keeps it beside its episodes.

    labels.jsonl      one `LabelledEpisode` a line (`gaia/collection.py`)

Left out: labelling (`gaia/labelling.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from align_echo.critic.labels import Rule
from align_echo.gaia.collection import LABELS
from align_echo.gaia.labelling import LabelledEpisode
from align_echo.types import Trajectory
from align_echo.view.finding import EpisodeFile
from align_echo.view.reading import DamagedLine, records_of

Labels = dict[str, str]
"""By action: what each rule calls it, in words; the actions that no rule can tell are left out."""


class OracleLabels:
    """All labels of some runs, by the episode that they are of."""

    def __init__(self, parts: Sequence[EpisodeFile], damaged: list[DamagedLine]) -> None:
        """Reads the files beside the parts; damaged lines are added to `damaged`."""
        self._known: dict[tuple[str, str, int], LabelledEpisode] = {}
        for run, folder in dict.fromkeys((part.run, part.folder) for part in parts):
            file = folder / LABELS
            for labelled in records_of(file, LabelledEpisode, damaged) if file.is_file() else ():
                self._known[run, labelled.task_id, labelled.sample] = labelled

    def of(self, part: EpisodeFile, played: Trajectory) -> list[Labels]:
        """The labels of each turn of an episode; nothing for one that has none."""
        labelled = self._known.get((part.run, played.task_id, played.sample))
        if labelled is None or not labelled.belongs_to(played):
            return [{} for _ in played.steps]
        return [
            {
                each.action: ", ".join(f"{rule}: {label}" for rule in get_args(Rule) if (label := each.label(rule)))
                for each in turn
                if any(each.label(rule) for rule in get_args(Rule))
            }
            for turn in labelled.turns
        ]
