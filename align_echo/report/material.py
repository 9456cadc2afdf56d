"""What the files of runs hold, read once for all plots; what is damaged or missing is kept to be told of.

    summary.json         of every verb, written last
    trajectories/        of evaluations: read only to tell which episodes are damaged
    signals.jsonl, held_out.jsonl, refinements.jsonl, critiques/<step>.jsonl     of training

Left out: which runs there are (`finding.py`), and what is drawn of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

from align_echo.critic.review import Review
from align_echo.errors import UsageError
from align_echo.intervals import Percent, Score
from align_echo.reading import first_wrong, json_object
from align_echo.report.finding import RecordedRun
from align_echo.runs import SUMMARY
from align_echo.sandbox.session import printable
from align_echo.train.rollouts import CRITIQUES, ReviewedAttempt
from align_echo.types import Trajectory
from align_echo.view.finding import EPISODES
from align_echo.view.reading import DamagedLine, records_of, told

Kind = TypeVar("Kind", bound=BaseModel)
PHASES = ("early", "middle", "late")
"""The thirds of a training run, by its steps."""


class StepSignals(BaseModel):
    """A line of `signals.jsonl`: the number of the step, and every signal by its name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float]

    step: int

    @property
    def values(self) -> dict[str, float]:
        """The signals by name."""
        return self.__pydantic_extra__


class HeldOutFigures(BaseModel):
    """A line of `held_out.jsonl`: figures of held-out tasks once `step` steps were made."""

    step: int
    score: Score
    success: Percent


class StepScores(BaseModel):
    """A line of `refinements.jsonl`: scores (before, after) of the refined attempts of a harvest."""

    step: int
    scores: list[tuple[FiniteFloat, FiniteFloat]]


@dataclass
class Material:
    """Runs, what was damaged in their files, and what else is to be told of them. Files are read when asked for."""

    runs: Sequence[RecordedRun]
    damaged: list[DamagedLine] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _read: dict[tuple[Path, type[BaseModel]], list[Any]] = field(default_factory=dict)

    def of_verb(self, *verbs: str) -> list[RecordedRun]:
        """The runs of these verbs."""
        return [run for run in self.runs if run.verb in verbs]

    def told(self) -> list[str]:
        """What was damaged or missing, in lines."""
        return [*told(self.damaged), *map(printable, dict.fromkeys(self.notes))]

    def summary(self, run: RecordedRun, kind: type[Kind]) -> Kind | None:
        """What a run's `summary.json` holds; None, and a note, where it is not there yet or cannot be read as this."""
        parsed = self.summary_object(run)
        if parsed is None:
            return None
        try:
            return kind.model_validate(parsed)
        except ValidationError as error:
            self.notes.append(f"{run.folder / SUMMARY} is damaged and left out: {first_wrong(error)}")
            return None

    def summary_object(self, run: RecordedRun) -> dict[str, Any] | None:
        """The same as it stands there."""
        file = run.folder / SUMMARY
        if not os.path.lexists(file):
            self.notes.append(f"{run.name} is not finished: it has no {SUMMARY} yet (go on with --resume)")
            return None
        with self._told_where_unreadable(file):
            parsed = json_object(file, folder=run.folder)
            if parsed is None:
                self.notes.append(f"{file} is damaged and left out")
            return parsed
        return None

    def check_episodes(self, run: RecordedRun) -> None:
        """Note which of an evaluation's episodes cannot be read: its figures come from its `summary.json` alone."""
        damaged, notes = len(self.damaged), len(self.notes)
        for file in sorted((run.folder / EPISODES).glob("*.jsonl")):
            with self._told_where_unreadable(file):
                for _ in records_of(file, Trajectory, self.damaged, folder=run.folder):
                    pass
        is_damaged = (len(self.damaged), len(self.notes)) != (damaged, notes)
        if is_damaged and os.path.lexists(run.folder / SUMMARY):
            self.notes.append(f"the figures of {run.name} come from its {SUMMARY}, not from its {EPISODES}")

    def lines(self, run: RecordedRun, file: Path, kind: type[Kind]) -> list[Kind]:
        """The whole lines of a file of a run; none where there is no file."""
        if (file, kind) not in self._read:
            self._read[file, kind] = []
            if os.path.lexists(file):
                with self._told_where_unreadable(file):
                    self._read[file, kind] = list(records_of(file, kind, self.damaged, folder=run.folder))
        return list(self._read[file, kind])

    @contextmanager
    def _told_where_unreadable(self, file: Path) -> Iterator[None]:
        """Note that a file is left out where it cannot be read at all."""
        try:
            yield
        except UsageError as error:
            self.notes.append(f"{error} (it is left out)")
        except OSError as error:
            self.notes.append(f"{file} cannot be read and is left out: {error.strerror}")

    def signals(self, run: RecordedRun) -> list[StepSignals]:
        """The signals of a training run, step by step."""
        return self.lines(run, run.folder / "signals.jsonl", StepSignals)

    def held_out(self, run: RecordedRun) -> list[HeldOutFigures]:
        """Its held-out figures, the first before any step."""
        return self.lines(run, run.folder / "held_out.jsonl", HeldOutFigures)

    def refinements(self, run: RecordedRun) -> list[StepScores]:
        """Its scores before and after, harvest by harvest."""
        return self.lines(run, run.folder / "refinements.jsonl", StepScores)

    def critiques(self, run: RecordedRun) -> Iterator[tuple[int, Review]]:
        """The critiques that it kept, each with the step that learned from it first, in order."""
        files = [file for file in (run.folder / CRITIQUES).glob("*.jsonl") if file.stem.isdecimal()]
        for file in sorted(files, key=lambda file: int(file.stem)):
            for kept in self.lines(run, file, ReviewedAttempt):
                yield int(file.stem), kept.review

    def phase(self, run: RecordedRun, step: int) -> str:
        """The third of a run that a step belongs to, by the steps that it has made."""
        last = max((line.step for line in self.signals(run)), default=step)
        return PHASES[min((step - 1) * len(PHASES) // max(last, 1), len(PHASES) - 1)]
