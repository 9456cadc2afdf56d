"""Both training backends on one process and on two, beside each other: `python -m benchmarks.backends [--steps N]`.

GRPO, ECHO and ICRL, with full weights (one model for both roles) and with LoRA (an adapter a role), by `backend: own`
and by `backend: trl`, on one process and on two: the same tasks and seeds, a tiny model of random weights (or --model),
made-up scores (`training_arms/graded.py`), AdamW at 1e-3, on the CPU with gloo. Each run is held against that of `own`
on one process:

    loss       the largest difference of a step's loss
    norm       the largest difference of a step's gradient norm, by the norm
    weights    the largest difference of a weight after the last step, by the largest change of one
    seconds    a step, median over all but the first

Prints the table and one JSON line: `value` is the largest of `weights`, `baseline` what it is without training (1).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.rollout_arms.setting import random_model

METHODS = ("grpo", "echo", "icrl")
WEIGHTS = {"full": "shared", "LoRA": "adapters"}
BACKENDS = ("own", "trl")
PROCESSES = (1, 2)
GRADED = "benchmarks.training_arms.graded"
ROLES = ("policy", "critic")
PARTS = ("loss", "grad_norm")


@dataclass(frozen=True)
class Outcome:
    """What came of a run: losses and gradient norms by step, weights by role and name, seconds a step."""

    losses: list[float]
    norms: list[float]
    weights: dict[str, torch.Tensor]
    seconds: float


def new_model(folder: Path) -> None:
    """A model of two narrow layers with random weights, and a tokenizer."""
    _, tokenizer = random_model()
    torch.manual_seed(0)
    shape = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=0,
        initializer_range=0.2,
    )
    Qwen3ForCausalLM(shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def played(method: str, weights: str, backend: str, processes: int, model: str, folder: Path, steps: int) -> Outcome:
    """One run, in processes of its own."""
    values: dict[str, Any] = {
        "base": method,
        "method": f"{GRADED}:{method.upper()}",
        "env": f"{GRADED}:Hall",
        "model": model,
        "weights": WEIGHTS[weights],
        "backend": backend,
        "steps": steps,
        "save_every": steps,
        "threads": 1,
        "optimising": {"lr": 1e-3, "critic_lr": None},
        "step": {"tokens_per_batch": 512},
        "collecting": {
            **{"tasks": 2, "samples": 4, "turns": 2},
            **{"reply_tokens": 6, "critique_tokens": 8, "workers": 1},
        },
    }
    config = folder.with_suffix(".yaml")
    config.write_text(yaml.safe_dump(values))
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(launcher if processes > 1 else []), "-m", "align_echo.cli.main", "train"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(
        [*command, "--config", str(config), "--out", str(folder)], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{method}, {weights}, {backend}, {processes} processes failed:\n{done.stdout}{done.stderr}")
    return outcome_of(folder)


def outcome_of(folder: Path) -> Outcome:
    """What a run's folder tells."""
    signals = [json.loads(line) for line in (folder / "signals.jsonl").read_text().splitlines()]
    files = [file for role in ROLES for file in (folder / role).glob("*model.safetensors")]
    own = [{name: [step.get(f"{role}/{name}", 0.0) for role in ROLES] for name in PARTS} for step in signals]
    return Outcome(
        [step.get("loss", sum(parts["loss"])) for step, parts in zip(signals, own, strict=True)],
        [step.get("grad_norm", math.hypot(*parts["grad_norm"])) for step, parts in zip(signals, own, strict=True)],
        {f"{file.parent.name} {name}": tensor for file in files for name, tensor in load_file(file).items()},
        statistics.median(step["seconds/harvest"] + step["seconds/learn"] for step in signals[1:]),
    )


def change_of(outcome: Outcome, model: str) -> float:
    """The largest change of a weight: an adapter's second matrices begin as 0."""
    start = load_file(Path(model) / "model.safetensors")
    changes = [
        tensor - start[name.split(" ")[1]] if name.split(" ")[1] in start else tensor
        for name, tensor in outcome.weights.items()
        if "lora_A" not in name
    ]
    return max(float(change.abs().max()) for change in changes)


def differences(outcome: Outcome, reference: Outcome, change: float) -> dict[str, float]:
    """How far a run is from the one that it is held against."""
    assert outcome.weights.keys() == reference.weights.keys(), "the runs saved different weights"
    losses = zip(outcome.losses, reference.losses, strict=True)
    norms = zip(outcome.norms, reference.norms, strict=True)
    return {
        "loss": max(abs(first - other) for first, other in losses),
        "norm": max(abs(first - other) / other for first, other in norms),
        "weights": max(
            float((tensor - reference.weights[name]).abs().max()) / change for name, tensor in outcome.weights.items()
        ),
        "seconds": outcome.seconds,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5, help="steps of every run (default 5)")
    parser.add_argument("--model", help="a model's folder (default: a tiny one of random weights)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="(default: all)")
    given = parser.parse_args()
    table = []
    print("| method | weights | backend | processes | loss | norm | weights | seconds a step |\n|" + "---|" * 8)
    with tempfile.TemporaryDirectory() as scratch:
        model = given.model or str(Path(scratch) / "model")
        if not given.model:
            new_model(Path(model))
        for method in given.methods:
            for weights in WEIGHTS:
                reference: Outcome | None = None
                for backend in BACKENDS:
                    for processes in PROCESSES:
                        folder = Path(scratch) / f"{method}-{weights}-{backend}-{processes}"
                        outcome = played(method, weights, backend, processes, model, folder, given.steps)
                        reference = reference or outcome
                        gaps = differences(outcome, reference, change_of(reference, model))
                        table.append({"method": method, "kind": weights, "backend": backend, "processes": processes})
                        table[-1] |= gaps
                        shown = " | ".join(f"{gaps[name]:.1e}" for name in ("loss", "norm", "weights"))
                        row = f"| {method} | {weights} | {backend} | {processes} | {shown} | {gaps['seconds']:.2f} |"
                        print(row, flush=True)
    largest = max(row["weights"] for row in table)
    line = {"name": "backends, the largest difference of a weight", "value": largest, "unit": "of the largest change"}
    print(json.dumps({**line, "baseline": 1.0, "ratio": largest, "n": given.steps, "rows": table}))


if __name__ == "__main__":
    main()
