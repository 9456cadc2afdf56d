"""The micro-batches of a step under TRL's trainer, whose number is fixed beforehand, and TRL's arguments for them.

Left out: their tensors and losses (`trl_trainer.py`).
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
"""The tokens of a row that counts nothing."""

Weighed = tuple[Row, float, float]
"""A row, its advantage, and what one of its tokens counts."""


@dataclass(frozen=True)
class MicroBatches:
    """A step's micro-batches: how many there are of each role in every process, of at most so many `rows`."""

    rows: int
    counts: Mapping[Role, int]


def plan_of(config: TrainConfig) -> MicroBatches:
    """Micro-batches for as many rows as the method makes at most."""
    method, rows = config.implementation, config.trl.rows
    bounds = method.bounds(config.collecting)
    most: dict[Role, int] = {"policy": bounds.rows, "critic": bounds.critiques}
    roles = [role for role in config.trained if role in method.roles]
    return MicroBatches(rows, {role: max(1, math.ceil(most[role] / (rows * processes.count()))) for role in roles})


def grpo_arguments(config: TrainConfig, plan: MicroBatches, settings: Mapping[str, Any]) -> GRPOConfig:
    """TRL's arguments for a run of `settings`, in which every step is one generation of all micro-batches."""
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
        activation_checkpointing=False,  # switched on where the models are loaded, if it is asked for
        shuffle_dataset=False,
        ddp_find_unused_parameters=config.weights == "adapters",  # a micro-batch uses one of them
    )


def divided(taught: Sequence[Weighed], role: Role, plan: MicroBatches) -> list[list[Weighed]]:
    """This process's micro-batches of a role, as far as there are rows in any process: rows of like length, as many in
    every process. Raises `TrainingError` where there are more rows than the method said.
    """
    many, mine = processes.count(), processes.index()
    most, at_once = plan.rows * many * plan.counts[role], plan.rows * many
    if len(taught) > most:
        raise TrainingError(f"{len(taught)} rows of the {role}: by the method's bounds there is room for {most}")
    ordered = sorted(taught, key=lambda each: -len(each[0].tokens.ids))
    nothing: Weighed = (Row(NOTHING, role, "", 0.0), 0.0, 0.0)
    parts = []
    for start in range(0, len(ordered), at_once):
        together = ordered[start : start + at_once]
        size = math.ceil(len(together) / many)
        own = together[mine::many]
        parts.append([*own, *[nothing] * (size - len(own))])
    return parts


def columns(part: Sequence[Weighed]) -> tuple[list[Row], list[float], list[float]]:
    """The rows of a micro-batch, their advantages, and what their tokens count."""
    return [row for row, _, _ in part], [advantage for _, advantage, _ in part], [scale for _, _, scale in part]
