"""Read the files of runs once for all plots, and note damaged or missing ones.

    summary.json         of every verb, written last
    trajectories/        of evaluations: read only to find damaged episodes
    signals.jsonl, held_out.jsonl, refinements.jsonl, critiques/<step>.jsonl     of training

Not here: finding runs (`finding.py`), and the plots.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

from align_echo.critic.review import CriticReview
from align_echo.errors import UsageError
from align_echo.intervals import Percent, Score
from align_echo.reading import first_wrong, json_object
from align_echo.report.finding import RecordedRun
from align_echo.runs import SUMMARY
from align_echo.sandbox.session import printable
from align_echo.train.rollouts import CRITIQUES, ReviewedAttempt
from align_echo.types import Trajectory
from align_echo.view.finding import EPISODES
from align_echo.view.reading import DamagedLine, describe_damage, read_records

Kind = TypeVar("Kind", bound=BaseModel)
PHASES = ("early", "middle", "late")
"""Thirds of a training run, by its steps."""


class StepSignals(BaseModel):
    """A line of `signals.jsonl`: the number of the step, and every signal by its name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float]

    step: int

    @property
    def values(self) -> dict[str, float]:
        """Return the signals by name."""
        return self.__pydantic_extra__


class HeldOutFigures(BaseModel):
    """A line of `held_out.jsonl`: figures on held-out tasks after `step` steps."""

    step: int
    score: Score
    success: Percent


class StepScores(BaseModel):
    """A line of `refinements.jsonl`: scores (before, after) of a step's refined attempts."""

    step: int
    scores: list[tuple[FiniteFloat, FiniteFloat]]


@dataclass
class ReportData:
    """Runs with their damaged lines and notes on missing files. Files are read on demand."""

    runs: Sequence[RecordedRun]
    damaged: list[DamagedLine] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _read: dict[tuple[Path, type[BaseModel]], list[Any]] = field(default_factory=dict)

    def runs_with_verb(self, *verbs: str) -> list[RecordedRun]:
        """Return the runs of these verbs."""
        return [run for run in self.runs if run.verb in verbs]

    def problems(self) -> list[str]:
        """List damaged and missing parts, a line each."""
        return [*describe_damage(self.damaged), *map(printable, dict.fromkeys(self.notes))]

    def summary(self, run: RecordedRun, kind: type[Kind]) -> Kind | None:
        """Read a run's `summary.json`; None, with a note, if it is missing or invalid."""
        parsed = self.summary_object(run)
        if parsed is None:
            return None
        try:
            return kind.model_validate(parsed)
        except ValidationError as error:
            self.notes.append(f"{run.folder / SUMMARY} is damaged and left out: {first_wrong(error)}")
            return None

    def summary_object(self, run: RecordedRun) -> dict[str, Any] | None:
        """Read a run's `summary.json` without validation."""
        file = run.folder / SUMMARY
        if not os.path.lexists(file):
            self.notes.append(f"{run.name} is not finished: it has no {SUMMARY} yet (go on with --resume)")
            return None
        with self._noting_unreadable(file):
            parsed = json_object(file, folder=run.folder)
            if parsed is None:
                self.notes.append(f"{file} is damaged and left out")
            return parsed
        return None

    def check_episodes(self, run: RecordedRun) -> None:
        """Note unreadable episodes of an evaluation: its figures come from its `summary.json` alone."""
        damaged, notes = len(self.damaged), len(self.notes)
        for file in sorted((run.folder / EPISODES).glob("*.jsonl")):
            with self._noting_unreadable(file):
                for _ in read_records(file, Trajectory, self.damaged, folder=run.folder):
                    pass
        is_damaged = (len(self.damaged), len(self.notes)) != (damaged, notes)
        if is_damaged and os.path.lexists(run.folder / SUMMARY):
            self.notes.append(f"the figures of {run.name} come from its {SUMMARY}, not from its {EPISODES}")

    def lines(self, run: RecordedRun, file: Path, kind: type[Kind]) -> list[Kind]:
        """Read the complete lines of a run's file; none without a file."""
        if (file, kind) not in self._read:
            self._read[file, kind] = []
            if os.path.lexists(file):
                with self._noting_unreadable(file):
                    self._read[file, kind] = list(read_records(file, kind, self.damaged, folder=run.folder))
        return list(self._read[file, kind])

    @contextmanager
    def _noting_unreadable(self, file: Path) -> Iterator[None]:
        """Note a file left out because it cannot be read at all."""
        try:
            yield
        except UsageError as error:
            self.notes.append(f"{error} (it is left out)")
        except OSError as error:
            self.notes.append(f"{file} cannot be read and is left out: {error.strerror}")

    def signals(self, run: RecordedRun) -> list[StepSignals]:
        """Read the signals of a training run, step by step."""
        return self.lines(run, run.folder / "signals.jsonl", StepSignals)

    def held_out(self, run: RecordedRun) -> list[HeldOutFigures]:
        """Read its held-out figures, the first before any step."""
        return self.lines(run, run.folder / "held_out.jsonl", HeldOutFigures)

    def refinements(self, run: RecordedRun) -> list[StepScores]:
        """Read its scores before and after, step by step."""
        return self.lines(run, run.folder / "refinements.jsonl", StepScores)

    def critiques(self, run: RecordedRun) -> Iterator[tuple[int, CriticReview]]:
        """Read its stored critiques, each with the first step trained on it, in order."""
        files = [file for file in (run.folder / CRITIQUES).glob("*.jsonl") if file.stem.isdecimal()]
        for file in sorted(files, key=lambda file: int(file.stem)):
            for attempt in self.lines(run, file, ReviewedAttempt):
                yield int(file.stem), attempt.review

    def phase(self, run: RecordedRun, step: int) -> str:
        """Return the third of a run that contains a step, by the steps so far."""
        last = max((line.step for line in self.signals(run)), default=step)
        return PHASES[min((step - 1) * len(PHASES) // max(last, 1), len(PHASES) - 1)]
