"""How `align-echo critic train` makes a critic of one word, whatever it reads: learn, test, calibrate, put in place.

Left out: critics that reason, which have no temperature (`fit_reasoning.py`), and the folder (`fit_folder.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from align_echo.cli.console import note
from align_echo.cli.critic_report import show_report
from align_echo.cli.fit_folder import CHECKPOINTS, beside, merged, put_in_place
from align_echo.critic.calibration import (
    LEAST_TEMPERATURE,
    CriticReport,
    LabelledVerdict,
    fit_temperature,
    report,
)
from align_echo.critic.scoring import Calibrated, write_calibration
from align_echo.critic.verdict import Verdict
from align_echo.train.run_folder import newest_checkpoint

if TYPE_CHECKING:
    from align_echo.flywheel.verdict_trainer import LearningSettings, Telling


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


def fit_calibrated(path: Path, material: Material, settings: LearningSettings) -> tuple[float, CriticReport | None]:
    """Train, from the last checkpoint that is whole, and put the critic in place: its temperature, and how it does on
    what it is tested on. Without any of that it is not calibrated: temperature 1, and no report.
    """
    from align_echo.flywheel.verdict_trainer import Telling

    checkpoints = path / CHECKPOINTS
    learned = material.fit(checkpoints, resume=bool(newest_checkpoint(checkpoints)), telling=Telling(note))
    folder = beside(path)
    critic = merged(learned, settings.weights, folder)
    unjudged = material.unjudged()
    said = material.verdicts(critic) if unjudged else []
    rows = [replace(one, verdict=verdict, logit=logit) for one, (verdict, logit) in zip(unjudged, said, strict=True)]
    truth = [one.label == "correct" for one in rows]
    temperature = fit_temperature([logit for _, logit in said], truth) if rows else 1.0
    material.save(critic, folder)
    if rows:
        write_calibration(Calibrated(temperature=temperature, n=len(rows)), folder)
    put_in_place(folder)
    return temperature, report(rows, temperature, seed=settings.seed) if rows else None


def tell(held_out: CriticReport | None, temperature: float, unit: str) -> None:
    """How a critic does on what was held out, which is counted by `unit`: "task" or "episode"."""
    if held_out is None:
        print(f"no {unit} was held out: the critic is neither tested nor calibrated, its temperature is 1")
        return
    show_report(held_out, f"held-out {unit}s, as many correct as wrong ones")
    if temperature < 2 * LEAST_TEMPERATURE:
        note("its logits separate the held-out actions: these are too few to calibrate on, hold out more")
