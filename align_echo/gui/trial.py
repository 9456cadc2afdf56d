"""Trial on a step dataset: score its predictions, and let a critic on screens select among them.

    config.json       the settings; a resumed run must use the same
    opinions.jsonl    the critic's opinions, step by step (`gaia/opinions.py`)
    summary.json      `ScreenTrialResult`, written last

Not here: the figures (`screens.py`), and the critic (`vision.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from align_echo import __version__
from align_echo.critic.opinion import CriticOpinion
from align_echo.errors import UsageError
from align_echo.evaluate.folder import Config, EvaluationDir
from align_echo.files import read_bytes
from align_echo.gaia.opinions import FILE, StepOpinions, by_action
from align_echo.gui.screens import (
    PREDICTIONS,
    ProposedStep,
    ScreenState,
    ScreenTrialResult,
    read_predictions,
    screen_trial,
)
from align_echo.jsonl import JsonlFile
from align_echo.progress import SILENT, Progress
from align_echo.prompts import prompt_hash
from align_echo.train.needs import require_training
from align_echo.wrappers.gui.steps import hash_content, load_screenshot, read_steps

if TYPE_CHECKING:
    from align_echo.gui.vision import VisionScorer


COMMAND = "critic gui-steps"
TOLD = 20
"""Screens between two progress lines."""


def trial_on_screens(
    folder: Path,
    path: Path,
    *,
    predictions: Path | None = None,
    judge: Path | None = None,
    candidates: int | None = None,
    seed: int = 0,
    resume: bool = False,
    progress: Progress = SILENT,
) -> ScreenTrialResult:
    """Score predictions on the steps of `folder`, and evaluate the critic in the folder `judge` on them.

    `predictions` default to the folder's own. `candidates` limits the candidates per step. Writes `summary.json`.

    Raises `UsageError` or `MissingDataError` for unusable files, also if the critic never gives a verdict.
    """
    file = predictions or folder / PREDICTIONS
    steps = read_steps(folder)
    proposed = read_predictions(file, steps)
    config: Config = {
        "command": COMMAND,
        "align_echo": __version__,
        **hash_content(folder, steps),
        "predictions": hashlib.sha256(read_bytes(file)).hexdigest(),
        "critic": None if judge is None else _weights(judge),
        "prompt": prompt_hash("critic/screen_verdict"),
        "candidates": candidates,
        "seed": seed,
    }
    run_dir = EvaluationDir(path, config, resume=resume)
    run_dir.check()
    fewest = min(len(step.actions) for step in proposed)
    if candidates is not None and candidates > fewest:
        progress.say(f"not all steps have {candidates} candidates: rules choose among {fewest} at most")
    scorer = None if judge is None else _scorer(judge)
    with run_dir:
        if scorer is None:
            result = screen_trial(proposed, most=candidates, seed=seed)
        else:
            opinions = collect_opinions(scorer, folder, proposed, path / FILE, progress)
            if not any(opinion.verdict or opinion.logit is not None for step in opinions for opinion in step.values()):
                raise UsageError("the critic said nothing of any action: there is none to ask it about")
            result = screen_trial(proposed, opinions, temperature=scorer.temperature, most=candidates, seed=seed)
        run_dir.finish(result)
    return result


def _weights(critic: Path) -> str:
    """Hash the critic's files. Raises `UsageError` or `MissingExtraError` if it cannot be loaded."""
    require_training()
    if not critic.is_dir():
        raise UsageError(f"{critic} is no folder: --judge names the critic/ of align-echo critic train --recording")
    from align_echo.models.local.loading import content_hash

    return content_hash(critic)


def _scorer(critic: Path) -> VisionScorer:
    from align_echo.gui.vision import load_scorer

    return load_scorer(critic)


def collect_opinions(
    scorer: VisionScorer, folder: Path, proposed: Sequence[ProposedStep], file: Path, progress: Progress = SILENT
) -> list[Mapping[str, CriticOpinion]]:
    """Ask the critic about the distinct actions of each step, except those already in `file`."""
    stored = JsonlFile(file)
    known = {record.step: record for record in stored.read(StepOpinions)}
    progress.say(f"asking about {sum(len(step.labels) for step in proposed):,} actions on {len(proposed):,} screens")
    opinions: list[Mapping[str, CriticOpinion]] = []
    for done, step in enumerate(proposed, start=1):
        record = known.get(step.step.id)
        if record is None:
            record = StepOpinions(step=step.step.id, said=tuple(_asked(scorer, folder, step)))
            stored.append(record)
        opinions.append(by_action(record.said))
        if done % TOLD == 0 and done < len(proposed):
            progress.say(f"{done} of {len(proposed)} screens")
    return opinions


def _asked(scorer: VisionScorer, folder: Path, proposed: ProposedStep) -> list[CriticOpinion]:
    step = proposed.step
    screen = ScreenState(load_screenshot(folder, step), step.instruction, step.history)
    actions = list(proposed.labels)
    return scorer.score(screen, actions) if actions else []
