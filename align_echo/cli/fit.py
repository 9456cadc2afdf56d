"""The work of `align-echo critic train`: examples in, a calibrated critic out.

    config.json      what was asked for, and which examples (by content); a resumed run must ask for the same
    checkpoints/     of `transformers`
    critic/          the critic: weights, tokenizer, calibration.json; a model to be named by its folder
    summary.json     `Fitted`, written last
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align_echo import __version__
from align_echo.cli.console import note, resumable
from align_echo.cli.critic_report import show_report
from align_echo.cli.train import require_training
from align_echo.critic.calibration import CriticReport, LabelledVerdict, fit_temperature, report
from align_echo.critic.labels import Rule, default_rule
from align_echo.critic.scoring import Calibrated, write_calibration
from align_echo.errors import UsageError
from align_echo.flywheel.examples import FILE, Example, balanced, deduplicated, held_out, read_examples
from align_echo.interface import write_atomically
from align_echo.prompts import prompt_hash
from align_echo.types import Frozen

if TYPE_CHECKING:
    from align_echo.flywheel.fitting import FitSettings


class Fitted(Frozen):
    """A critic that was trained: how many examples and tasks it learned from, and how it does on `held_out` tasks.

    Those are balanced like what was learned from, and the temperature was fitted on them: that the report calls it
    honest at that temperature is no news.
    """

    rule: Rule
    learned_from: int
    tasks: int
    temperature: float
    held_out: CriticReport


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
    """Train and calibrate a critic. Raises `UsageError` for examples that cannot be learned from, or settings that are
    wrong.
    """
    require_training()
    from align_echo.train.crew import source_of

    settings = settings_of(config, changes)
    source = source_of(model)
    examples = deduplicated(example for one in collections for example in read_examples(one))
    environments = sorted({one.environment for one in examples})
    chosen = rule or default_rule(environments[0])
    learned, tested = held_out(examples, share, seed=settings.seed)
    learned, tested = balanced(learned, chosen, seed=settings.seed), balanced(tested, chosen, seed=settings.seed)
    asked = {
        "command": "critic train",
        "align_echo": __version__,
        "examples": {str(one): _content(one) for one in collections},
        "model": model,
        "rule": chosen,
        "held_out": share,
        "prompt": prompt_hash("critic/verdict"),
        "settings": settings.model_dump(mode="json"),
    }
    begun = _open(path, asked, resume=resume)
    note(f"learning from {len(learned):,} actions by the rule {chosen!r}, {len(tested):,} held out")
    with resumable(path):
        fitted = _fit(path, source, settings, learned, tested, chosen, resume=begun)
    show_report(fitted.held_out, "held-out tasks, as many correct as wrong ones")
    print(f"written: {path / 'critic'}, to be named as --judge or --guide")
    return fitted


def _fit(
    path: Path,
    source: str,
    settings: FitSettings,
    learned: Sequence[Example],
    tested: Sequence[Example],
    rule: Rule,
    *,
    resume: bool,
) -> Fitted:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from align_echo.flywheel.fitting import fit, question_ids, questions, read_verdicts
    from align_echo.models.local.loading import encoder_of, files_of
    from align_echo.models.local.weights import read_model

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = encoder_of(source)
    model: Any = files_of(source, lambda: read_model(AutoModelForCausalLM, source, torch.float32))
    asked = questions(learned, encoder, rule, longest=settings.longest)
    learner: Any = fit(model.to(device), encoder, asked, settings, path / "checkpoints", resume=resume)
    folder = path / "critic"
    if settings.weights == "lora":
        learner.save_pretrained(str(folder / "adapter"))
        learner = learner.merge_and_unload()
    learner.config.use_cache = True
    learner.save_pretrained(str(folder))
    AutoTokenizer.from_pretrained(source).save_pretrained(str(folder))
    ids = [question_ids(one, encoder) for one in tested]
    said = read_verdicts(learner, encoder, ids, tokens_per_tree=settings.tokens_per_tree, device=device)
    truth = [float(one.label(rule) == "correct") for one in tested]
    temperature = fit_temperature([logit for _, logit in said], truth)
    write_calibration(Calibrated(temperature=temperature, n=len(tested)), folder)
    rows = [
        LabelledVerdict(one.task_id, one.action_type, one.label(rule) or "wrong", verdict, logit)
        for one, (verdict, logit) in zip(tested, said, strict=True)
    ]
    fitted = Fitted(
        rule=rule,
        learned_from=len(asked),
        tasks=len({one.task_id for one in learned}),
        temperature=temperature,
        held_out=report(rows, temperature, seed=settings.seed),
    )
    write_atomically(path / "summary.json", fitted.model_dump_json(indent=2) + "\n")
    return fitted


def settings_of(file: Path | None, changes: Mapping[str, object]) -> FitSettings:
    """The settings of a YAML file with these changes. Raises `UsageError` in one line for what is wrong in it."""
    from pydantic import ValidationError

    from align_echo.flywheel.fitting import FitSettings
    from align_echo.train.config import read_file

    values = {**(read_file(file) if file else {}), **{name: one for name, one in changes.items() if one is not None}}
    try:
        return FitSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "settings"
        raise UsageError(f"{file or 'the options'}: {where}: {first['msg']}") from error


def _content(collection: Path) -> str:
    file = collection / FILE if collection.is_dir() else collection
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _open(path: Path, asked: Mapping[str, Any], *, resume: bool) -> bool:
    """Make the folder; whether there is a checkpoint to go on from. Raises `UsageError` for a folder of something else.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file; --out names a folder")
    there = path.exists() and any(path.iterdir())
    if there and not resume:
        raise UsageError(f"{path} is not empty: add --resume to go on with it, or name another --out")
    if there:
        try:
            stored = json.loads((path / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"there is no critic's training to resume in {path}") from error
        other = sorted(key for key in {*stored, *asked} if stored.get(key) != asked.get(key))
        if other:
            raise UsageError(f"{path} was started with another {other[0]}: resume with the same, or name another --out")
    path.mkdir(parents=True, exist_ok=True)
    write_atomically(path / "config.json", json.dumps(asked, indent=2) + "\n")
    return any((path / "checkpoints").glob("checkpoint-*/trainer_state.json"))
