"""The work of `align-echo critic gui-steps`: predictions on a step dataset are scored, and a critic chooses among them.

Left out: the figures (`flywheel/screens.py`), and how a critic looks (`critic/vision.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from align_echo.cli.console import note, stdout
from align_echo.cli.critic_report import percent, show_report
from align_echo.cli.train import require_training
from align_echo.errors import MissingExtraError, ModelError, UsageError
from align_echo.evaluate.tables import plain_table
from align_echo.flywheel.screens import Proposed, ScreenTrial, Taken, read_predictions, screen_trial
from align_echo.flywheel.trial import Opinion
from align_echo.interface import write_atomically
from align_echo.wrappers.gui.steps import read_steps

if TYPE_CHECKING:
    from align_echo.critic.vision import VisionScorer


def rate_screens_into(
    path: Path, folder: Path, predictions: Path, *, critic: Path | None, most: int | None, seed: int
) -> ScreenTrial:
    """Score the predictions, and put the critic on trial over them if there is one; writes `summary.json`.

    Raises `UsageError` or `MissingDataError` for files that are not as they should be, and `ModelError` if the critic
    never gives a verdict.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{path} is not an empty folder: name another --out")
    proposed = read_predictions(predictions, read_steps(folder))
    if critic is None:
        result = screen_trial(proposed, most=most, seed=seed)
    else:
        scorer = _scorer(critic)
        opinions = opinions_of(scorer, folder, proposed)
        result = screen_trial(proposed, opinions, temperature=scorer.temperature, most=most, seed=seed)
    path.mkdir(parents=True, exist_ok=True)
    write_atomically(path / "summary.json", result.model_dump_json(indent=2) + "\n")
    show_screens(result)
    print(f"written: {path / 'summary.json'}")
    return result


def _scorer(critic: Path) -> VisionScorer:
    require_training()
    if find_spec("sklearn") is None:
        raise MissingExtraError("a critic's report", "train")
    if not critic.is_dir():
        raise UsageError(f"{critic} is no folder: --critic names the critic/ of align-echo critic train --steps")
    from align_echo.critic.vision import load_scorer

    return load_scorer(critic)


def opinions_of(scorer: VisionScorer, folder: Path, proposed: Sequence[Proposed]) -> list[Mapping[str, Opinion]]:
    """What the critic says of the distinct actions of each step. Raises `ModelError` if it never gives a verdict."""
    from align_echo.critic.screen_verdict import Screen
    from align_echo.wrappers.gui.steps import screenshot_of

    note(f"asking about {sum(len(one.labels) for one in proposed):,} actions on {len(proposed):,} screens")
    found: list[Mapping[str, Opinion]] = []
    for one in proposed:
        screen = Screen(screenshot_of(folder, one.step), one.step.instruction, one.step.history)
        actions = list(one.labels)
        said = scorer.score(screen, actions) if actions else []
        found.append({action: Opinion(of.verdict, of.logit) for action, of in zip(actions, said, strict=True)})
    if not any(said.verdict or said.logit is not None for one in found for said in one.values()):
        raise ModelError("the critic said nothing of any action: there is none to ask it about")
    return found


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
