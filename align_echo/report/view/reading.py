"""Read the episodes of a file one by one, even if a killed process or another program damaged it.

A line that is no `Trajectory` is skipped and reported. Lone surrogates and invalid UTF-8 are replaced by marks. A last
line without an end is read if it is complete; otherwise its writer was killed, or is still writing. Not here: finding
files (`finding.py`).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from align_echo.base.files import read_lines
from align_echo.base.plain_yaml import first_wrong, parse_json
from align_echo.critic.ask import Verdict
from align_echo.errors import printable
from align_echo.gaia.collect import LABELS
from align_echo.gaia.examples import LabelledEpisode
from align_echo.report.view.finding import EpisodeFile
from align_echo.rollout.session import Episode
from align_echo.types import Trajectory, impossible

MOST_TOLD = 5
"""Damaged lines of a file to report individually."""

LONGEST_REASON = 120

Kind = TypeVar("Kind", bound=BaseModel)
_HALVES = re.compile("[\ud800-\udfff]")


class DamagedLine(NamedTuple):
    """An unreadable line, counted from 1. `is_cut` marks a last line without an end."""

    file: Path
    line: int
    reason: str
    is_cut: bool = False


def read_episodes(file: Path, damaged: list[DamagedLine]) -> Iterator[Trajectory]:
    """Read the episodes of a file in order. Damaged lines are added to `damaged`."""
    yield from read_records(file, Trajectory, damaged)


def read_records(
    file: Path, kind: type[Kind], damaged: list[DamagedLine], *, folder: Path | None = None
) -> Iterator[Kind]:
    """Read the records of one kind in a file. Damaged lines are added to `damaged`. Raises as `read_lines`."""
    for number, line in enumerate(read_lines(file, folder=folder), start=1):
        if not line.strip():
            continue
        try:
            record = _record(line, kind)
            if isinstance(record, Trajectory) and (problem := impossible(record)):
                raise ValueError(problem)
            yield record
        except ValueError as error:
            damaged.append(DamagedLine(file, number, _reason(error), is_cut=_is_cut(line, error)))


def describe_damage(damaged: list[DamagedLine]) -> list[str]:
    """Describe damaged lines: the first of each file one by one, the rest as a count."""
    lines = []
    for file in dict.fromkeys(entry.file for entry in damaged):
        entries = [entry for entry in damaged if entry.file == file and not entry.is_cut]
        name = printable(str(file))
        lines += [f"{name} line {entry.line} is damaged and left out: {entry.reason}" for entry in entries[:MOST_TOLD]]
        more = len(entries) - MOST_TOLD
        lines += [f"{name}: {more} more lines are damaged and left out"] if more > 0 else []
        is_cut = any(entry.is_cut for entry in damaged if entry.file == file)
        lines += [f"the last line of {name} is not whole and is left out"] if is_cut else []
    return lines


def _record(line: bytes, kind: type[Kind]) -> Kind:
    """Parse a line. Raises `ValueError`, the base of pydantic's own error."""
    try:
        return kind.model_validate_json(line, strict=issubclass(kind, Trajectory))
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] != "json_invalid":
            raise
        try:
            stored = parse_json(line.decode("utf-8", "replace"))
        except ValueError:
            raise error from None
        mended = _HALVES.sub("\ufffd", json.dumps(stored, ensure_ascii=False))
        return kind.model_validate_json(mended, strict=issubclass(kind, Trajectory))


def _is_cut(line: bytes, error: ValueError) -> bool:
    """Return whether a line ends before its record does."""
    if line.endswith(b"\n") or not isinstance(error, ValidationError):
        return False
    return error.errors(include_url=False)[0]["type"] == "json_invalid"


def _reason(error: ValueError) -> str:
    reason = first_wrong(error) if isinstance(error, ValidationError) else str(error)
    return " ".join(printable(reason[:LONGEST_REASON]).split())


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
