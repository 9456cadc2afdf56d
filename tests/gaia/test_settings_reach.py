"""Every setting of a critic's training, seen where it acts: in critics that read, that look and that reason.

`READING`, `LOOKING` and `REASONING` are the tables (`tests/reach.py`): a new setting needs a row in each that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("datasets")
pytest.importorskip("peft")
pytest.importorskip("PIL")

import torch
from transformers import Trainer

from align_echo.gaia.examples import write_examples
from align_echo.gaia.fit import learning
from align_echo.gaia.fit import reasoning as reasoning_steps
from align_echo.gaia.fit.folder import read_settings
from align_echo.gaia.fit.intuitive import fit
from align_echo.gaia.fit.learning import FitSettings
from align_echo.gaia.fit.reasoning import ReasoningSettings, fit_reasoning
from align_echo.gaia.fit.trainer import VerdictTrainer
from align_echo.gaia.gui import learning as gui_learning
from align_echo.gaia.gui.fit import fit_screens
from align_echo.gaia.gui.learning import VisionSettings
from align_echo.gaia.gui.vision import ScreenEncoder
from align_echo.models.local.engine import TokenRequest
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.train.batching import batches
from align_echo.train.trainer import RoleTrainer
from align_echo.train.tree_attention import trees
from tests.gaia.gui.drawn_screens import dataset
from tests.gaia.test_examples import example
from tests.models.local.tiny import tiny_model, tiny_tokenizer
from tests.reach import Case, Row, Scene, check, fields, unseen
from tests.train.updates import Group, updates_kept

TASKS = 8


@dataclass
class FitRecord:
    """What a training of a critic did. `steps` holds what each step of a critic of one word learned from, `at_once`
    how much was computed at once, `judged` how many actions and replies each harvest of a reasoning one had.
    """

    folder: Path
    updates: list[list[Group]] = field(default_factory=list)
    steps: list[Sequence[Any]] = field(default_factory=list)
    at_once: list[int] = field(default_factory=list)
    imitated: list[int] = field(default_factory=list)
    judged: list[tuple[int, int]] = field(default_factory=list)
    asked: list[TokenRequest] = field(default_factory=list)
    layers: list[torch.dtype] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    begun: dict[str, torch.Tensor] = field(default_factory=dict)
    scales: list[float] = field(default_factory=list)
    fitted: Any = None

    @property
    def first_adapter(self) -> list[float]:
        """The weights with which an adapter begins."""
        flat: list[float] = next(each for name, each in self.begun.items() if "lora_A" in name).flatten().tolist()
        return flat

    @property
    def rates(self) -> list[float]:
        return [max(group.lr for group in update) for update in self.updates]

    def learned_by(self, learner: Any) -> None:
        """Keep what a model begins as, the scales of its adapters, and what its first linear layer gives."""
        self.begun |= {name: each.detach().clone() for name, each in learner.named_parameters()}
        adapted = [module for module in learner.modules() if hasattr(module, "lora_A")]
        self.scales += [scale for module in adapted for scale in module.scaling.values()]
        linear = next(module for module in learner.modules() if isinstance(module, torch.nn.Linear))
        linear.register_forward_hook(self._layer_was_run)

    def _layer_was_run(self, module: Any, given: Any, made: torch.Tensor) -> None:
        if torch.is_grad_enabled():
            self.layers.append(made.dtype)


def row(name: str, see: Callable[[FitRecord], Any], *cases: Case) -> Row[FitRecord]:
    return Row(name, see, cases)


# ---------------------------------------------------------------- what is looked at


def rank(record: FitRecord) -> int:
    """The longest of the shorter sides of what the optimizer moves: of adapters their rank."""
    return max(min(shape) for group in record.updates[0] for shape in group.shapes)


def scaling(record: FitRecord) -> float:
    """The scale of the first adapter."""
    return record.scales[0]


def warmup(record: FitRecord) -> float:
    """The share of steps before the highest rate, in halves."""
    before = record.rates.index(max(record.rates))
    return round(2 * before / len(record.rates)) / 2


def dtype(record: FitRecord) -> str:
    return str(record.layers[0])


def laps(record: FitRecord) -> float:
    """How often each example was learned from."""
    return sum(map(len, record.steps)) / int(record.fitted.learned_from)


def batch_size(record: FitRecord) -> int:
    """From how many actions on a step takes no episode more: those of this collection hold two to four."""
    return len(record.steps[0]) // 4 * 4


def weighed(record: FitRecord) -> bool:
    """Whether some actions count more than others."""
    return len({round(question.weight, 6) for step in record.steps for question in step}) > 1


def bounds(record: FitRecord) -> list[int]:
    """The most tokens of replies."""
    return sorted({request.sampling.max_tokens for request in record.asked})


# ---------------------------------------------------------------- the tables

ONE_WORD = [
    row("lr", lambda record: max(record.rates), (1e-3, 1e-3), (2e-3, 2e-3)),
    row("warmup", warmup, (0.0, 0), (0.5, 0.5)),
    row("weight_decay", lambda record: record.updates[-1][0].weight_decay, (0.0, 0.0), (0.1, 0.1)),
    row("epochs", laps, (1, 1), (2, 2)),
    row("bf16", dtype, (False, "torch.float32"), (True, "torch.bfloat16")),
]
"""Settings of critics that read and of those that look."""

ADAPTERS = [
    row("weights", lambda record: rank(record) > 8, ("lora", False), ("lora", False), ("full", True)),
    row("rank", rank, (8, 8), (4, 4)),
    row("alpha", scaling, (32, 4.0), (8, 2.0)),
]

READING: Scene[FitRecord] = Scene(
    {},
    [
        *ONE_WORD,
        *ADAPTERS,
        row("batch_size", batch_size, (8, 8), (4, 4)),
        row("save_every", lambda record: record.saved[0], (2, 2), (5, 5)),
        row("tokens_per_tree", lambda record: max(record.at_once) > 300, (6000, True), (300, False)),
        row("longest", lambda record: record.fitted.too_long > 0, (4096, False), (300, True)),
        row("balance", weighed, ("dropped", False), ("weighed", True)),
    ],
)
LOOKING: Scene[FitRecord] = Scene(
    {},
    [
        *ONE_WORD,
        *ADAPTERS,
        row("batch_size", lambda record: len(record.steps[0]), (8, 8), (4, 4)),
        row("save_every", lambda record: record.saved[0], (2, 2), (5, 5)),
        row("at_once", lambda record: max(record.at_once), (3, 3), (2, 2)),
    ],
)
REASONING: Scene[FitRecord] = Scene(
    {},
    [
        *ADAPTERS,
        row("warm_examples", lambda record: sum(record.imitated), (4, 4), (3, 3)),
        row("warm_batch", lambda record: max(record.imitated), (2, 2), (3, 3)),
        row("warm_lr", lambda record: record.rates[0], (1e-3, 1e-3), (2e-3, 2e-3)),
        row("lr", lambda record: record.rates[-1], (3e-4, 3e-4), (4e-4, 4e-4)),
        row("steps", lambda record: len(record.judged), (2, 2), (3, 3)),
        row("states", lambda record: record.judged[0][0], (2, 2), (4, 4)),
        row("samples", lambda record: record.judged[0][1], (3, 3), (2, 2)),
        row("reply_tokens", bounds, (96, [96]), (90, [90])),
        row("tokens_per_batch", lambda record: max(record.at_once) > 300, (8192, True), (300, False)),
        row("longest", lambda record: record.fitted.too_long > 0, (4096, False), (400, True)),
        row("bf16", dtype, (False, "torch.float32"), (True, "torch.bfloat16")),
        row("save_every", lambda record: record.saved[-2:], (1, [1, 2]), (2, [2, 3])),
    ],
)


# ---------------------------------------------------------------- trainings


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Path:
    """In every task one action is right and one wrong, in one several are wrong, and in one of them they are long."""
    words = {"go": "correct", "sing": "wrong"}
    made = [example(f"task {task}", f"{word} {task}", nearer=of) for task in range(TASKS) for word, of in words.items()]
    made += [example("task 0", f"dance {times}", nearer="wrong") for times in range(2)]
    made += [example("task 1", f"{word} {'on ' * 60}", nearer=of) for word, of in words.items()]
    folder: Path = tmp_path_factory.mktemp("collection")
    write_examples(made, folder / "examples.parquet")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder: Path = tmp_path_factory.mktemp("model")
    tiny_model(context=4096).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def screens(tmp_path_factory) -> Path:
    return dataset(tmp_path_factory.mktemp("screens") / "data", TASKS, seed="reach")


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Give a new record, to which all that is done from now on is added, and a folder of its own."""
    records: list[FitRecord] = []
    submit, batch, compare = TransformersEngine.submit, ScreenEncoder.batch, reasoning_steps.judge_actions

    class Watched(VerdictTrainer):
        def __init__(self, learner: Any, *given: Any, **options: Any) -> None:
            records[-1].learned_by(learner)
            super().__init__(learner, *given, **options)

        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
            records[-1].steps.append(inputs["step"])
            return super().training_step(model, inputs, num_items_in_batch)

    class WatchedRoles(RoleTrainer):
        def __init__(self, backbone: Any, *given: Any, **options: Any) -> None:
            records[-1].learned_by(backbone.module)
            super().__init__(backbone, *given, **options)

    def grown(rows: Any, *, most_tokens: int) -> Any:
        made = trees(rows, most_tokens=most_tokens)
        records[-1].at_once += [len(tree.ids) for tree in made]
        return made

    def divided(rows: Any, *given: Any, **options: Any) -> Any:
        made = batches(rows, *given, **options)
        records[-1].at_once += [each.computed for each in made]
        records[-1].imitated += [len(rows)] if rows and rows[0].expert else []
        return made

    def judged(model: Any, drawn: Any, settings: Any) -> Any:
        harvest = compare(model, drawn, settings)
        records[-1].judged.append((len(drawn), len(harvest.rows) // len(drawn)))
        return harvest

    def asked(engine: TransformersEngine, request: TokenRequest) -> Any:
        records[-1].asked.append(request)
        return submit(engine, request)

    def sighted(encoder: ScreenEncoder, questions: Any, device: torch.device) -> Any:
        records[-1].at_once.append(len(questions))
        return batch(encoder, questions, device)

    def saved(trainer: Trainer, *given: Any) -> None:
        records[-1].saved.append(trainer.state.global_step)
        save(trainer, *given)

    save = Trainer._save_checkpoint
    monkeypatch.setattr(Trainer, "_save_checkpoint", saved)
    monkeypatch.setattr(learning, "VerdictTrainer", Watched)
    monkeypatch.setattr(gui_learning, "VerdictTrainer", Watched)
    monkeypatch.setattr(learning, "trees", grown)
    monkeypatch.setattr(reasoning_steps, "RoleTrainer", WatchedRoles)
    monkeypatch.setattr(reasoning_steps, "judge_actions", judged)
    monkeypatch.setattr("align_echo.train.trainer.batches", divided)
    monkeypatch.setattr(TransformersEngine, "submit", asked)
    monkeypatch.setattr(ScreenEncoder, "batch", sighted)

    def begin() -> FitRecord:
        records.append(FitRecord(tmp_path / str(len(records))))
        return records[-1]

    return begin


def settings_from_file(kind: Any, values: Mapping[str, Any], folder: Path) -> Any:
    """The settings as a user's YAML file gives them."""
    file = folder.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(dict(values)))
    return read_settings(kind, file, {})


@pytest.mark.parametrize(
    ("kind", "scene"), [(FitSettings, READING), (VisionSettings, LOOKING), (ReasoningSettings, REASONING)]
)
def test_every_setting_of_a_critic_is_seen_where_it_acts(kind, scene):
    assert unseen(fields(kind), [scene], {"seed": test_another_seed_takes_other_examples_in_another_order}) == []


@pytest.mark.long
def test_the_settings_of_critics_that_read_act(record, collection, model):
    def train(values: dict[str, Any], run: int) -> FitRecord:
        kept: FitRecord = record()
        settings = settings_from_file(FitSettings, values, kept.folder)
        with updates_kept(kept.updates):
            kept.fitted = fit([collection], kept.folder, model=model, settings=settings, share=0, least=1)
        return kept

    check(READING, train)


@pytest.mark.long
def test_the_settings_of_critics_that_look_act(record, screens):
    def train(values: dict[str, Any], run: int) -> FitRecord:
        kept: FitRecord = record()
        settings = settings_from_file(VisionSettings, values, kept.folder)
        with updates_kept(kept.updates):
            kept.fitted = fit_screens(screens, kept.folder, settings=settings, share=0, least=1)
        return kept

    check(LOOKING, train)


@pytest.mark.long
def test_the_settings_of_critics_that_reason_act(record, collection, model):
    def train(values: dict[str, Any], run: int) -> FitRecord:
        kept: FitRecord = record()
        settings = settings_from_file(ReasoningSettings, values, kept.folder)
        with updates_kept(kept.updates):
            kept.fitted = fit_reasoning([collection], kept.folder, model=model, settings=settings, share=0, least=1)
        return kept

    check(REASONING, train)


@pytest.mark.long
def test_another_seed_takes_other_examples_in_another_order(record, collection, model, screens):
    """And begins with other adapters; the same seed does as before."""

    def order(seed: int) -> tuple[object, ...]:
        kept = record()
        fit([collection], kept.folder, model=model, settings=FitSettings(seed=seed), share=0, least=1)
        return [question.episode for step in kept.steps for question in step], kept.first_adapter

    def order_of_screens(seed: int) -> tuple[object, ...]:
        kept = record()
        fit_screens(screens, kept.folder, settings=VisionSettings(seed=seed), share=0, least=1)
        return [question.step.id for step in kept.steps for question in step], kept.first_adapter

    def draws(seed: int) -> tuple[object, ...]:
        kept: FitRecord = record()
        settings = ReasoningSettings(warm_examples=2, steps=1, states=2, samples=2, reply_tokens=96, seed=seed)
        fit_reasoning([collection], kept.folder, model=model, settings=settings, share=0, least=1)
        return sorted(request.sampling.seed for request in kept.asked), kept.first_adapter

    for made in (order, order_of_screens, draws):
        first, other, again = (made(seed) for seed in (0, 5, 0))
        assert first == again
        assert all(here != there for here, there in zip(first, other, strict=True))
