"""Trial on a step dataset: score its predictions, and let a critic on screens select among them.

    config.json       the settings; a resumed run must use the same
    opinions.jsonl    the critic's verdicts, step by step (`gaia/verdicts.py`)
    summary.json      `ScreenTrialResult`, written last

Not here: the figures (`screens.py`), and the critic (`vision.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from align_echo.base.files import read_bytes
from align_echo.base.jsonl import JsonlFile
from align_echo.base.progress import SILENT, Progress
from align_echo.critic.ask import Critic, Verdict, ask
from align_echo.errors import UsageError
from align_echo.evaluate.folder import Config, EvaluationDir
from align_echo.gaia.gui.screens import (
    PREDICTIONS,
    ProposedStep,
    ScreenQuestion,
    ScreenState,
    ScreenTrialResult,
    read_predictions,
    screen_trial,
)
from align_echo.gaia.trial import compared_rules
from align_echo.gaia.verdicts import FILE, StepVerdicts, by_action
from align_echo.prompts import prompt_hash
from align_echo.train.needs import require_training
from align_echo.version import __version__
from align_echo.wrappers.gui.steps import hash_content, load_screenshot, read_steps

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
    picks: Sequence[str] = (),
    seed: int = 0,
    resume: bool = False,
    progress: Progress = SILENT,
) -> ScreenTrialResult:
    """Score predictions on the steps of `folder`, and evaluate the critic in the folder `judge` on them.

    `predictions` default to the folder's own. `candidates` limits the candidates per step. `picks` are rules of
    selection to compare beside those of the registry. Writes `summary.json`.

    Raises `UsageError` or `MissingDataError` for unusable files, also if the critic never gives a verdict.
    """
    compared_rules(picks)
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
        **({"pick": list(picks)} if picks else {}),
        "seed": seed,
    }
    run_dir = EvaluationDir(path, config, resume=resume)
    run_dir.check()
    fewest = min(len(step.actions) for step in proposed)
    if candidates is not None and candidates > fewest:
        progress.say(f"not all steps have {candidates} candidates: rules choose among {fewest} at most")
    critic = None if judge is None else _critic(judge)
    with run_dir:
        if critic is None:
            result = screen_trial(proposed, picks=picks, most=candidates, seed=seed)
        else:
            verdicts = collect_screen_verdicts(critic, folder, proposed, path / FILE, progress)
            if not any(verdict.has_answer for step in verdicts for verdict in step.values()):
                raise UsageError("the critic said nothing of any action: there is none to ask it about")
            result = screen_trial(
                proposed, verdicts, picks=picks, temperature=critic.temperature, most=candidates, seed=seed
            )
        run_dir.finish(result)
    return result


def _weights(critic: Path) -> str:
    """Hash the critic's files. Raises `UsageError` or `MissingExtraError` if it cannot be loaded."""
    require_training()
    if not critic.is_dir():
        raise UsageError(f"{critic} is no folder: --judge names the critic/ of align-echo critic train --recording")
    from align_echo.models.local.loading import content_hash

    return content_hash(critic)


def _critic(folder: Path) -> Critic:
    from align_echo.gaia.gui.vision import load_critic

    return load_critic(folder)


def collect_screen_verdicts(
    critic: Critic, folder: Path, proposed: Sequence[ProposedStep], file: Path, progress: Progress = SILENT
) -> list[Mapping[str, Verdict]]:
    """Ask the critic about the distinct actions of each step, except those already in `file`."""
    stored = JsonlFile(file)
    known = {record.step: record for record in stored.read(StepVerdicts)}
    progress.say(f"asking about {sum(len(step.labels) for step in proposed):,} actions on {len(proposed):,} screens")
    verdicts: list[Mapping[str, Verdict]] = []
    for done, step in enumerate(proposed, start=1):
        record = known.get(step.step.id)
        if record is None:
            record = StepVerdicts(step=step.step.id, said=tuple(_asked(critic, folder, step)))
            stored.append(record)
        verdicts.append(by_action(record.said))
        if done % TOLD == 0 and done < len(proposed):
            progress.say(f"{done} of {len(proposed)} screens")
    return verdicts


def _asked(critic: Critic, folder: Path, proposed: ProposedStep) -> list[Verdict]:
    step = proposed.step
    screen = ScreenState(load_screenshot(folder, step), step.instruction, step.history)
    return ask(critic, [ScreenQuestion((), action, screen=screen) for action in proposed.labels])
