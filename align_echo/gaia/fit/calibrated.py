"""How a critic of one word is made, whatever it reads: it learns, is tested, is calibrated and put in place.

Left out: critics that reason, which have no temperature (`reasoning.py`), and the folder (`folder.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from align_echo.critic.calibration import (
    CriticReport,
    LabelledVerdict,
    fit_temperature,
    report,
)
from align_echo.critic.scoring import Calibrated, write_calibration
from align_echo.critic.verdict import Verdict
from align_echo.gaia.fit.folder import beside, merged, put_in_place
from align_echo.progress import SILENT, Progress
from align_echo.runs import CHECKPOINTS, newest_checkpoint

if TYPE_CHECKING:
    from align_echo.gaia.fit.trainer import LearningSettings, Telling


class Material(Protocol):
    """A model with what it learns from and what it is tested on."""

    def fit(self, checkpoints: Path, *, resume: bool, telling: Telling) -> Any:
        """The model that learned, with its adapter where it has one."""

    def unjudged(self) -> list[LabelledVerdict]:
        """What it is tested on, without verdicts."""

    def verdicts(self, critic: Any) -> Sequence[tuple[Verdict | None, float]]:
        """What the critic says of it, in the same order, with logits."""

    def save(self, critic: Any, folder: Path) -> None:
        """Write the critic with what encodes its questions."""


class Calibrating(NamedTuple):
    """A critic's temperature, how it does on what it was tested on (None without any), and its verdicts there."""

    temperature: float
    held_out: CriticReport | None
    rows: list[LabelledVerdict]


def fit_calibrated(
    path: Path, material: Material, settings: LearningSettings, progress: Progress = SILENT
) -> Calibrating:
    """Train, from the last checkpoint that is whole, and put the critic in place. Without anything that it is tested on
    it is not calibrated: temperature 1, and no report.
    """
    from align_echo.gaia.fit.trainer import Telling

    checkpoints = path / CHECKPOINTS
    learned = material.fit(checkpoints, resume=bool(newest_checkpoint(checkpoints)), telling=Telling(progress.say))
    folder = beside(path)
    critic = merged(learned, settings.weights, folder)
    unjudged = material.unjudged()
    said = material.verdicts(critic) if unjudged else []
    rows = [replace(row, verdict=verdict, logit=logit) for row, (verdict, logit) in zip(unjudged, said, strict=True)]
    truth = [row.label == "correct" for row in rows]
    temperature = fit_temperature([logit for _, logit in said], truth) if rows else 1.0
    material.save(critic, folder)
    if rows:
        write_calibration(Calibrated(temperature=temperature, n=len(rows)), folder)
    put_in_place(folder)
    return Calibrating(temperature, report(rows, temperature, seed=settings.seed) if rows else None, rows)
