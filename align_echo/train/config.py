"""What a training run is: read from YAML, checked before anything is loaded.

The files of `configs/` are the methods by name, each with all that makes it that method; a user's file may begin with
`method: NAME` and change some of it. Left out: what is done with it (`align_echo.train.run`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from align_echo.critic.language import ECHO, FORMS
from align_echo.errors import UsageError, did_you_mean, first_line
from align_echo.reading import first_wrong, yaml_mapping
from align_echo.regular_files import read_text
from align_echo.runs import CONFIG
from align_echo.train.method import METHODS, Collecting, Method
from align_echo.train.presets import implementation_for, methods, preset_settings
from align_echo.train.renamed_keys import refuse_old_keys
from align_echo.train.rollouts import Rollouts
from align_echo.train.rows import Role
from align_echo.train.run_folder import on_record
from align_echo.train.trackers import why_unusable
from align_echo.train.trainer import StepSettings
from align_echo.types import Frozen
from align_echo.wrappers.catalogue import ENVIRONMENTS, environment, environments
from align_echo.wrappers.environment import never

Weights = Literal["shared", "adapters", "models"]
Momentum = Annotated[float, Field(ge=0, lt=1)]


class Lora(Frozen, allow_inf_nan=False):
    """Low-rank adapters as in PEFT, on all linear layers."""

    rank: int = Field(default=8, ge=1)
    """Rank of the adapters."""
    alpha: int = Field(default=32, ge=1)
    """Their scale is alpha / rank."""


class Optimising(Frozen, allow_inf_nan=False):
    """AdamW with a rate for each role."""

    lr: float = Field(default=1e-6, gt=0)
    """The policy's rate, and that of shared weights."""
    critic_lr: float | None = Field(default=None, gt=0)
    """The critic's rate, where it has weights of its own; null: as `lr`."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Of AdamW."""
    betas: tuple[Momentum, Momentum] = (0.9, 0.999)
    """AdamW's momenta."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the rate goes on after the warm-up."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps in which the rate rises."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradients are clipped to this norm, for each set of weights apart."""


class Trl(Frozen):
    """TRL's trainer, with `backend: trl`."""

    rows: int = Field(default=4, ge=1)
    """Rows that a process computes at once; `step.tokens_per_batch` and `share_prefixes` are our own trainer's."""


class Evaluating(Frozen, allow_inf_nan=False):
    """Held-out tasks, which are played without critiques. The best checkpoint is the one with the best `score`."""

    every: int = Field(default=0, ge=0)
    """Held-out tasks are played after so many steps; 0: never."""
    tasks: int = Field(default=64, ge=1)
    """How many of them."""
    split: str | None = None
    """Whose tasks; null: the environment's test split."""
    temperature: float = Field(default=1.0, ge=0)
    """Of the policy's replies; 0 is greedy."""
    patience: int = Field(default=0, ge=0)
    """Ends the run after so many evaluations without a better one; 0: never."""


def _known_method(name: str) -> str:
    METHODS.get(implementation_for(name))
    return name


class TrainConfig(Frozen, allow_inf_nan=False):
    """A run, complete."""

    method: Annotated[str, AfterValidator(_known_method)]
    """The method: a name, or `module:NAME`."""
    env: str = "alfworld"
    """An environment by name, or `module:NAME`."""
    split: str | None = None
    """Whose tasks are trained on; null: the environment's training split."""
    task_types: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Only tasks of these types are trained on; held-out tasks are of every type. Null: all."""
    interface: str = "none"
    """`none`, a shipped name, or a `.py` file."""
    model: str = "pocket"
    """What both roles begin as: `pocket`, a folder, or `transformers:HUB`."""
    critic: str | None = None
    """What the critic begins as, with `weights: models`; null: as `model`."""
    weights: Weights = "shared"
    """One model for both roles, an adapter for each on one model, or a model each."""
    trained: tuple[Role, ...] = ("policy", "critic")
    """The roles that learn; the other stays as it was."""
    collecting: Collecting = Collecting()
    """How a batch is played: see below."""
    step: StepSettings = StepSettings()
    """How a batch becomes steps: see below."""
    optimising: Optimising = Optimising()
    """The optimizer: see below."""
    evaluating: Evaluating = Evaluating()
    """Held-out tasks: see below."""
    lora: Lora = Lora()
    """Adapters, with `weights: adapters`: see below."""
    backend: Literal["own", "trl"] = "own"
    """Who takes the steps: our own trainer, or TRL's GRPOTrainer on the same rows."""
    trl: Trl = Trl()
    """TRL's trainer: see below."""
    rollouts: Rollouts = Rollouts()
    """Episodes that are kept to be read: see below."""
    steps: int = Field(default=100, ge=1)
    """Steps of the optimizer."""
    environment_steps: int | None = Field(default=None, ge=1)
    """Ends the run once so many turns were played; null: no such end."""
    save_every: int | None = Field(default=None, ge=1)
    """Steps between checkpoints; null: every evaluation, or 10 where there is none."""
    bf16: bool = False
    """Mixed precision (bfloat16)."""
    gradient_checkpointing: bool = False
    """Computes activations twice, to save memory; shares no prefixes."""
    threads: int = Field(default=2, ge=1)
    """Threads of the CPU."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of every draw."""
    report_to: tuple[str, ...] = ()
    """Trackers that are told the signals."""

    @property
    def implementation(self) -> Method:
        """The `Method` that plays the batches of this run."""
        return METHODS.get(implementation_for(self.method))

    @property
    def steps_a_checkpoint(self) -> int:
        """From one checkpoint to the next."""
        return self.save_every or self.evaluating.every or 10


def method(name: str) -> dict[str, Any]:
    """The values of a method's file; of one without a file, its name alone. Raises `UsageError` for an unknown name."""
    if name not in methods():
        if name in METHODS.entries() or ":" in name:
            METHODS.get(name)
            return {"method": name}
        hint = did_you_mean(name, methods())
        raise UsageError(f"unknown method {name!r}; {hint}known: {', '.join(methods())}; your own is module:NAME")
    return preset_settings(name)


def read_file(path: Path) -> dict[str, Any]:
    """The values of a user's file, on those of its `method`, or of the `base` that it names. Raises `UsageError`."""
    try:
        settings = yaml_mapping(read_text(path), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {first_line(error)}") from None
    refuse_old_keys(settings, str(path))
    base = settings.pop("base", settings.get("method"))
    return merged(method(str(base)), settings) if base is not None else settings


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Both as one mapping, in which `changes` win; sections are merged value by value."""
    settings = dict(base)
    for name, value in changes.items():
        old = settings.get(name)
        settings[name] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return settings


def stored_config(folder: Path, changes: Mapping[str, Any]) -> TrainConfig:
    """Return the config of the run in a folder, which must be what is asked for. Raises `UsageError`."""
    source, stored = str(folder / CONFIG), on_record(folder)["config"]
    _check_stored_names(stored, source, named=changes)
    return checked_config(merged(stored, changes), source)


def _check_stored_names(stored: Mapping[str, Any], source: str, named: Collection[str]) -> None:
    """Refuse the values of a run's folder where they name a module that this program was not told of: a folder may be
    somebody else's. `named` are the settings that the user says anew. Raises `UsageError`.
    """
    collecting = stored.get("collecting")
    again = "repeat its command with --config or --method, and --resume"
    if "env" not in named and not ENVIRONMENTS.knows(stored.get("env")):
        ENVIRONMENTS.recorded(stored["env"], source, f"add --env {stored['env']}")
    if "method" not in named:
        METHODS.recorded(implementation_for(str(stored.get("method", ""))), source, again)
    if isinstance(collecting, Mapping):
        FORMS.recorded(collecting.get("form", ECHO.name), source, again)


def checked_config(values: Mapping[str, Any], source: str) -> TrainConfig:
    """Raises `UsageError` that names the first wrong value, and for values that contradict each other."""
    refuse_old_keys(values, source)
    try:
        config = TrainConfig.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"{source}: {_problem(error)}") from None
    for wrong, why in _contradictions(config):
        if wrong:
            raise UsageError(f"{source}: {why}")
    return config


def _problem(error: ValidationError) -> str:
    """The first wrong value and what is wrong with it: in our words where pydantic's would not help."""
    first = error.errors()[0]
    if first["loc"] == ("method",) and first["type"] == "missing":
        names = ", ".join(methods())
        return f"method: nothing says how to train: begin the file with method: METHOD, one of {names}"
    return first_wrong(error)


def _contradictions(config: TrainConfig) -> list[tuple[bool, str]]:
    shared, both = config.weights == "shared", len(set(config.trained)) == 2
    method, spec = config.implementation, environment(config.env)
    every = config.evaluating.every
    return [
        (not config.trained, "trained: name policy, critic or both"),
        (
            method.roles == ("policy",) and "policy" not in config.trained,
            f"trained: {method.name} learns as a policy alone: train the policy",
        ),
        (
            method.roles == ("critic",) and "critic" not in config.trained,
            f"trained: {method.name} learns as a critic alone: train the critic",
        ),
        (
            method.needs == "distances" and not spec.measures_distance,
            f"env: {config.env} does not measure how far the goal is, by which {method.name} learns: take "
            f"{' or '.join(_measured())}",
        ),
        (
            method.needs == "expert" and spec.has_expert is never,
            f"env: {config.env} has no expert to learn from, which {method.name} needs: declare one "
            "(TextEnvironment(..., expert=...)), or take another method",
        ),
        (
            method.imitates != (config.step.advantage == "reward"),
            "step.advantage: reward is for methods that imitate and compare nothing (sft); every other needs group",
        ),
        (
            config.critic is not None and config.weights != "models",
            "critic: a critic that begins as another model needs weights: models",
        ),
        (shared and not both, "trained: shared weights learn both roles: take weights: models or adapters"),
        (
            shared and config.optimising.critic_lr not in (None, config.optimising.lr),
            "optimising.critic_lr: shared weights have one rate: take models or adapters",
        ),
        (
            config.step.advantage == "group" and config.collecting.samples == 1,
            "collecting.samples: samples are compared with each other: take 2 or more",
        ),
        (
            config.step.critic_warmup > 0 and (shared or not both),
            "step.critic_warmup: needs both roles trained, with weights: models or adapters",
        ),
        (
            bool(config.collecting.servers) and config.weights == "models",
            "collecting.servers: servers of one model play: take weights: adapters, or shared",
        ),
        (
            bool(config.collecting.servers) and config.collecting.dtype != "float32",
            "collecting.dtype: is of engines in this process, and servers play: leave it out",
        ),
        (
            len(set(config.collecting.servers)) < len(config.collecting.servers),
            "collecting.servers: name each server once",
        ),
        (config.evaluating.patience > 0 and every == 0, "evaluating.patience: needs evaluating.every"),
        *((True, f"report_to: {why}") for why in why_unusable(config.report_to)),
        *((config.backend == "trl" and wrong, f"backend: trl {why}: take own") for wrong, why in _not_trl(config)),
        (
            config.steps_a_checkpoint % config.step.updates != 0,
            "save_every: a checkpoint ends a batch: take a multiple of step.updates",
        ),
        (
            every > 0 and config.steps_a_checkpoint != every,
            "save_every: the best checkpoint is one that was evaluated: leave it out, or take evaluating.every",
        ),
    ]


def _not_trl(config: TrainConfig) -> list[tuple[bool, str]]:
    """What TRL's trainer or its loss cannot express."""
    method, objective = config.implementation, config.step.objective
    learning = set(method.roles) & set(config.trained)
    uneven = config.step.normalisation == "sequence" or objective.kl != "k3"
    return [
        (config.weights == "models" and len(learning) > 1, "learns one model, or adapters on one (weights: adapters)"),
        (method.imitates, "has no likelihood of an expert's tokens"),
        (method.needs == "expert", "has no shaped loss for an expert's tokens"),
        (config.step.ahead, "plays no batch ahead (step.ahead)"),
        (config.step.critic_warmup > 0, "moves both roles in every step (step.critic_warmup)"),
        (objective.beta > 0 and uneven, "weighs the KL term by tokens and estimates it by k3 (step.objective.beta)"),
    ]


def _measured() -> list[str]:
    return [name for name, spec in environments().items() if spec.measures_distance]

