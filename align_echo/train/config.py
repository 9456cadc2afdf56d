"""The config of a training run: read from YAML, checked before any model is loaded.

A user's file names a method (`method: NAME`, see `presets.py`) and changes some of its settings. Not here: the run
itself (`run.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, field_validator

from align_echo.base.files import read_text
from align_echo.base.plain_yaml import first_wrong, yaml_mapping
from align_echo.critic.labels import LABEL_RULES
from align_echo.critic.language import FORMS
from align_echo.errors import UsageError, did_you_mean, unreadable
from align_echo.registry import OURS
from align_echo.run_dir import CONFIG
from align_echo.train.advantages import ADVANTAGES
from align_echo.train.method import METHODS, CollectingSettings, Method
from align_echo.train.objective import try_loss
from align_echo.train.presets import implementation_for, methods, preset_settings, refuse_old_keys
from align_echo.train.rewards import REWARDS
from align_echo.train.rollouts import RolloutSettings
from align_echo.train.rows import Role
from align_echo.train.run_folder import on_record
from align_echo.train.trackers import why_unusable
from align_echo.train.trainer import StepSettings
from align_echo.types import Frozen
from align_echo.wrappers.catalogue import ENVIRONMENTS, environment, environments, is_trusted
from align_echo.wrappers.environment import never

Weights = Literal["shared", "adapters", "models"]
Momentum = Annotated[float, Field(ge=0, lt=1)]


class LoraSettings(Frozen, allow_inf_nan=False):
    """Low-rank adapters as in PEFT, on all linear layers."""

    rank: int = Field(default=8, ge=1)
    """Rank of the adapters."""
    alpha: int = Field(default=32, ge=1)
    """Scale of the adapters: alpha / rank."""
    four_bit: bool = False
    """QLoRA: keep the frozen model in 4 bits (NF4), in the trainer and the engine. Needs a GPU and bitsandbytes."""


class OptimizerSettings(Frozen, allow_inf_nan=False):
    """AdamW with a rate for each role."""

    lr: float = Field(default=1e-6, gt=0)
    """Learning rate of the policy, and of shared weights."""
    critic_lr: float | None = Field(default=None, gt=0)
    """Learning rate of a critic with weights of its own; null: as `lr`."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay of AdamW."""
    betas: tuple[Momentum, Momentum] = (0.9, 0.999)
    """Momenta of AdamW."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning rate after the warm-up."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps of rising learning rate at the start."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradients are clipped to this norm, separately for each set of weights."""


class TrlSettings(Frozen):
    """TRL's trainer, with `backend: trl`."""

    rows: int = Field(default=4, ge=1)
    """Rows a process computes at once; `step.tokens_per_batch` and `share_prefixes` are for our own trainer."""


class EvaluationSettings(Frozen, allow_inf_nan=False):
    """Held-out tasks, played without critiques. The best checkpoint is the one with the best `score`."""

    every: int = Field(default=0, ge=0)
    """Steps between evaluations; 0: none."""
    tasks: int = Field(default=64, ge=1)
    """Number of held-out tasks."""
    split: str | None = None
    """Split of the held-out tasks; null: the environment's test split."""
    temperature: float = Field(default=1.0, ge=0)
    """Sampling temperature of the policy; 0 is greedy."""
    patience: int = Field(default=0, ge=0)
    """Evaluations without improvement that end the run; 0: never."""


def _known_method(name: str) -> str:
    METHODS.get(implementation_for(name))
    return name


class TrainConfig(Frozen, allow_inf_nan=False):
    """All settings of a training run."""

    method: Annotated[str, AfterValidator(_known_method)]
    """The method: a name, or `module:NAME`."""
    env: str = "alfworld"
    """An environment by name, or `module:NAME`."""
    split: str | None = None
    """Split of the training tasks; null: the environment's training split."""
    task_types: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Train on tasks of these types only; null: all. Held-out tasks are of every type."""
    interface: str = "none"
    """`none`, a shipped name, or a `.py` file."""
    model: str = "pocket"
    """Start of both roles: `pocket`, a folder, or `transformers:HUB`."""
    chat_template: str | None = None
    """Chat template of both models: a file, or the name of one of their own; null: their default."""
    template_args: str | None = None
    """Variables of the chat template as JSON, such as `'{"enable_thinking": false}'`."""
    tools: bool = False
    """The policy calls tools: the environment's own, else one that takes an action."""
    critic: str | None = None
    """Start of the critic, with `weights: models`; null: as `model`."""
    weights: Weights = "shared"
    """One model for both roles, an adapter for each on one model, or a model each."""
    trained: tuple[Role, ...] = ("policy", "critic")
    """Roles that learn; the other keeps its weights."""
    collecting: CollectingSettings = CollectingSettings()
    """How a batch is played: see below."""
    step: StepSettings = Field(default=StepSettings(), validate_default=True)
    """How a batch becomes steps: see below."""
    optimising: OptimizerSettings = OptimizerSettings()
    """The optimizer: see below."""
    evaluating: EvaluationSettings = EvaluationSettings()
    """Held-out tasks: see below."""
    lora: LoraSettings = LoraSettings()
    """Adapters, with `weights: adapters`: see below."""
    backend: Literal["own", "trl"] = "own"
    """Trainer: our own, or TRL's GRPOTrainer on the same rows."""
    trl: TrlSettings = TrlSettings()
    """TRL's trainer: see below."""
    rollouts: RolloutSettings = RolloutSettings()
    """Episodes to keep for reading: see below."""
    steps: int = Field(default=100, ge=1)
    """Steps of the optimizer."""
    environment_steps: int | None = Field(default=None, ge=1)
    """Turns in environments that end the run; null: no limit."""
    save_every: int | None = Field(default=None, ge=1)
    """Steps between checkpoints; null: at every evaluation, or 10 without evaluations."""
    bf16: bool = False
    """Mixed precision (bfloat16)."""
    gradient_checkpointing: bool = False
    """Compute activations twice to save memory; without shared prefixes."""
    threads: int = Field(default=2, ge=1)
    """CPU threads."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of all random draws."""
    report_to: tuple[str, ...] = ()
    """Trackers to report signals to."""

    @field_validator("step")
    @classmethod
    def _with_advantage(cls, step: StepSettings, info: ValidationInfo) -> StepSettings:
        """Name the advantage, unless the method has its own."""
        known = info.data.get("method")  # missing if it is wrong
        if step.advantage or known is None or METHODS.get(implementation_for(known)).advantage:
            return step
        return step.model_copy(update={"advantage": "group"})

    @property
    def implementation(self) -> Method:
        """Return the `Method` that plays the batches."""
        return METHODS.get(implementation_for(self.method))

    @property
    def needs_expert(self) -> bool:
        """Return whether the environment's expert plays: it shows the method what to do, unless stored episodes do."""
        return self.implementation.needs == "expert" and not self.collecting.demonstrations

    @property
    def steps_a_checkpoint(self) -> int:
        """Number of steps from one checkpoint to the next."""
        return self.save_every or self.evaluating.every or 10


def method(name: str) -> dict[str, Any]:
    """Return a method's settings; only the name for a method without a file.

    Raises `UsageError` for an unknown name.
    """
    if name not in methods():
        if name in METHODS.entries() or ":" in name:
            METHODS.get(name)
            return {"method": name}
        known = [*methods(), *installed_methods()]
        hint = did_you_mean(name, known)
        raise UsageError(f"unknown method {name!r}; {hint}known: {', '.join(known)}; your own is module:NAME")
    return preset_settings(name)


def installed_methods() -> dict[str, str]:
    """Return the methods of other packages and of this program, with their origins."""
    return {name: entry.origin for name, entry in METHODS.entries().items() if not entry.origin.startswith(OURS)}


def read_file(path: Path) -> dict[str, Any]:
    """Read a user's file and merge it into the settings of its `base`, else of its `method`. Raises `UsageError`."""
    try:
        settings = yaml_mapping(read_text(path), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(unreadable(path, error)) from None
    refuse_old_keys(settings, str(path))
    base = settings.pop("base", settings.get("method"))
    return merged(method(str(base)), settings) if base is not None else settings


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings, section by section; `changes` win."""
    settings = dict(base)
    for name, value in changes.items():
        old = settings.get(name)
        settings[name] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return settings


def stored_config(folder: Path, changes: Mapping[str, Any]) -> TrainConfig:
    """Read the config of the run in a folder and apply `changes`. Raises `UsageError`."""
    source, stored = str(folder / CONFIG), on_record(folder)["config"]
    _check_stored_names(stored, source, named=changes)
    return checked_config(merged(stored, changes), source)


def _check_stored_names(stored: Mapping[str, Any], source: str, named: Collection[str]) -> None:
    """Refuse a stored config that names a module unknown to this program: the folder may be somebody else's.

    `named` are the settings given by the user again. Raises `UsageError`.
    """
    collecting, step = (stored.get(name) or {} for name in ("collecting", "step"))
    again = "repeat its command with --config or --method, and --resume"
    if "env" not in named and not is_trusted(stored.get("env")):
        ENVIRONMENTS.recorded(stored["env"], source, f"add --env {stored['env']}")
    if "method" not in named:
        METHODS.recorded(implementation_for(str(stored.get("method", ""))), source, again)
    for registry, section, key in (
        (FORMS, collecting, "form"),
        (LABEL_RULES, collecting, "rule"),
        (REWARDS, collecting, "critic_reward"),
        (ADVANTAGES, step, "advantage"),
    ):
        if isinstance(section, Mapping) and section.get(key) is not None:
            registry.recorded(section[key], source, again)


def checked_config(values: Mapping[str, Any], source: str) -> TrainConfig:
    """Validate settings. Raises `UsageError` with the first wrong value, or with values that contradict each other."""
    refuse_old_keys(values, source)
    try:
        config = TrainConfig.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"{source}: {_problem(error)}") from None
    for wrong, why in _contradictions(config):
        if wrong:
            raise UsageError(f"{source}: {why}")
    if config.implementation.loss is not None:
        try_loss(config.method, config.implementation.loss, config.step.objective)
    return config


def _problem(error: ValidationError) -> str:
    """Describe the first wrong value."""
    first = error.errors()[0]
    if first["loc"] == ("method",) and first["type"] == "missing":
        names = ", ".join(methods())
        return f"method: nothing says how to train: begin the file with method: METHOD, one of {names}"
    return first_wrong(error, of_settings=True)


def _contradictions(config: TrainConfig) -> list[tuple[bool, str]]:
    """List checks as (fails, message)."""
    shared, both = config.weights == "shared", len(set(config.trained)) == 2
    method, spec, rule = config.implementation, environment(config.env), config.collecting.rule
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
            method.needs == "distances" and rule is None and not spec.measures_distance,
            f"env: {config.env} does not measure how far the goal is, by which {method.name} learns: take "
            f"{' or '.join(_measured())}",
        ),
        (
            rule is not None and not LABEL_RULES.get(rule).fits(spec),
            f"collecting.rule: {config.env} is not labelled by the rule {rule}",
        ),
        (
            config.needs_expert and spec.has_expert is never,
            f"env: {config.env} has no expert to learn from, which {method.name} needs: declare one "
            "(TextEnvironment(..., expert=...)), or take another method"
            + (", or name stored episodes with --demonstrations" if method.imitates else ""),
        ),
        (
            method.moves and not config.collecting.history.sees_all,
            f"collecting: {method.name} learns from episodes without the critique that their opening held, and a "
            "bounded history writes the opening again: leave history_turns and history_tokens out",
        ),
        (
            not config.collecting.critique_won and not method.critiques_won,
            f"collecting.critique_won: {method.name} asks for no critiques of won attempts: leave it out",
        ),
        (
            config.tools and method.needs == "expert",
            f"tools: {method.name} learns from an expert's actions as text: leave tools out",
        ),
        (
            bool(config.collecting.demonstrations) and not method.imitates,
            f"collecting.demonstrations: {method.name} learns from rewards: stored episodes are for sft",
        ),
        (
            config.collecting.minimum_score is not None and not config.collecting.demonstrations,
            "collecting.minimum_score: is of stored episodes: name their runs (collecting.demonstrations)",
        ),
        (
            config.step.advantage == ("group" if method.imitates else "reward"),
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
            config.lora.four_bit and config.weights != "adapters",
            "lora.four_bit: is of a frozen model: take weights: adapters",
        ),
        (
            config.lora.four_bit and bool(config.collecting.servers),
            "lora.four_bit: servers play with weights of their own: leave one of both out",
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
    """List settings beyond TRL's trainer or loss, as (is set, message)."""
    method, objective = config.implementation, config.step.objective
    learning = set(method.roles) & set(config.trained)
    uneven = config.step.normalisation == "sequence" or objective.kl != "k3"
    return [
        (config.weights == "models" and len(learning) > 1, "learns one model, or adapters on one (weights: adapters)"),
        (method.loss is not None, f"has a loss of its own, and {config.method} brings another"),
        (method.imitates, "has no likelihood of an expert's tokens"),
        (config.needs_expert, "has no shaped loss for an expert's tokens"),
        (
            not config.collecting.history.sees_all,
            "takes an episode as one sequence (collecting.history_turns, collecting.history_tokens)",
        ),
        (config.step.ahead, "plays no batch ahead (step.ahead)"),
        (config.step.critic_warmup > 0, "moves both roles in every step (step.critic_warmup)"),
        (objective.beta > 0 and uneven, "weighs the KL term by tokens and estimates it by k3 (step.objective.beta)"),
    ]


def _measured() -> list[str]:
    return [name for name, spec in environments().items() if spec.measures_distance]

