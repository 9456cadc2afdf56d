"""The cost of a run before it starts: episodes, replies, rows, memory. Upper bounds by arithmetic, no measurement.

Not counted: activations and key-value caches, which depend on the length of episodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from align_echo.models.local.loading import read_checked_files
from align_echo.train.backbone import ROLES
from align_echo.train.config import TrainConfig
from align_echo.train.crew import find_sources
from align_echo.train.rows import Role
from align_echo.wrappers.catalogue import environment

CHECKPOINTS_AT_ONCE = 3
"""Two complete checkpoints and a third half-written."""

BYTES = 4
"""Bytes of a weight: trainers and engines hold float32."""


@dataclass(frozen=True)
class RunCost:
    """Upper bounds on the cost of a run. Counts are of one batch unless stated otherwise.

    `episodes` are the policy's, `lessons` the expert's, `most_turns` the turns of both. `replies` are the policy's
    (with best-of-N, the candidates), `verdicts` the critic's on candidates, `critiques` all other texts of the critic.
    `rows` are by role. For the whole run: `harvests` batches, `evaluations` of `held_out` episodes each, `parameters`
    of all models, `memory` in bytes by use, and `disk` in bytes: three checkpoints (one half-written) and the final
    models.
    """

    episodes: int
    lessons: int
    most_turns: int
    replies: int
    verdicts: int
    critiques: int
    rows: dict[str, int]
    harvests: int
    evaluations: int
    held_out: int
    parameters: int
    memory: dict[str, int]
    disk: int


def estimate(config: TrainConfig) -> RunCost:
    """Compute upper bounds for a config. Raises as `find_source` does, and `UsageError` for an unknown model or
    environment.
    """
    collecting = config.collecting
    turns = collecting.turns or environment(config.env).step_limit
    played = config.implementation.bounds(collecting)
    replies = played.episodes * turns * collecting.best_of
    rows = {"policy": played.rows, "critic": played.critiques}
    sources = find_sources(config)
    sizes = {role: count_parameters(sources[role]) for role in (ROLES if config.weights == "models" else ROLES[:1])}
    return RunCost(
        episodes=played.episodes,
        lessons=played.lessons,
        most_turns=(played.episodes + played.lessons) * turns,
        replies=replies,
        verdicts=replies if collecting.best_of > 1 else 0,
        critiques=played.critiques,
        rows={role: count for role, count in rows.items() if role in config.trained and count},
        harvests=math.ceil(config.steps / config.step.updates),
        evaluations=_evaluations(config),
        held_out=config.evaluating.tasks if config.evaluating.every else 0,
        parameters=sum(sizes.values()),
        memory=_memory(config, sizes),
        disk=_disk(config, sizes),
    )


def _evaluations(config: TrainConfig) -> int:
    """Count the evaluations: before training, during it, at the last step, and of the saved weights."""
    every = config.evaluating.every
    return 2 + math.ceil(config.steps / every) if every else 0


def count_parameters(source: str) -> int:
    """Count the parameters of a causal language model from its config alone."""
    make = cast("Any", AutoModelForCausalLM)
    config = read_checked_files(source, lambda: AutoConfig.from_pretrained(source, trust_remote_code=False))
    with torch.device("meta"):
        model = make.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def _memory(config: TrainConfig, sizes: Mapping[Role, int]) -> dict[str, int]:
    """Add up weights, gradients and AdamW's two moments, in bytes by use. Adapters are too small to count.

    `sizes` are the parameters of each model, by its (first) role.
    """
    learn = [size for role, size in sizes.items() if role in config.trained or config.weights == "shared"]
    trained = 0 if config.weights == "adapters" else sum(learn)
    parameters = sum(sizes.values())
    ahead = {"weights that play ahead, for checkpoints": 2 * trained * BYTES} if config.step.ahead else {}
    return {
        "weights that learn or are frozen": parameters * BYTES,
        "gradients and optimizer": 3 * trained * BYTES,
        "references": (trained if config.step.objective.beta > 0 else 0) * BYTES,
        "engines": 0 if config.collecting.servers else parameters * BYTES,
        **ahead,
    }


def _disk(config: TrainConfig, sizes: Mapping[Role, int]) -> int:
    """Add up weights and AdamW's two moments of each model that learns, in bytes. Adapters are too small to count."""
    learn = [size for role, size in sizes.items() if role in config.trained or config.weights == "shared"]
    trained = 0 if config.weights == "adapters" else sum(learn)
    models = 2 if config.evaluating.every else 1
    return (CHECKPOINTS_AT_ONCE * 3 + models) * trained * BYTES
