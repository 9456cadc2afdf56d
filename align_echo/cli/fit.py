"""The work of `align-echo critic train`: examples in, a calibrated critic out.

Left out: the folder (`fit_folder.py`), how a critic learns (`flywheel/fitting.py`), critics that reason
(`fit_reasoning.py`), and what a critic is worth in selection (`rate.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align_echo.cli.console import note, resumable
from align_echo.cli.critic_report import show_report
from align_echo.cli.fit_folder import (
    CHECKPOINTS,
    CRITIC,
    asked_of,
    beside,
    check_folder,
    merged,
    open_folder,
    put_in_place,
    read_settings,
)
from align_echo.cli.train import require_training
from align_echo.critic.calibration import (
    LEAST_TEMPERATURE,
    CriticReport,
    LabelledVerdict,
    fit_temperature,
    report,
)
from align_echo.critic.labels import Rule
from align_echo.critic.scoring import Calibrated, write_calibration
from align_echo.critic.verdict import VERDICTS
from align_echo.flywheel.examples import Example, check_both
from align_echo.flywheel.lessons import Lessons, lessons_of
from align_echo.interface import write_atomically
from align_echo.train.run_folder import whole_checkpoints
from align_echo.types import Frozen

if TYPE_CHECKING:
    from align_echo.flywheel.fitting import FitSettings, Question
    from align_echo.models.local.encoding import ChatEncoder


class Fitted(Frozen):
    """A critic that was trained: how many actions of how many `tasks` it learned from, and how it does on `held_out`
    tasks, None without any. `too_long` actions were left out of both, as the conversation does not fit.

    Held-out actions are balanced like those learned from, and the temperature was fitted on them: that the report calls
    the critic honest at that temperature is no news.
    """

    rule: Rule
    learned_from: int
    tasks: int
    too_long: int
    temperature: float
    held_out: CriticReport | None


@dataclass(frozen=True)
class _Material:
    """A model with its encoder, what it learns from, and what it is tested on with `ids` [M][T] of each question."""

    source: str
    model: Any
    encoder: ChatEncoder
    asked: list[Question]
    tasks: int
    tested: list[Example]
    ids: list[tuple[int, ...]]
    too_long: int


def fit_into(
    path: Path,
    collections: Sequence[Path],
    *,
    model: str,
    rule: Rule | None,
    config: Path | None,
    changes: Mapping[str, object],
    share: float,
    resume: bool,
) -> Fitted:
    """Train and calibrate a critic; with `share` 0 it stays uncalibrated. Raises `UsageError` for examples that cannot
    be learned from, or settings that are wrong, and then leaves the folder as it was.
    """
    require_training()
    from align_echo.flywheel.fitting import FitSettings
    from align_echo.train.crew import source_of

    settings = read_settings(FitSettings, config, changes)
    source = source_of(model)
    lessons = lessons_of(collections, share, rule, seed=settings.seed)
    asked = asked_of(lessons, model, share, ["critic/verdict"], settings)
    check_folder(path, asked, resume=resume)
    material = _prepare(source, settings, lessons)
    open_folder(path, asked)
    counts = f"{len(material.ids):,} held out, {material.too_long:,} too long"
    note(f"learning from {len(material.asked):,} actions by the rule {lessons.rule!r}; {counts}")
    with resumable(path):
        fitted = _fit(path, material, settings, lessons.rule)
    if fitted.held_out is None:
        print("no task was held out: the critic is neither tested nor calibrated, its temperature is 1")
    else:
        show_report(fitted.held_out, "held-out tasks, as many correct as wrong ones")
        if fitted.temperature < 2 * LEAST_TEMPERATURE:
            note("its logits separate the held-out actions: these are too few to calibrate on, hold out more")
    print(f"written: {path / CRITIC}, to be named as --judge, --guide or --critic")
    return fitted


def _prepare(source: str, settings: FitSettings, lessons: Lessons) -> _Material:
    """Everything in tokens. Raises `UsageError` where no right or no wrong action fits."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    from align_echo.flywheel.fitting import question_ids, questions
    from align_echo.models.local.loading import encoder_of, files_of
    from align_echo.models.local.weights import read_model

    quiet: Any = transformers_logging.disable_progress_bar
    quiet()
    encoder = encoder_of(source)
    model: Any = files_of(source, lambda: read_model(AutoModelForCausalLM, source, torch.float32))
    context = int(getattr(model.config, "max_position_embeddings", 0) or settings.longest)
    longest = min(settings.longest, context)
    learned, tested = lessons.learned, lessons.tested
    asked = questions(learned, encoder, lessons.rule, longest=longest)
    fitting = [(one, ids) for one in tested if len(ids := question_ids(one, encoder)) <= longest]
    check_both({VERDICTS[one.target] for one in asked}, longest)
    if tested:
        check_both({one.label(lessons.rule) for one, _ in fitting}, longest)
    return _Material(
        source=source,
        model=model,
        encoder=encoder,
        asked=asked,
        tasks=len({one.task_id for one in learned}),
        tested=[one for one, _ in fitting],
        ids=[ids for _, ids in fitting],
        too_long=len(learned) + len(tested) - len(asked) - len(fitting),
    )


def _fit(path: Path, material: _Material, settings: FitSettings, rule: Rule) -> Fitted:
    import torch

    from align_echo.flywheel.fitting import Telling, fit, read_verdicts

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, encoder = material.model.to(device), material.encoder
    checkpoints, telling = path / CHECKPOINTS, [Telling(note)]
    begun = bool(whole_checkpoints(checkpoints))
    learner: Any = fit(model, encoder, material.asked, settings, checkpoints, resume=begun, callbacks=telling)
    folder = beside(path)
    learner = merged(learner, settings.weights, folder)
    tokens = settings.tokens_per_tree
    said = read_verdicts(learner, encoder, material.ids, tokens_per_tree=tokens, device=device) if material.ids else []
    truth = [one.label(rule) == "correct" for one in material.tested]
    temperature = fit_temperature([logit for _, logit in said], truth) if said else 1.0
    rows = [
        LabelledVerdict(one.task_id, one.action_type, one.label(rule) or "wrong", verdict, logit)
        for one, (verdict, logit) in zip(material.tested, said, strict=True)
    ]
    save_critic(learner, material.source, folder, Calibrated(temperature=temperature, n=len(rows)) if rows else None)
    fitted = Fitted(
        rule=rule,
        learned_from=len(material.asked),
        tasks=material.tasks,
        too_long=material.too_long,
        temperature=temperature,
        held_out=report(rows, temperature, seed=settings.seed) if rows else None,
    )
    write_atomically(path / "summary.json", fitted.model_dump_json(indent=2) + "\n")
    return fitted


def save_critic(learner: Any, source: str, folder: Path, calibrated: Calibrated | None) -> None:
    """Write the critic beside its place, and then put it there whole."""
    from transformers import AutoTokenizer

    learner.config.use_cache = True
    learner.save_pretrained(str(folder))
    AutoTokenizer.from_pretrained(source).save_pretrained(str(folder))
    if calibrated is not None:
        write_calibration(calibrated, folder)
    put_in_place(folder)
