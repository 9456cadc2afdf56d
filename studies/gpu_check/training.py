"""Steps of GRPO and of ECHO on ALFWorld, by phase, with the memory they took, and how far the log-probabilities of
playing are from those of learning, by turn.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from align_echo.train.config import TrainConfig, checked_config, merged, method
from align_echo.train.run import choose_tasks
from align_echo.train.stage import PARTS
from align_echo.wrappers.catalogue import make, tasks
from studies.gpu_check.shapes import Work
from studies.gpu_check.telling import Row, peak_memory
from studies.rollout_arms.setting import SPLIT, pocket_model
from studies.training_arms.phases import PHASES, WatchedRun

HALF = {"collecting": {"dtype": "bfloat16"}}
APART = {"step": {"share_prefixes": False}}

ARMS: dict[str, tuple[str, tuple[dict[str, Any], ...]]] = {
    "grpo": ("grpo", ()),
    "grpo, prefixes not shared": ("grpo", (APART,)),
    "echo": ("echo", ()),
    "echo, prefixes not shared": ("echo", (APART,)),
    "echo, played in bfloat16": ("echo", (HALF,)),
    "echo, adapters": ("echo", ({"weights": "adapters"},)),
    "echo, adapters, overlapped": ("echo", ({"weights": "adapters"},)),
    "echo, overlapped": ("echo", ()),
}
"""A method, and what is asked of it beside what all have, by the arm's name."""

OVERLAPPED = ", overlapped"
"""How arms end whose harvests are played in `PARTS` that do not wait for each other (a run does so on a CPU)."""

STEPS = 2
"""Steps of an arm, of which the last is told."""

MISMATCH = "/mismatch/from_turn_"


def saved(model: Any, folder: Path) -> None:
    """The model with the pocket model's tokenizer, whose ids are the first of its vocabulary; its games are compiled.
    """
    model.save_pretrained(folder)
    pocket_model()[1].save_pretrained(folder)
    env = make("alfworld", split=SPLIT)
    for task in choose_tasks(0, tasks("alfworld", split=SPLIT), 4, 0):
        env.reset(options={"task": task})


def training_step(folder: Path, name: str, arm: str, work: Work) -> Iterator[Row]:
    """One arm on the model in `folder`: seconds of its last step by phase, memory, and the mismatch by turn.

    Scores and critiques are made up of what was sampled (`training_arms.graded`), actions are a walk, and every reply
    has all its tokens: so arms play and learn as much, whatever the weights say.
    """
    with peak_memory() as memory, tempfile.TemporaryDirectory() as run_folder:
        parts = PARTS if arm.endswith(OVERLAPPED) else 1
        measured = WatchedRun(_config(folder, arm, work), Path(run_folder), fixed=True, parts=parts).measured()
    key = {"part": "training step", "model": name, "arm": arm}
    phases = {phase: measured.spent.of(phase, 0) for phase in PHASES if measured.spent.of(phase, 0)}
    figures = {"seconds": measured.spent.seconds, **phases, "rest": measured.spent.rest(0)}
    counts = {count: measured.counts[count] / STEPS for count in ("sampled", "trained")}
    yield Row(key, {**figures, "memory_gib": memory.gib, **counts})
    apart = {signal: value for signal, value in measured.signals.items() if MISMATCH in signal}
    by_turn = {signal.replace(MISMATCH, ", turn "): value for signal, value in apart.items()}
    yield Row({**key, "part": "mismatch"}, by_turn)


def _config(folder: Path, arm: str, work: Work) -> TrainConfig:
    name, changes = ARMS[arm]
    values = merged(
        method(name),
        {
            "env": "alfworld",
            "split": SPLIT,
            "model": str(folder),
            "weights": "models",
            **({"trained": ["policy"]} if name == "grpo" else {}),
            "method": f"studies.graded:{name.upper()}",
            "collecting": {
                "tasks": work.queries,
                "samples": work.samples,
                "turns": work.episode,
                "reply_tokens": work.reply,
                "critique_tokens": 4 * work.reply,
                "workers": work.queries * work.samples,
            },
            "step": {"tokens_per_batch": 16_384},
            "optimising": {"lr": 1e-6},
            "steps": STEPS,
            "bf16": True,
        },
    )
    for change in changes:
        values = merged(values, change)
    return checked_config(values, arm)
