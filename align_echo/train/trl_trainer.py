"""TRL's `GRPOTrainer` on the rows of our methods: our rewards, advantages and weights, TRL's loss and all else.

TRL takes an advantage for each token, so all factors of our loss are multiplied into it: the advantage A, ICRL's w_t,
and the token's weight. TRL's sum over tokens divided by `num_items_in_batch` is then our loss, up to rounding, with
ratios capped as ours (`objective.near`). A micro-batch has rows of one role, whose adapter is active until the end of
its backward pass. A step has a fixed number of micro-batches, each with as many rows in every process.
Micro-batches without rows come first and are skipped, so that weights without a row have no gradient and do not move.

Accelerate wraps the model in DDP, FSDP or DeepSpeed. Not supported: two whole models, rows of an expert, ZeRO stage 3.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from datasets import Dataset
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import PreTrainedTokenizerBase, PrinterCallback, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from align_echo.errors import TrainingError, UsageError
from align_echo.tokens import TokenSequence
from align_echo.train import processes
from align_echo.train.advantages import AdvantageFunction
from align_echo.train.backbone import AdapterModels, Backbone
from align_echo.train.batching import TensorBatch, build_batch, scales
from align_echo.train.checkpoints import Evaluation, RoleCheckpoints
from align_echo.train.config import TrainConfig
from align_echo.train.current_batch import HARVEST
from align_echo.train.forward import token_logprobs
from align_echo.train.needs import divides_weights
from align_echo.train.objective import calibration_weights, near
from align_echo.train.rows import Role, RolloutBatch, Row
from align_echo.train.signals import Signals, batch_signals, numbers, without_loss
from align_echo.train.trainer import PlayFunction, StepSettings, compute_advantages, useful

# ---------------------------------------------------------------- trl plan

NOTHING = TokenSequence(ids=(0, 0), mask=(0, 0), logprobs=(0.0, 0.0), turns=())
"""Tokens of a padding row without weight."""

Weighed = tuple[Row, float, float]
"""A row, its advantage, and the weight of its tokens."""


@dataclass(frozen=True)
class MicroBatches:
    """The micro-batches of a step: their number for each role in every process, with at most `rows` rows each."""

    rows: int
    counts: Mapping[Role, int]


def plan_micro_batches(config: TrainConfig) -> MicroBatches:
    """Plan enough micro-batches for the method's maximum number of rows."""
    method, rows = config.implementation, config.trl.rows
    bounds = method.bounds(config.collecting)
    most: dict[Role, int] = {"policy": bounds.rows, "critic": bounds.critiques}
    roles = [role for role in config.trained if role in method.roles]
    return MicroBatches(rows, {role: max(1, math.ceil(most[role] / (rows * processes.count()))) for role in roles})


def grpo_arguments(config: TrainConfig, plan: MicroBatches, settings: Mapping[str, Any]) -> GRPOConfig:
    """Build TRL's arguments for a run of `settings`, with all micro-batches of a step as one generation."""
    objective, parts = config.step.objective, sum(plan.counts.values())
    a_batch = max(2, plan.rows)
    return GRPOConfig(
        **settings,
        per_device_train_batch_size=a_batch,
        gradient_accumulation_steps=parts,
        num_generations=a_batch * parts * processes.count(),
        per_device_eval_batch_size=2,
        num_generations_eval=2,
        num_iterations=config.step.updates,
        loss_type="dapo",
        importance_sampling_level=objective.ratio,
        epsilon=objective.clip_low,
        epsilon_high=objective.clip_high,
        use_bias_correction_kl=False,
        activation_checkpointing=False,  # switched on at loading, if set
        shuffle_dataset=False,
        ddp_find_unused_parameters=config.weights == "adapters",  # a micro-batch uses one of them
    )


def divided(taught: Sequence[Weighed], role: Role, plan: MicroBatches) -> list[list[Weighed]]:
    """Return this process's micro-batches of a role: rows of similar length, equally many in every process.

    Raises `TrainingError` for more rows than the method's bounds.
    """
    many, mine = processes.count(), processes.index()
    most, at_once = plan.rows * many * plan.counts[role], plan.rows * many
    if len(taught) > most:
        raise TrainingError(f"{len(taught)} rows of the {role}: by the method's bounds there is room for {most}")
    ordered = sorted(taught, key=lambda weighed: -len(weighed[0].tokens.ids))
    nothing: Weighed = (Row(NOTHING, role, "", 0.0), 0.0, 0.0)
    parts = []
    for start in range(0, len(ordered), at_once):
        together = ordered[start : start + at_once]
        size = math.ceil(len(together) / many)
        own = together[mine::many]
        parts.append([*own, *[nothing] * (size - len(own))])
    return parts


def columns(part: Sequence[Weighed]) -> tuple[list[Row], list[float], list[float]]:
    """Split a micro-batch into rows, advantages and token weights."""
    return [row for row, _, _ in part], [advantage for _, advantage, _ in part], [scale for _, _, scale in part]


# ---------------------------------------------------------------- TRL's `GRPOTrainer` on the rows of our methods


@dataclass
class _Part:
    """A micro-batch: its role, and the inputs of TRL's loss."""

    role: Role
    inputs: dict[str, torch.Tensor]


class TrlTrainer(RoleCheckpoints, GRPOTrainer):
    """TRL's trainer, with the arguments of `RoleTrainer` and a `plan`. TRL's own signals begin with `trl/`."""

    def __init__(
        self,
        backbone: Backbone,
        play: PlayFunction,
        settings: StepSettings,
        arguments: GRPOConfig,
        *,
        plan: MicroBatches,
        optimizer: torch.optim.Optimizer,
        publish: Callable[[], None],
        watch: Callable[[int, Signals], None],
        temperature: float = 1.0,
        evaluation: Evaluation | None = None,
        tokenizers: Mapping[Role, PreTrainedTokenizerBase] = MappingProxyType({}),
        callbacks: Iterable[TrainerCallback] = (),
        last: Path | None = None,
        keep: Callable[[int, RolloutBatch], None] = lambda number, batch: None,
        advantage: AdvantageFunction | None = None,
    ) -> None:
        """Create the trainer.

        Raises `UsageError` if weights would be divided out of reach of the engines, or cannot be divided as requested.
        """
        arguments.temperature = temperature
        learner: Any = backbone.module if isinstance(backbone, AdapterModels) else backbone.activate(backbone.kept[0])
        rewards: Any = _unasked
        nothing = Dataset.from_dict({"prompt": [""] * math.ceil(max(1, arguments.max_steps) / settings.updates)})
        super().__init__(
            model=learner,
            reward_funcs=rewards,
            args=arguments,
            train_dataset=nothing,
            eval_dataset=nothing if evaluation else None,
            processing_class=tokenizers[backbone.kept[0]],
            callbacks=list(callbacks),
        )
        processes.call_on_first(self._check_division)
        self.remove_callback(PrinterCallback)
        self.beta = settings.objective.beta  # set late: with it TRL would load a reference of its own
        self._backbone, self._play, self._settings, self._plan = backbone, play, settings, plan
        self._optimizer, self._publish, self._watch, self._evaluation = optimizer, publish, watch, evaluation
        self._tokenizers, self._last, self._keep, self._advantage = tokenizers, last, keep, advantage
        self._parts: list[_Part] | None = None
        self._part: _Part | None = None
        self._signals: Signals = {}
        self._learning_since = 0.0

    def _check_division(self) -> None:
        if divides_weights() and not (self.is_fsdp_enabled or self.is_deepspeed_enabled):
            raise UsageError("accelerate divides no weights on a CPU: launch without FSDP and DeepSpeed, or on GPUs")
        if self.is_deepspeed_enabled and self.accelerator.state.deepspeed_plugin.zero_stage == 3:
            raise UsageError("ZeRO stage 3 divides the weights, which engines need whole: take stage 2, or FSDP")

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Return the optimizer of the constructor: `Trainer` accepts none together with FSDP."""
        self.optimizer = self._optimizer
        return self.optimizer

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: torch.Tensor | int | None = None
    ) -> torch.Tensor:
        """Accumulate the gradients of the next micro-batch and return its loss, detached.

        Plays a batch before its first micro-batch. All processes skip micro-batches without rows.
        """
        step, index = int(self.state.global_step), self._step % self.args.gradient_accumulation_steps
        if index == 0 and (step % self.num_iterations == 0 or self._parts is None):
            start = time.perf_counter()
            self._parts = self._next_batch(step // self.num_iterations)
            self._signals["seconds/harvest"] = time.perf_counter() - start
        if index == 0:
            self._learning_since = time.perf_counter()
        parts = self._parts or []
        skipped = self.args.gradient_accumulation_steps - len(parts)
        if index < skipped:
            model.train()
            self._step += 1
            return torch.zeros((), device=self.args.device)
        self._part = parts[index - skipped]
        learn: Any = super().training_step
        loss: torch.Tensor = learn(model, inputs, num_items_in_batch)
        return loss

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, torch.Tensor]:
        """Return the inputs of TRL's loss for the current micro-batch."""
        assert self._part is not None  # set by `training_step`
        self._backbone.activate(self._part.role)
        return self._part.inputs

    def _get_per_token_logps_and_entropies(self, *inputs: Any, **options: Any) -> tuple[torch.Tensor, ...]:
        """Compute TRL's log-probabilities, limited for its loss by `near`."""
        logprobs, *rest = super()._get_per_token_logps_and_entropies(*inputs, **options)
        if torch.is_grad_enabled() and self._part is not None:
            inputs_of_loss = self._part.inputs
            logprobs = near(
                logprobs,
                inputs_of_loss["tool_mask"],
                old_BT=inputs_of_loss.get("old_per_token_logps"),
                reference_BT=inputs_of_loss.get("ref_per_token_logps"),
                level=self._settings.objective.ratio,
            )
        return (logprobs, *rest)

    def _next_batch(self, number: int) -> list[_Part]:
        self._publish()
        batch = self._play(number)
        self._keep(number, batch)
        rows = [row for row in batch.rows if row.role in self._backbone.trained]
        if any(row.expert for row in rows):
            raise UsageError("backend: trl has no loss for an expert's tokens: take backend: own")
        if any(row.tokens.breaks for row in rows):
            raise UsageError("backend: trl takes no template that rewrites earlier turns: take backend: own")
        advantages = compute_advantages(rows, self._settings, self._advantage)
        together = len(self._backbone.kept) < len(self._backbone.trained)
        scale = scales(rows, self._settings.normalisation, together=together)
        self._signals = batch_signals(batch, rows, advantages)
        every, roles = bool(self._settings.objective.beta), self._backbone.trained
        taught = list(zip(*useful(rows, advantages.values, scale, roles, every=every), strict=True))
        needs_old = self._settings.updates > 1 or (
            self._settings.objective.reweigh and any(row.moved for row, _, _ in taught)
        )
        return [
            self._inputs_for(build_batch(*columns(part)), needs_old)
            for role in self._plan.counts
            for part in divided([weighed for weighed in taught if weighed[0].role == role], role, self._plan)
        ]

    @torch.no_grad()
    def _inputs_for(self, batch: TensorBatch, needs_old: bool) -> _Part:
        """Convert a micro-batch to TRL's inputs. Padding is on the right, out of sight of causal attention."""
        batch = batch.to(self.args.device)
        sampled_from = batch.mask.any(0).nonzero().flatten().tolist()
        first = sampled_from[0] if sampled_from else 0
        prompt, completion = batch.ids[:, : first + 1], batch.ids[:, first + 1 :]
        mask = batch.mask[:, first:]
        model = self._backbone.activate(batch.role)
        read = (batch.ids, torch.ones_like(batch.ids), completion.shape[1])
        weights = torch.ones_like(mask)
        unit = float(batch.scale.max()) or 1.0
        inputs = {
            "prompt_ids": prompt,
            "prompt_mask": torch.ones_like(prompt),
            "completion_ids": completion,
            "completion_mask": torch.ones_like(completion),
            "tool_mask": mask,
            "num_items_in_batch": torch.tensor(1 / unit, device=mask.device),
        }
        if needs_old:
            old = self._get_per_token_logps_and_entropies(self.model, *read)[0].float() * mask
            if self._settings.objective.reweigh:
                most = self._settings.objective.max_weight
                calibrated = calibration_weights(old, batch.sampled[:, first:], mask, most)
                weights = torch.where(batch.moved, calibrated, weights)
            if self._settings.updates > 1:
                inputs["old_per_token_logps"] = old
        if self.beta:
            with self._backbone.reference(batch.role) as reference:
                if reference is model and isinstance(self._backbone, AdapterModels):
                    known = self._get_per_token_logps_and_entropies(self.model, *read)[0]
                else:
                    logprobs, _ = token_logprobs(reference, batch.ids, batch.mask, temperature=self.temperature)
                    known = logprobs[:, first:]
            inputs["ref_per_token_logps"] = known * mask
        inputs["advantages"] = batch.advantages * weights * (batch.scale / unit)
        return _Part(batch.role, inputs)

    def _keep_more(self, folder: Path) -> None:
        """Write the micro-batches of a batch with steps left."""
        if self._parts is not None and int(self.state.global_step) % self.num_iterations:
            torch.save([vars(part) for part in self._parts], folder / HARVEST)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        file = Path(resume_from_checkpoint) / HARVEST
        if file.is_file():
            read = torch.load(file, weights_only=True, map_location=self.args.device)
            self._parts = [_Part(**part) for part in read]

    def _writes_alone(self, step: int) -> bool:
        """Return whether one process alone can write this step: not between the steps of a batch divided among several.
        """
        alone = processes.count() == 1 or step % self.num_iterations == 0
        return alone and super()._writes_alone(step)

    def _clip_grad_norm(self, model: nn.Module) -> torch.Tensor:
        """Clip the gradients of each set of weights separately."""
        if len(self._backbone.kept) == 1 or self.is_deepspeed_enabled:
            clip: Any = super()._clip_grad_norm
            joint: torch.Tensor = clip(model)
            return joint
        norms = [
            self.accelerator.clip_grad_norm_(self._backbone.weights(role), self.args.max_grad_norm)
            for role in self._backbone.kept
        ]
        known = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
        known = [norm.to(self.args.device) for norm in known]  # without gradients it is on the CPU
        total: torch.Tensor = torch.linalg.vector_norm(torch.stack(known))
        return total

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log to trackers, with the signals of the step.

        Raises `TrainingError` for a loss or gradient out of bounds.
        """
        if "learning_rate" not in logs:
            super().log(logs, start_time)
            return
        loss, norm = logs["loss"], float(logs["grad_norm"])
        if not math.isfinite(loss) or abs(loss) > self._settings.max_loss:
            raise TrainingError(f"the loss of step {self.state.global_step} is {loss:g}: lower optimising.lr")
        if not math.isfinite(norm):
            raise TrainingError(f"the gradient of step {self.state.global_step} is no number: lower optimising.lr")
        self._signals["seconds/learn"] = time.perf_counter() - self._learning_since
        known = {
            name: [value for value in values if math.isfinite(value)] for name, values in self._metrics["train"].items()
        }
        own = {f"trl/{name}": sum(values) / len(values) for name, values in known.items() if values}
        learned = {"loss": loss, "grad_norm": norm, **own} if self._parts else {}
        signals = numbers({**self._signals, **learned})
        super().log({**(logs if self._parts else without_loss(logs)), **numbers(self._signals)}, start_time)
        self._watch(int(self.state.global_step), signals)


def _unasked(completions: Sequence[Any], **_: Any) -> list[float]:
    """Stand in for TRL's reward function; our rewards come with the rows."""
    raise TrainingError("TRL asked for rewards, which come with the rows")
