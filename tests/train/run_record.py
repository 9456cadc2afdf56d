"""A training run on record: what the optimizer, the loss, the engines and the environments were given, step by step.

Runs are of a tiny model of random weights. Their episodes are played by its engine in a world of doors, or by a script
that earns something (`Script`), where only learning is looked at.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import TrainerCallback

from align_echo.errors import AlignEchoError, ModelError
from align_echo.models.local.chat_template import CHATML_TEMPLATE, OWN_FORMAT, ChatFormat
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.engine import TokenRequest
from align_echo.models.local.loading import load_encoder
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.models.local.weights import read_model
from align_echo.rollout.batches import run_tasks
from align_echo.rollout.session import Episode
from align_echo.train.batching import TensorBatch
from align_echo.train.checkpoints import RoleCheckpoints
from align_echo.train.config import TrainConfig, checked_config, merged, method
from align_echo.train.objective import BatchLoss, batch_loss
from align_echo.train.role_models import RoleModels
from align_echo.train.rows import Role, RolloutBatch
from align_echo.train.run import HeldOut, TrainingRun, play_batch
from align_echo.train.signals import Signals
from align_echo.train.stage import Stage
from align_echo.types import Step, Trajectory
from tests.models.local.tiny import tiny_encoder, tiny_model, tiny_tokenizer
from tests.train.scripted_stage import ScriptedStage
from tests.train.updates import Group, updates_kept

ENCODER = tiny_encoder()
MODELS = {"first": 0, "second": 1}
"""Folders with a model of random weights each, and the seeds of these."""


def write_models(folder: Path) -> None:
    """Write the models, to be named as `./first` and `./second`, and a chat template."""
    (folder / "own.jinja").write_text("In our way{{ how }}. " + CHATML_TEMPLATE)
    for name, seed in MODELS.items():
        tiny_model(seed=seed, context=4096).save_pretrained(folder / name)
        tiny_tokenizer().save_pretrained(folder / name)


@dataclass
class Script(ScriptedStage):
    """Episodes and critiques as written down; every second episode is a turn shorter. What was sampled first was
    unlikely when it was, and all else likely.
    """

    score: Callable[[Episode], float | None] = lambda episode: (
        1.0 - 0.75 * (episode.sample % 2) if episode.critique else (episode.sample + 1) % 3 / 2
    )
    best_of: int = 1

    def at_step(self, step: int) -> Script:
        return self

    def _episode(self, episode: Episode) -> Trajectory:
        trajectory = super()._episode(episode)
        steps = trajectory.steps[: 1 + (episode.sample + 1) % 2]
        return trajectory.model_copy(update={"steps": tuple(map(_drawn_unlikely, steps))})


def _drawn_unlikely(step: Step) -> Step:
    assert step.tokens is not None
    logprobs = (-9.0, *step.tokens.logprobs[1:])
    return step.model_copy(update={"tokens": step.tokens.model_copy(update={"logprobs": logprobs})})


class Asked(NamedTuple):
    """A request to an engine; `held_out` where held-out tasks are played, `harvest` counted from 0."""

    engine: str
    request: TokenRequest
    held_out: bool
    harvest: int

    @property
    def text(self) -> str:
        return ENCODER.text(self.request.ids)

    @property
    def role(self) -> Role:
        """Who is asked: critics are told that an attempt is judged, in either form."""
        return "critic" if any(begin in self.text for begin in ("You are the critic", "You made this")) else "policy"


class Engine(NamedTuple):
    """An engine as it was made."""

    slots: int
    dtype: torch.dtype


@dataclass(frozen=True)
class Learned:
    """A call of the loss."""

    harvest: int
    step: int
    batch: TensorBatch
    logprobs: torch.Tensor
    loss: BatchLoss


@dataclass
class RunRecord:
    """What a run did. `layers` counts forward passes of one layer with gradient, by the type of what it gave;
    `workers` are those of every call that plays; `tracked` are names of what trackers were told.
    """

    config: TrainConfig
    folder: Path
    is_evaluated: bool = False
    signals: list[Signals] = field(default_factory=list)
    evaluated: list[int] = field(default_factory=list)
    updates: list[list[Group]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    held_out_episodes: list[Trajectory] = field(default_factory=list)
    learned: list[Learned] = field(default_factory=list)
    harvests: list[RolloutBatch] = field(default_factory=list)
    queries: list[list[str]] = field(default_factory=list)
    begun: dict[Role, Mapping[str, torch.Tensor]] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    served: tuple[str, ...] = ()
    workers: list[int] = field(default_factory=list)
    layers: list[torch.dtype] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    tracked: set[str] = field(default_factory=set)
    error: str = ""
    trainer: RoleCheckpoints | None = None
    crew: RoleModels | None = None
    stages: list[Stage] = field(default_factory=list)

    def requests(self, role: Role | None = None, *, held_out: bool = False) -> list[TokenRequest]:
        """Those for replies, and not for verdicts in one word."""
        return [
            asked.request
            for asked in self.asked
            if asked.held_out == held_out and not asked.request.sampling.choices and role in (None, asked.role)
        ]

    def said_to(self, role: Role) -> str:
        """The first that a role was asked."""
        return next(asked.text for asked in self.asked if asked.role == role)

    @property
    def episodes(self) -> list[Trajectory]:
        """All that was played to be learned from, or scripted."""
        return [episode for harvest in self.harvests for episode in harvest.episodes]

    @property
    def groups(self) -> set[str]:
        """The groups of the first harvest's rows."""
        return {row.group for row in self.harvests[0].rows}

    @property
    def held_out_tasks(self) -> list[str]:
        """The task of every held-out episode."""
        return [episode.task_id for episode in self.held_out_episodes]

    @property
    def candidates(self) -> int:
        """The most candidates for an action."""
        steps = [step for trajectory in self.episodes for step in trajectory.steps]
        return max(len(step.choice.candidates) if step.choice else 1 for step in steps)

    @property
    def micro_batches(self) -> list[int]:
        """How many rows TRL's trainer computes at once."""
        return [len(part.inputs["advantages"]) for part in getattr(self.trainer, "_parts", ())]

    def model_at_the_start(self, role: Role) -> str:
        """The folder whose weights a role began with."""
        known = {name: tiny_model(seed=seed, context=4096).state_dict() for name, seed in MODELS.items()}
        (embeddings,) = (value for name, value in self.begun[role].items() if "embed_tokens" in name)
        return next(
            name for name, state in known.items() if torch.equal(state["model.embed_tokens.weight"], embeddings)
        )


def _encoder(source: str, chat: ChatFormat) -> ChatEncoder:
    return ENCODER if chat == OWN_FORMAT else load_encoder(source, chat)


class Told(TrainerCallback):
    """A tracker that knows names alone."""

    tb_writer = None

    def __init__(self, record: RunRecord) -> None:
        self._record = record

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        self._record.tracked |= set(logs)


class RecordedRun(TrainingRun):
    """A run that puts on record what it is made of; a `script` plays in place of its engines."""

    def __init__(self, record: RunRecord, script: Script | None) -> None:
        super().__init__(record.config, record.folder)
        self._on_record, self._script = record, script

    def _stage(self, crew: RoleModels, split: str, temperature: float) -> Any:
        if self._script is not None:
            return self._script
        stage = super()._stage(crew, split, temperature)
        self._on_record.stages.append(stage)
        return stage

    def _trainer(self, crew: RoleModels, watch: Callable[[int, Signals], None]) -> RoleCheckpoints:
        record, backbone = self._on_record, crew.backbone
        record.crew, record.trainer = crew, super()._trainer(crew, watch)
        for role in ("policy", "critic"):
            weights = backbone.activate(role).named_parameters()
            record.begun[role] = {name: each.detach().clone() for name, each in weights}
        layers = dict(backbone.module.named_modules())
        layer = next(module for name, module in layers.items() if name.endswith("layers.0.self_attn.q_proj"))
        layer.register_forward_hook(self._layer_was_run)
        return record.trainer

    def _layer_was_run(self, module: Any, given: Any, made: torch.Tensor) -> None:
        if torch.is_grad_enabled():
            self._on_record.layers.append(made.dtype)


def config_of(values: Mapping[str, Any]) -> TrainConfig:
    """A config in which everything is small, of the method that `base` names."""
    base = method(values.get("base", "grpo"))
    small = {
        "model": "./first",
        "steps": 2,
        "save_every": 2,
        "threads": 1,
        "optimising": {"lr": 1e-2, "critic_lr": None},
        "rollouts": {"episodes": 0},
        "collecting": {
            **{"tasks": 1, "samples": 3, "turns": 1, "reply_tokens": 4, "critique_tokens": 5, "workers": 3},
        },
    }
    changes = {name: value for name, value in values.items() if name != "base"}
    return checked_config(merged(merged(base, small), changes), "test")


@cache
def read_once(kind: Any, folder: Path) -> Any:
    """The model of a folder, to be copied: reading one takes longer than all that a run of this size does with it."""
    return read_model(kind, str(folder), torch.float32)


def copy_of(kind: Any, source: str) -> Any:
    return copy.deepcopy(read_once(kind, Path(source).resolve()))


def record_of(values: Mapping[str, Any], folder: Path, script: Script | None = None) -> RunRecord:
    """Train by a config, in the folder that holds its models, and say what was done."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("align_echo.train.trackers.find_spec", lambda name: object())
        record = RunRecord(config_of(values), folder)
        patch.setattr("align_echo.train.trackers._tensorboard", lambda folder, begun_at: Told(record))
        reader = "align_echo.train.role_models.read_strange_model"
        patch.setattr(reader, lambda kind, source, dtype, four_bit: copy_of(kind, source).to(dtype))
        patch.setattr("align_echo.train.role_models.load_encoder", _encoder)
        _watch_losses(patch, record)
        _watch_play(patch, record)
        with updates_kept(record.updates):
            try:
                RecordedRun(record, script).train(_watched_by(record), lambda step, _: record.evaluated.append(step))
            except AlignEchoError as error:
                record.error = str(error)
    return record


def _watched_by(record: RunRecord) -> Callable[[int, Signals], None]:
    def watch(step: int, signals: Signals) -> None:
        record.signals.append(signals)
        record.threads.add(torch.get_num_threads())

    return watch


def _watch_losses(patch: pytest.MonkeyPatch, record: RunRecord) -> None:
    def lose(batch: TensorBatch, logprobs: torch.Tensor, *given: Any, **options: Any) -> BatchLoss:
        loss = batch_loss(batch, logprobs, *given, **options)
        number = (len(record.updates)) // record.config.step.updates
        record.learned.append(Learned(number, len(record.updates), batch, logprobs.detach().clone(), loss))
        return loss

    patch.setattr("align_echo.train.trainer.batch_loss", lose)


def _watch_play(patch: pytest.MonkeyPatch, record: RunRecord) -> None:
    make, submit, evaluate = TransformersEngine.__init__, TransformersEngine.submit, HeldOut.__call__

    def made(engine: TransformersEngine, model: Any, **options: Any) -> None:
        record.engines[options["name"]] = Engine(options["slots"], model.dtype)
        make(engine, model, **options)

    def asked(engine: TransformersEngine, request: TokenRequest) -> Any:
        record.asked.append(Asked(engine.name, request, record.is_evaluated, len(record.harvests)))
        return submit(engine, request)

    def held_out(evaluation: HeldOut) -> Signals:
        record.is_evaluated = True
        signals = evaluate(evaluation)
        record.is_evaluated = False
        return signals

    def harvested(config: Any, queries: Sequence[str], *given: Any) -> RolloutBatch:
        harvest = play_batch(config, queries, *given)
        record.harvests.append(harvest)
        record.queries.append(list(queries))
        return harvest

    def played(*given: Any, workers: int = 1, **options: Any) -> list[Trajectory]:
        record.workers.append(workers)
        trajectories = run_tasks(*given, workers=workers, **options)
        record.held_out_episodes += trajectories if record.is_evaluated else []
        return trajectories

    def connected(addresses: Sequence[str], *_: Any) -> Any:
        record.served = tuple(addresses)
        raise ModelError("nobody is there")

    patch.setattr(TransformersEngine, "__init__", made)
    patch.setattr(TransformersEngine, "submit", asked)
    patch.setattr(HeldOut, "__call__", held_out)
    patch.setattr("align_echo.train.run.play_batch", harvested)
    patch.setattr("align_echo.train.stage.run_tasks", played)
    patch.setattr("align_echo.train.role_models.served_by", connected)
