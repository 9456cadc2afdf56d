"""The fixed number of micro-batches in a step of TRL's trainer, and TRL's arguments for it.

Not here: tensors and losses (`trl_trainer.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl.trainer.grpo_config import GRPOConfig

from align_echo.errors import TrainingError
from align_echo.tokens import TokenSequence
from align_echo.train import processes
from align_echo.train.config import TrainConfig
from align_echo.train.rows import Role, Row

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
