"""Train an intuitive critic: collections in, a calibrated critic out.

Not here: the folder (`folder.py`), the course of the training (`trainer.py`), the learning step (`learning.py`),
reasoning critics (`reasoning.py`), and evaluation in selection (`gaia/trial.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from align_echo.base.progress import SILENT, Progress
from align_echo.critic.ask import WORDS, write_sampling
from align_echo.critic.calibration import CriticReport, LabelledVerdict
from align_echo.gaia.examples import LEAST_ACTIONS, ActionExample, check_both, check_enough, describe_left_out
from align_echo.gaia.fit.folder import CriticDir, check_disk, read_settings, training_config
from align_echo.gaia.presets import preset_file, preset_for, presets
from align_echo.gaia.trial import BaselineComparison, compare_baselines
from align_echo.gaia.verdicts import TrainingData, prepare_training_data
from align_echo.models.choosing import ModelName, read_name
from align_echo.models.local import POCKET
from align_echo.train.needs import require_training
from align_echo.types import Frozen

if TYPE_CHECKING:
    from align_echo.gaia.fit.learning import FitSettings, VerdictQuestion
    from align_echo.models.local.encoding import ChatEncoder


class TrainingSummary(Frozen):
    """Summary of a trained critic: how many actions of how many `tasks` it was trained on, and its report on `held_out`
    tasks (None without any). `too_long` actions were left out of both because of their length; `one_sided` ones were
    left out of training because, with weights, their states are all correct or all wrong. See `TrainingData` for
    `duplicates`, `unlabelled` and `unbalanced`.

    Held-out actions are half correct and half wrong, and the temperature was fitted on them, so calibration at that
    temperature is no independent finding. `baselines` judge the same actions without reading.
    """

    rule: str
    learned_from: int
    tasks: int
    too_long: int
    temperature: float
    held_out: CriticReport | None
    one_sided: int = 0
    duplicates: int = 0
    unlabelled: int = 0
    unbalanced: int = 0
    baselines: dict[str, BaselineComparison] = Field(default_factory=dict)


@dataclass(frozen=True)
class _Material:
    """The model of `source` with its encoder, the training questions, and the test examples with the `ids` [M][T] of
    their questions. See `TrainingSummary` for `too_long` and `one_sided`.
    """

    source: str
    settings: FitSettings
    lessons: TrainingData
    model: Any
    encoder: ChatEncoder
    questions: list[VerdictQuestion]
    tested: list[ActionExample]
    ids: list[tuple[int, ...]]
    too_long: int
    one_sided: int

    @property
    def left_out(self) -> dict[str, int]:
        """Return how many actions were left out, by reason."""
        one_sided = "of states whose actions are all right or all wrong"
        return self.lessons.left_out | {"too long": self.too_long, one_sided: self.one_sided}

    @property
    def told(self) -> str:
        """Describe training and left-out examples in one line."""
        questions, rule = f"{len(self.questions):,} actions", self.lessons.rule
        held_out = f"{len(self.ids):,} held out; {describe_left_out(self.left_out)}"
        return f"learning from {questions} by the rule {rule!r}; {held_out}"

    def learn(self, checkpoints: Path, resume: bool, progress: Progress) -> Any:
        import torch

        from align_echo.gaia.fit.learning import learn

        model = self.model.to("cuda" if torch.cuda.is_available() else "cpu")
        return learn(
            model, self.encoder, self.questions, self.settings, checkpoints, resume=resume, progress=progress
        )

    def verdicts(self, critic: Any) -> list[LabelledVerdict]:
        from align_echo.gaia.fit.learning import read_verdicts

        if not self.tested:
            return []
        tokens, rule = self.settings.tokens_per_tree, self.lessons.rule
        verdicts = read_verdicts(critic, self.encoder, self.ids, tokens_per_tree=tokens, device=critic.device)
        return [
            LabelledVerdict(example.task_id, example.action_type, example.label(rule) or "wrong", verdict, logit)
            for example, (verdict, logit) in zip(self.tested, verdicts, strict=True)
        ]

    def save(self, critic: Any, folder: Path) -> None:
        save_critic(critic, self.source, folder)
        write_sampling(self.lessons.drawn, folder)


def read_fit_settings(source: str, config: Path | None, changes: Mapping[str, object]) -> FitSettings:
    """Return the settings of a preset by name, or those for a model of that size overridden by a YAML file; with
    `changes`.

    Raises `UsageError` for a missing file or wrong settings.
    """
    from align_echo.gaia.fit.learning import FitSettings
    from align_echo.train.obstacles import count_parameters

    by_name = str(config) in presets()
    base = str(config) if by_name else preset_for(count_parameters(source))
    return read_settings(FitSettings, None if by_name else config, changes, base=preset_file(base))


def fit(
    collections: Sequence[Path],
    path: Path,
    *,
    model: str | ModelName = POCKET,
    rule: str | None = None,
    settings: FitSettings | None = None,
    share: float = 0.1,
    least: int = LEAST_ACTIONS,
    resume: bool = False,
    progress: Progress = SILENT,
) -> TrainingSummary:
    """Train and calibrate a critic on collections; with `share` 0 of held-out tasks it stays uncalibrated.

    `settings` default to those for the model's size, `rule` to the environments' default. Raises `UsageError` for
    unusable examples and for fewer than `least`, before it touches the folder.
    """
    require_training()
    from align_echo.gaia.fit.trainer import fit_calibrated
    from align_echo.train.role_models import find_source

    name = read_name(model)
    source = find_source(name)
    chosen = settings or read_fit_settings(source, None, {})
    lessons = prepare_training_data(collections, share, rule, seed=chosen.seed, balance=chosen.balance)
    record = training_config(lessons, name, source, share, ["critic/verdict"], chosen)
    run_dir = CriticDir(path, record, resume=resume)
    run_dir.check()
    if not resume:
        check_disk(path, source, chosen.weights)
    material = _prepare(source, chosen, lessons)
    check_enough(len(material.questions), least, material.left_out)
    with run_dir:
        progress.say(material.told)
        if settings is None:
            rate = f"{chosen.weights} weights, rate {chosen.lr:g}, {chosen.epochs} epochs"
            names = " or ".join(presets())
            progress.say(f"settings for a model of this size: {rate}; others are named with --config, such as {names}")
        held_out, rows = fit_calibrated(
            path,
            chosen,
            learn=partial(material.learn, progress=progress),
            verdicts=material.verdicts,
            save=material.save,
        )
        fitted = TrainingSummary(
            rule=lessons.rule,
            learned_from=len(material.questions),
            tasks=len({question.task for question in material.questions}),
            too_long=material.too_long,
            temperature=held_out.temperature if held_out else 1.0,
            held_out=held_out,
            one_sided=material.one_sided,
            duplicates=lessons.duplicates,
            unlabelled=lessons.unlabelled,
            unbalanced=lessons.unbalanced,
            baselines=compare_baselines(
                lessons.learned, material.tested, [row.verdict for row in rows], lessons.rule, seed=chosen.seed
            ),
        )
        run_dir.finish(fitted)
    return fitted


def _prepare(source: str, settings: FitSettings, lessons: TrainingData) -> _Material:
    """Encode everything. Raises `UsageError` if no correct or no wrong action fits."""
    import torch
    from transformers import AutoModelForCausalLM

    from align_echo.gaia.fit.learning import question_ids, questions
    from align_echo.models.local.loading import load_encoder, read_checked_files
    from align_echo.models.local.weights import read_strange_model, without_bars

    without_bars()
    encoder = load_encoder(source)
    model: Any = read_checked_files(source, lambda: read_strange_model(AutoModelForCausalLM, source, torch.float32))
    context = int(getattr(model.config, "max_position_embeddings", 0) or settings.longest)
    longest = min(settings.longest, context)
    rule, tested = lessons.rule, lessons.tested
    short = questions(lessons.learned, encoder, rule, longest=longest, balance=settings.balance)
    weighted_questions = [question for question in short if question.weight]
    tested_with_ids = [(example, ids) for example in tested if len(ids := question_ids(example, encoder)) <= longest]
    check_both({WORDS[question.target] for question in weighted_questions}, longest)
    if tested:
        check_both({example.label(rule) for example, _ in tested_with_ids}, longest)
    labelled = sum(example.label(rule) is not None for example in lessons.learned)
    return _Material(
        source=source,
        settings=settings,
        lessons=lessons,
        model=model,
        encoder=encoder,
        questions=weighted_questions,
        tested=[example for example, _ in tested_with_ids],
        ids=[ids for _, ids in tested_with_ids],
        too_long=labelled - len(short) + len(tested) - len(tested_with_ids),
        one_sided=len(short) - len(weighted_questions),
    )


def check_learner(name: ModelName) -> None:
    """Load a model, and refuse one unsuitable as a critic: its tokenizer does not distinguish the verdicts, or it
    cannot read conversations as a tree. Raises `UsageError` or `MissingDataError`.
    """
    import torch
    from transformers import AutoModelForCausalLM

    from align_echo.gaia.fit.learning import check_trees, verdict_tokens
    from align_echo.models.local.loading import load_encoder, read_checked_files
    from align_echo.models.local.weights import read_strange_model, without_bars
    from align_echo.train.forward import CHECKED_IDS
    from align_echo.train.role_models import find_source

    source = find_source(name)
    without_bars()
    verdict_tokens(load_encoder(source))
    model: Any = read_checked_files(source, lambda: read_strange_model(AutoModelForCausalLM, source, torch.float32))
    check_trees(model, CHECKED_IDS, model.device)


def save_critic(learner: Any, source: str, folder: Path) -> None:
    """Write the critic with its tokenizer."""
    from transformers import AutoTokenizer

    learner.config.use_cache = True
    learner.save_pretrained(str(folder))
    AutoTokenizer.from_pretrained(source, trust_remote_code=False).save_pretrained(str(folder))
