"""What critiques could do in WebShop: `python -m benchmarks.learning.scripted_critic --model NAME [--tasks N]`.

The model plays goals of the test split at temperature 1. Those that it did not win it plays again, once told what the
scripted critic says, which reads the same pages and knows what to look for, and once told nothing. What lies between
the two is what a model that heeds critiques can gain from good ones. Writes `summary.json` into --out; the last line is
one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from align_echo.agents.vanilla import Vanilla
from align_echo.critic.language import parse_critique
from align_echo.dice import Dice
from align_echo.errors import AlignEchoError
from align_echo.files import write_atomically
from align_echo.models import load_model
from align_echo.rollout import run_tasks
from align_echo.session import Episode
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import environment, tasks
from benchmarks.learning.report import interval
from benchmarks.pocket.critiques import critique_demonstration

SPLIT = "test"
WORKERS = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/learning/scripted-critic"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    agent = Vanilla(load_model(given.model, seed=given.seed), temperature=1.0)
    first = _play(agent, [Episode(task) for task in tasks("webshop", split=SPLIT)[: given.tasks]])
    lost = [trajectory for trajectory in first if not trajectory.won]
    refined = _play(agent, [Episode(trajectory.task_id, sample=1, critique=advice(trajectory)) for trajectory in lost])
    fresh = _play(agent, [Episode(trajectory.task_id, sample=2) for trajectory in lost])
    before, after, alone = ([trajectory.score for trajectory in some] for some in (lost, refined, fresh))
    gain = np.asarray(after) - np.asarray(alone)
    figures = {
        "model": given.model,
        "n": len(lost),
        "first": float(np.mean(before)),
        "after_critique": float(np.mean(after)),
        "fresh": float(np.mean(alone)),
        "gain_over_fresh": {"value": float(gain.mean()), "n": len(lost), "ci95": interval(gain[None])},
    }
    given.out.mkdir(parents=True, exist_ok=True)
    write_atomically(given.out / "summary.json", json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))
    last = {"name": "scripted critic, webshop", "value": figures["after_critique"], "unit": "mean score"}
    ratio = figures["after_critique"] / figures["fresh"] if figures["fresh"] else None
    print(json.dumps({**last, "baseline": figures["fresh"], "ratio": ratio, "n": len(lost)}))


def _play(agent: Vanilla, episodes: Sequence[Episode]) -> list[Trajectory]:
    spec = environment("webshop")
    return run_tasks(
        lambda: spec.make(SPLIT), agent, episodes, split=SPLIT, action_format=spec.action_format, workers=WORKERS
    )


def advice(attempt: Trajectory) -> str:
    """What the scripted critic says of an attempt, as the model is told it."""
    chat, _ = critique_demonstration(attempt, Dice(attempt.task_id))
    return parse_critique(chat.messages[-1].content, "echo").advice


if __name__ == "__main__":
    try:
        main()
    except AlignEchoError as error:
        sys.exit(f"{error}")
