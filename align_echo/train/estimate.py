"""What a run will cost, before it starts: episodes, replies, rows, memory. Bounds and arithmetic, no measurement.

Left out: activations and key-value caches, which depend on how long episodes turn out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from align_echo.train.config import TrainConfig
from align_echo.train.crew import source_of
from align_echo.wrappers.catalogue import environment

BYTES = 4
"""Of a weight in float32, which trainers and engines hold here."""


@dataclass(frozen=True)
class Cost:
    """Of one step where not said otherwise; `rows` by role; `memory` in bytes by what holds it."""

    episodes: int
    most_turns: int
    critiques: int
    rows: dict[str, int]
    steps: int
    parameters: int
    memory: dict[str, int]


def estimate(config: TrainConfig) -> Cost:
    """Upper bounds. Raises what `source_of` does, and `UsageError` for an unknown environment."""
    collecting = config.collecting
    queries, samples = collecting.queries, collecting.samples
    turns = collecting.turns or environment(config.env).step_limit
    episodes, critiques = queries * samples, 0
    if collecting.recipe == "sft":
        episodes = queries
    if collecting.recipe == "rcm":
        episodes, critiques = queries, queries * collecting.states * samples
    if collecting.recipe == "echo":
        episodes, critiques = queries * (1 + samples), queries * samples
    if collecting.recipe == "icrl":
        episodes, critiques = queries * samples * collecting.rounds, queries * samples * (collecting.rounds - 1)
    if collecting.recipe == "critique_grpo":
        episodes, critiques = 2 * queries * samples, queries * samples
    learned = {"echo": queries * samples, "critique_grpo": queries * (samples + 1)}
    rows = {"policy": learned.get(collecting.recipe, episodes), "critic": critiques}
    parameters = _parameters(config)
    return Cost(
        episodes=episodes,
        most_turns=episodes * turns,
        critiques=critiques,
        rows={role: count for role, count in rows.items() if role in config.trained and count},
        steps=config.steps,
        parameters=parameters,
        memory=_memory(config, parameters),
    )


def _parameters(config: TrainConfig) -> int:
    make: Any = AutoModelForCausalLM
    with torch.device("meta"):
        model = make.from_config(AutoConfig.from_pretrained(source_of(config.model)))
    return sum(one.numel() for one in model.parameters())


def _memory(config: TrainConfig, parameters: int) -> dict[str, int]:
    """Weights, gradients and the two moments of AdamW; adapters themselves are left out as small."""
    models = 2 if config.weights == "models" else 1
    trained = 0 if config.weights == "adapters" else len(config.trained) if models == 2 else 1
    referenced = trained if config.step.objective.beta > 0 else 0
    return {
        "weights that learn or are frozen": models * parameters * BYTES,
        "gradients and optimizer": 3 * trained * parameters * BYTES,
        "references": referenced * parameters * BYTES,
        "engines": models * parameters * BYTES,
    }
