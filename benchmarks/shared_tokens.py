"""What rows that begin alike cost as a tree and by themselves: `python -m benchmarks.shared_tokens`.

The rows are those of one step of GRPO on ALFWorld, played by the pocket model (8 games, 8 episodes each), and made
ones of a prompt of 300 tokens and completions of 500, 8 to a prompt, which share nothing else. Forward and backward
passes alone, one thread, both ways in turn; gradients are compared. The last line is of the rows that were played:
`value` is the seconds as trees, `baseline` each row by itself, padded, the rest as in `rounds.py`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

import torch

import align_echo
from align_echo.train.advantages import group_advantages
from align_echo.train.batching import TensorBatch, batches
from align_echo.train.config import checked_config, merged, method
from align_echo.train.crew import find_sources, gather
from align_echo.train.forward import token_logprobs
from align_echo.train.rows import Row
from align_echo.train.run import choose_tasks, local_stage, play_batch
from align_echo.wrappers.catalogue import environment
from benchmarks.rollout_arms.setting import pocket_model
from benchmarks.rounds import Round, at_least_one, costs
from benchmarks.training_arms.one_step import Shape, some_rows

PLAYED = {
    "env": "alfworld",
    "split": "train",
    "model": "pocket",
    "collecting": {"tasks": 8, "samples": 8, "turns": 30, "workers": 64},
}


def played_rows(seed: int) -> list[Row]:
    """Rows of a step that have an advantage."""
    config = checked_config(merged(method("grpo"), {**PLAYED, "seed": seed}), "grpo")
    crew = gather(config, find_sources(config))
    stage = local_stage(config, environment(config.env), crew, "train", 1.0)
    try:
        queries = choose_tasks(0, align_echo.tasks("alfworld", split="train"), 8, seed)
        rows = play_batch(config, queries, stage.at_step(0)).rows
    finally:
        crew.close()
    advantages = group_advantages([row.reward for row in rows], [(row.role, row.group) for row in rows]).values
    return [row for row, advantage in zip(rows, advantages, strict=True) if advantage]


def passes(model: Any, divided: Sequence[TensorBatch]) -> tuple[Round, torch.Tensor]:
    """What all forward and backward passes take, and the gradient [P]."""
    model.zero_grad()
    clock, begun = time.perf_counter(), time.process_time()
    for batch in divided:
        logprobs, _ = token_logprobs(model, batch.ids, batch.mask, tree=batch.tree)
        torch.autograd.backward((logprobs * batch.mask).sum() * 1e-3)
    spent = Round(1, time.perf_counter() - clock, time.process_time() - begun)
    return spent, torch.cat([weights.grad.flatten() for weights in model.parameters() if weights.grad is not None])


def measured(model: Any, name: str, rows: Sequence[Row], rounds: int, tokens_per_batch: int) -> dict[str, Any]:
    """Medians over the rounds, printed and returned as the record."""
    ones = [1.0] * len(rows)
    divided = [batches(rows, ones, ones, tokens_per_batch=tokens_per_batch, share=share) for share in (True, False)]
    first, second = (passes(model, way)[1] for way in divided)  # and both are warm
    apart = float((first - second).abs().max() / second.abs().max())
    spent: tuple[list[Round], list[Round]] = ([], [])
    for number in range(rounds):
        for index in (number % 2, 1 - number % 2):
            spent[index].append(passes(model, divided[index])[0])
    compared = costs(*spent)
    tokens = [sum(batch.computed for batch in way) for way in divided]
    print(f"{name}: {len(rows)} rows; as trees {tokens[0]:,} tokens, {compared['value']:.2f} s; ", end="")
    print(f"by themselves {tokens[1]:,} tokens, {compared['baseline']:.2f} s; ", end="")
    print(f"ratio {compared['ratio']:.2f}, of CPU seconds {compared['cpu_ratio']:.2f}; ", end="")
    print(f"gradients apart by {apart:.1e}", flush=True)
    return {"name": f"forward and backward passes, {name}", "unit": "s", **compared, "n": len(rows)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=at_least_one, default=5, help="of both ways (default 5)")
    parser.add_argument("--seed", type=int, default=0, help="(default 0)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = pocket_model()[0].train()
    for name, shape in (("one turn", Shape(16, 300, 500)), ("ten turns", Shape(16, 300, 500, turns=10))):
        measured(model, name, some_rows(shape, 2048, given.seed), given.rounds, 3200)
    record = measured(model, "a step of GRPO on ALFWorld", played_rows(given.seed), given.rounds, 8192)
    print(json.dumps(record))


if __name__ == "__main__":
    main()
