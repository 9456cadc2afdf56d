"""How a critic of one word is made, whatever it reads: it learns, is tested, is calibrated and put in place.

Left out: critics that reason, which have no temperature (`reasoning.py`), and the folder (`folder.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align_echo.critic.calibration import CriticReport, LabelledVerdict, fit_temperature, report
from align_echo.critic.scoring import Calibrated, write_calibration
from align_echo.gaia.fit.folder import beside, merged, put_in_place
from align_echo.runs import CHECKPOINTS, newest_checkpoint

if TYPE_CHECKING:
    from align_echo.gaia.fit.trainer import LearningSettings


def fit_calibrated(
    path: Path,
    settings: LearningSettings,
    *,
    learn: Callable[[Path, bool], Any],
    verdicts: Callable[[Any], list[LabelledVerdict]],
    save: Callable[[Any, Path], None],
) -> tuple[CriticReport | None, list[LabelledVerdict]]:
    """Train a critic and put it in place. Returns the report on what it was tested on, None without any, and its
    verdicts there. The temperature is the report's; without a report the critic is not calibrated, and it is 1.

    `learn(checkpoints, resume)` gives the model that learned, with its adapter where it has one; it resumes where there
    is a whole checkpoint. `verdicts(critic)` asks it about what it is tested on, with logits. `save(critic, folder)`
    writes it with what encodes its questions.
    """
    checkpoints = path / CHECKPOINTS
    learned = learn(checkpoints, bool(newest_checkpoint(checkpoints)))
    folder = beside(path)
    critic = merged(learned, settings.weights, folder)
    rows = verdicts(critic)
    rated = [(row.logit, row.label == "correct") for row in rows if row.logit is not None]
    temperature = fit_temperature([logit for logit, _ in rated], [right for _, right in rated]) if rows else 1.0
    save(critic, folder)
    if rows:
        write_calibration(Calibrated(temperature=temperature, n=len(rows)), folder)
    put_in_place(folder)
    return report(rows, temperature, seed=settings.seed) if rows else None, rows
