"""Train, test, calibrate and publish an intuitive critic, whatever its input.

Not here: reasoning critics, which have no temperature (`reasoning.py`), and the folder (`folder.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align_echo.critic.calibration import CriticReport, LabelledVerdict, fit_temperature, report
from align_echo.critic.scoring import CriticCalibration, write_calibration
from align_echo.gaia.fit.folder import merge_adapter, partial_folder, publish_critic
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
    """Train a critic and publish it. Returns the report on its test examples (None without any), and its verdicts
    there.

    The temperature is the report's; without a report the critic stays uncalibrated, at 1. `learn(checkpoints, resume)`
    returns the trained model, with its adapter if it has one; it resumes from a complete checkpoint. `verdicts(critic)`
    asks it about its test examples, with logits. `save(critic, folder)` writes it with its tokenizer or processor.
    """
    checkpoints = path / CHECKPOINTS
    learned = learn(checkpoints, bool(newest_checkpoint(checkpoints)))
    folder = partial_folder(path)
    critic = merge_adapter(learned, settings.weights, folder)
    rows = verdicts(critic)
    rated = [(row.logit, row.label == "correct") for row in rows if row.logit is not None]
    temperature = fit_temperature([logit for logit, _ in rated], [right for _, right in rated]) if rows else 1.0
    save(critic, folder)
    if rows:
        write_calibration(CriticCalibration(temperature=temperature, n=len(rows)), folder)
    publish_critic(folder)
    return report(rows, temperature, seed=settings.seed) if rows else None, rows
