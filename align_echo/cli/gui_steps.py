"""The work of `align-echo critic gui-steps`: predictions on a step dataset are scored, and a critic chooses among them.

    config.json       what was asked for; a resumed run must ask for the same
    opinions.jsonl    what the critic said, step by step (`flywheel/opinions.py`)
    summary.json      `ScreenTrial`, written last

Left out: the figures (`flywheel/screens.py`), and how a critic looks (`critic/vision.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from align_echo import __version__
from align_echo.cli.console import note, resumable, stdout
from align_echo.cli.critic_report import percent, show_report
from align_echo.cli.train import require_training
from align_echo.critic.screen_verdict import Screen
from align_echo.errors import MissingExtraError, ModelError, UsageError
from align_echo.evaluate.folder import Config, check_folder, open_folder
from align_echo.evaluate.tables import plain_table
from align_echo.files import write_atomically
from align_echo.flywheel.opinions import FILE, SavedOpinion, StepOpinions
from align_echo.flywheel.screens import Proposed, ScreenTrial, Taken, read_predictions, screen_trial
from align_echo.flywheel.trial import Opinion
from align_echo.jsonl import JsonlFile
from align_echo.prompts import prompt_hash
from align_echo.wrappers.gui.steps import content_of, read_steps, screenshot_of

if TYPE_CHECKING:
    from align_echo.critic.vision import VisionScorer


COMMAND = "critic gui-steps"
TOLD = 20
"""A line after every so many screens."""


def gui_steps_into(
    path: Path,
    folder: Path,
    predictions: Path,
    *,
    critic: Path | None,
    most: int | None,
    seed: int,
    resume: bool = False,
) -> ScreenTrial:
    """Score the predictions, and put the critic on trial over them if there is one; writes `summary.json`.

    Raises `UsageError` or `MissingDataError` for files that are not as they should be, and `ModelError` if the critic
    never gives a verdict.
    """
    steps = read_steps(folder)
    proposed = read_predictions(predictions, steps)
    config: Config = {
        "command": COMMAND,
        "align_echo": __version__,
        **content_of(folder, steps),
        "predictions": hashlib.sha256(predictions.read_bytes()).hexdigest(),
        "critic": None if critic is None else _weights(critic),
        "prompt": prompt_hash("critic/screen_verdict"),
        "candidates": most,
        "seed": seed,
    }
    check_folder(path, config, resume=resume)
    fewest = min(len(one.actions) for one in proposed)
    if most is not None and most > fewest:
        note(f"not all steps have {most} candidates: rules choose among {fewest} at most")
    scorer = None if critic is None else _scorer(critic)
    lock = open_folder(path, config, resume=resume)
    if scorer is None:
        result = screen_trial(proposed, most=most, seed=seed)
    else:
        with resumable(path):
            opinions = opinions_of(scorer, folder, proposed, path / FILE)
        if not any(said.verdict or said.logit is not None for one in opinions for said in one.values()):
            raise ModelError("the critic said nothing of any action: there is none to ask it about")
        result = screen_trial(proposed, opinions, temperature=scorer.temperature, most=most, seed=seed)
    write_atomically(path / "summary.json", result.model_dump_json(indent=2) + "\n")
    lock.close()
    show_screens(result)
    print(f"written: {path / 'summary.json'}")
    return result


def _weights(critic: Path) -> str:
    """The hash of the critic's files. Raises `UsageError` or `MissingExtraError` where it cannot be asked."""
    require_training()
    if find_spec("sklearn") is None:
        raise MissingExtraError("a critic's report", "train")
    if not critic.is_dir():
        raise UsageError(f"{critic} is no folder: --critic names the critic/ of align-echo critic train --steps")
    from align_echo.models.local.loading import content_hash

    return content_hash(critic)


def _scorer(critic: Path) -> VisionScorer:
    from align_echo.critic.vision import load_scorer

    return load_scorer(critic)


def opinions_of(
    scorer: VisionScorer, folder: Path, proposed: Sequence[Proposed], file: Path
) -> list[Mapping[str, Opinion]]:
    """What the critic says of the distinct actions of each step. It is not asked again for what `file` has."""
    kept = JsonlFile(file)
    known = {one.step: one for one in kept.read(StepOpinions)}
    note(f"asking about {sum(len(one.labels) for one in proposed):,} actions on {len(proposed):,} screens")
    found: list[Mapping[str, Opinion]] = []
    for done, one in enumerate(proposed, start=1):
        said = known.get(one.step.id)
        if said is None:
            said = _asked(scorer, folder, one)
            kept.append(said)
        found.append(said.by_action)
        if done % TOLD == 0 and done < len(proposed):
            note(f"{done} of {len(proposed)} screens")
    return found


def _asked(scorer: VisionScorer, folder: Path, one: Proposed) -> StepOpinions:
    screen = Screen(screenshot_of(folder, one.step), one.step.instruction, one.step.history)
    actions = list(one.labels)
    said = scorer.score(screen, actions) if actions else []
    return StepOpinions(
        step=one.step.id,
        said=tuple(
            SavedOpinion(action=action, verdict=of.verdict, logit=of.logit, broken=of.broken)
            for action, of in zip(actions, said, strict=True)
        ),
    )


def show_screens(trial: ScreenTrial) -> None:
    """The figures of the first candidates, the critic's report, and every rule by number of candidates."""
    print(f"{trial.steps:,} steps of {trial.episodes:,} episodes; {trial.unparsed} of {trial.candidates:,} candidates "
          "are no actions")
    if trial.critic is not None:
        show_report(trial.critic, "episodes, every distinct action")
    table = plain_table("% of the steps (GR: of those with a click of the right type)")
    for head in ("candidates", "rule", "Type", "GR", "SR", "SR gain"):
        table.add_column(head)
    for one in trial.curve:
        if one.candidates > 1 or one is trial.curve[0]:
            table.add_row(*_row(one))
    stdout().print(table)


def _row(one: Taken) -> tuple[str, ...]:
    rule = "first" if one.candidates == 1 else one.rule
    grounding = "-" if one.grounding is None else percent(one.grounding)
    return str(one.candidates), rule, percent(one.type), grounding, percent(one.success), f"{one.gain.value:+.1f}"
