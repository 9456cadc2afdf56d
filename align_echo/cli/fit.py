"""The work of `align-echo critic train`: examples in, a calibrated critic out.

Left out: the folder (`fit_folder.py`), how a critic learns (`flywheel/fitting.py`), critics that reason
(`fit_reasoning.py`), and what a critic is worth in selection (`rate.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align_echo import __version__
from align_echo.cli.console import note, resumable
from align_echo.cli.critic_report import show_report
from align_echo.cli.fit_folder import (
    CHECKPOINTS,
    COMMAND,
    CRITIC,
    beside,
    check_folder,
    contents,
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
from align_echo.critic.labels import Rule, default_rule
from align_echo.critic.scoring import Calibrated, write_calibration
from align_echo.critic.verdict import VERDICTS
from align_echo.errors import UsageError
from align_echo.flywheel.examples import Example, balanced, check_both, deduplicated, held_out, read_examples
from align_echo.interface import write_atomically
from align_echo.prompts import prompt_hash
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
    asked = lessons.asked(model, share, ["critic/verdict"], settings)
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


@dataclass(frozen=True)
class Lessons:
    """What a critic learns from and is tested on, and by which rule; `collections` by the SHA-256 of their examples."""

    rule: Rule
    learned: list[Example]
    tested: list[Example]
    collections: dict[str, Path]

    def asked(self, model: str, share: float, prompts: Sequence[str], settings: Frozen) -> dict[str, Any]:
        """What `config.json` holds; `prompts` are those that the critic is asked and taught by."""
        return {
            "command": COMMAND,
            "align_echo": __version__,
            "examples": list(self.collections),
            "collections": [str(one) for one in self.collections.values()],
            "model": model,
            "rule": self.rule,
            "held_out": share,
            "prompt": {name: prompt_hash(name) for name in prompts},
            "settings": settings.model_dump(mode="json"),
        }


def lessons_of(collections: Sequence[Path], share: float, rule: Rule | None, *, seed: int) -> Lessons:
    """Without duplicates, divided by task and balanced. Raises `UsageError` for examples that cannot be learned from.
    """
    named = contents(collections)
    examples = deduplicated(example for one in named.values() for example in read_examples(one))
    chosen = rule or rule_for({one.environment for one in examples})
    learned, tested = divided(examples, share, chosen, seed=seed)
    return Lessons(chosen, learned, tested, named)


def rule_for(environments: Collection[str]) -> Rule:
    """The default rule of the environments. Raises `UsageError` where it is not one and the same."""
    rules = {name: default_rule(name) for name in sorted(environments)}
    if len(set(rules.values())) > 1:
        told = ", ".join(f"{name}: {rule}" for name, rule in rules.items())
        raise UsageError(f"the collections are of environments with other default rules ({told}): choose with --rule")
    return next(iter(rules.values()))


def divided(
    examples: Sequence[Example], share: float, rule: Rule, *, seed: int
) -> tuple[list[Example], list[Example]]:
    """(to learn from, to test on), each balanced. Raises `UsageError` for a side without correct or wrong actions."""
    balanced(examples, rule, seed=seed)
    learned, tested = held_out(examples, share, seed=seed)
    try:
        return balanced(learned, rule, seed=seed), balanced(tested, rule, seed=seed) if share else []
    except UsageError as error:
        few = "choose another --held-out, or 0 to learn from all and leave the critic uncalibrated"
        raise UsageError(f"the tasks are too few to hold {share} of them out: collect more, {few}") from error


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
