"""What a run will cost, before it starts: episodes, replies, rows, memory. Bounds and arithmetic, no measurement.

Left out: activations and key-value caches, which depend on how long episodes turn out.
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
from align_echo.train.crew import sources_of
from align_echo.train.rows import Role
from align_echo.wrappers.catalogue import environment

CHECKPOINTS_AT_ONCE = 3
"""Two are kept, and a third is being written."""

BYTES = 4
"""How many bytes a weight takes: trainers and engines hold float32 here."""


@dataclass(frozen=True)
class Cost:
    """Of one harvest where not said otherwise; `rows` by role; `memory` in bytes by what holds it.

    `episodes` are the policy's and `lessons` the expert's; `most_turns` is that of both. `replies` are the policy's:
    with best-of-N the candidates, and `verdicts` what is asked about them. `critiques` are all that the critic writes.
    `disk` is what two checkpoints take, another that is being written, and the models at the end, in bytes.
    `parameters` are those of all models. `evaluations` of `held_out` episodes each are those of the whole run.
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


def estimate(config: TrainConfig) -> Cost:
    """Upper bounds. Raises what `source_of` does, and `UsageError` for a model or an environment that is not there."""
    collecting = config.collecting
    turns = collecting.turns or environment(config.env).step_limit
    played = config.implementation.bounds(collecting)
    replies = played.episodes * turns * collecting.best_of
    rows = {"policy": played.rows, "critic": played.critiques}
    sources = sources_of(config)
    sizes = {role: parameters_of(sources[role]) for role in (ROLES if config.weights == "models" else ROLES[:1])}
    return Cost(
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
    """How often held-out tasks are played: before, on the way, at the last step, and with the weights that are kept."""
    every = config.evaluating.every
    return 2 + math.ceil(config.steps / every) if every else 0


def parameters_of(source: str) -> int:
    """How many a causal language model has, of which only the configuration is read."""
    make = cast("Any", AutoModelForCausalLM)
    config = read_checked_files(source, lambda: AutoConfig.from_pretrained(source, trust_remote_code=False))
    with torch.device("meta"):
        model = make.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def _memory(config: TrainConfig, sizes: Mapping[Role, int]) -> dict[str, int]:
    """Weights, gradients and the two moments of AdamW; adapters themselves are left out as small.

    `sizes` are the parameters of each model, by the role that it plays (or the first of those).
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
    """Weights and the two moments of AdamW, of each model that learns; adapters are left out as small."""
    learn = [size for role, size in sizes.items() if role in config.trained or config.weights == "shared"]
    trained = 0 if config.weights == "adapters" else sum(learn)
    models = 2 if config.evaluating.every else 1
    return (CHECKPOINTS_AT_ONCE * 3 + models) * trained * BYTES
