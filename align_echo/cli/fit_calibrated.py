"""How `align-echo critic train` makes a critic of one word, whatever it reads: learn, test, calibrate, put in place.

Left out: critics that reason, which have no temperature (`fit_reasoning.py`), and the folder (`fit_folder.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from align_echo.cli.console import note
from align_echo.cli.critic_report import percent, show_report
from align_echo.cli.fit_folder import beside, merged, put_in_place
from align_echo.critic.calibration import (
    LEAST_TEMPERATURE,
    CriticReport,
    LabelledVerdict,
    fit_temperature,
    report,
)
from align_echo.critic.scoring import Calibrated, write_calibration
from align_echo.critic.verdict import Verdict
from align_echo.flywheel.baselines import Compared
from align_echo.runs import CHECKPOINTS, newest_checkpoint

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


class Calibrating(NamedTuple):
    """A critic's temperature, how it does on what it was tested on (None without any), and its verdicts there."""

    temperature: float
    held_out: CriticReport | None
    rows: list[LabelledVerdict]


def fit_calibrated(path: Path, material: Material, settings: LearningSettings) -> Calibrating:
    """Train, from the last checkpoint that is whole, and put the critic in place. Without anything that it is tested on
    it is not calibrated: temperature 1, and no report.
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
    return Calibrating(temperature, report(rows, temperature, seed=settings.seed) if rows else None, rows)


def tell_baselines(found: Mapping[str, Compared]) -> None:
    """What judges without reading does on the same actions, and whether the critic is shown to do better."""
    for name, one in found.items():
        low, high = one.lead.ci95
        lead = f"the critic is {one.lead.value:+.1f} points [{low:+.1f}, {high:+.1f}] from it"
        print(f"{name}: {percent(one.accuracy)}; {lead}")
    beaten = [name for name, one in found.items() if one.lead.ci95[0] > 0]
    if found and len(beaten) < len(found):
        unbeaten = " and ".join(name for name in found if name not in beaten)
        note(f"warning: this critic is not shown to beat {unbeaten}: collect more, or train longer, before it is used")


def tell(held_out: CriticReport | None, temperature: float, unit: str) -> None:
    """How a critic does on what was held out, which is counted by `unit`: "task" or "episode"."""
    if held_out is None:
        print(f"no {unit} was held out: the critic is neither tested nor calibrated, its temperature is 1")
        return
    show_report(held_out, f"held-out {unit}s, as many correct as wrong ones")
    if temperature < 2 * LEAST_TEMPERATURE:
        note("its logits separate the held-out actions: these are too few to calibrate on, hold out more")
