"""`python -m studies.foreign WORLD ...`: learn an interface by the probe, play it beside its placebo, try its messages.

The last lines are one JSON object for each world.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from align_echo.agents.players import AgentChoice
from align_echo.align.generation import GenerationConfig, generate_interface, plan_generation
from align_echo.errors import AlignEchoError
from align_echo.evaluate.comparison import BASELINE, PLACEBO, build_variants, compare
from align_echo.evaluate.plan import EvaluationConfig, EvaluationPlan, pick_tasks, plan_evaluation
from align_echo.evaluate.playing import Experiment
from align_echo.interface.contract import Interface
from align_echo.intervals import Estimate
from align_echo.types import Trajectory
from studies.foreign.agents import PLAYER, STROLLER
from studies.foreign.messages import count_messages
from studies.foreign.proposer import NAME, serve
from studies.rounds import at_least_one, rounded

WORLDS = (
    "gymnasium:Taxi-v4",
    "gymnasium:CliffWalking-v1",
    "minigrid:MiniGrid-DoorKey-5x5-v0",
    "textarena:GuessTheNumber-v0",
    "textarena:FrozenLake-v0",
    "textarena:Minesweeper-v0-small",
    "textarena:Bandit-v0",
    "textworld:make",
    "tau2:retail",
)
"""Worlds that are played unless others are named."""

Result = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every world and print the table; the exit status is 1 if a world could not be measured."""
    options = _parser().parse_args(arguments)
    results = []
    for world in options.worlds:
        with tempfile.TemporaryDirectory() as folder:
            try:
                results.append(measure(world, options, Path(options.out or folder) / world.replace(":", "-")))
            except AlignEchoError as error:
                results.append({"world": world, "error": str(error)})
    print(table(results))
    for result in results:
        print(json.dumps(rounded(result)))
    return int(any("error" in result for result in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies.foreign", description=__doc__)
    parser.add_argument("worlds", nargs="*", default=WORLDS, metavar="WORLD")
    parser.add_argument("--train", type=at_least_one, help="tasks that are learned from, 20 at most; default: 20")
    parser.add_argument("--fresh", type=at_least_one, help="further tasks that rules are tried on; default: 60")
    parser.add_argument("--tasks", type=at_least_one, default=50, help="tasks played after that")
    parser.add_argument("--plays", type=at_least_one, default=1, help="times that each task is played, by other seeds")
    parser.add_argument("--strolls", type=at_least_one, default=1, help="strolls through each task, for messages")
    parser.add_argument("--iterations", type=at_least_one, default=1)
    parser.add_argument("--seconds", type=at_least_one, default=1_200, help="most seconds of learning")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--develop", action="store_true", help="play unknown tasks of the training split")
    parser.add_argument("--hybrid", action="store_true", help="learn with the hybrid backend and a script that guesses")
    parser.add_argument("--out", help="folder for all that is learned and played")
    return parser


def measure(world: str, options: argparse.Namespace, path: Path) -> Result:
    """Learn an interface for a world, play it, and try its messages."""
    started, cpu = time.monotonic(), time.process_time()
    interface = learn(world, options, path / "learned")
    learned: Result = {"rules": len(interface.provenance.rules), "engine_steps": interface.provenance.engine_steps}
    learned |= {"seconds": time.monotonic() - started, "cpu_seconds": time.process_time() - cpu}
    if not interface.provenance.rules:
        return {"world": world, **learned, "n": 0}
    plan = plan_play(world, interface, options)
    played = play(plan, path, options)
    comparison = compare(plan.spec, played, seed=options.seed, data_root=None)
    scores = {name: arm.mean_score.value for name, arm in comparison.variants.items()}
    won = {name: sum(bool(each.won) for each in episodes) for name, episodes in played.items()}
    gain = comparison.over_placebo["full"].score
    strolled = [stroll(plan, path / f"strolled-{number}", options.seed + number) for number in range(options.strolls)]
    count = count_messages(plan.spec, plan.split, interface, chain(played["full"], *strolled))
    return {
        "world": world,
        **learned,
        "n": len(plan.task_ids),
        "plays": options.plays,
        "scores": scores,
        "won": won,
        "gain": _written(gain),
        "messages": {**dict.fromkeys(("true", "false", "unknown", "untried"), 0), **count.counts},
        "false": count.examples,
    }


def learn(world: str, options: argparse.Namespace, path: Path) -> Interface:
    """Generate an interface with the probe, or with the hybrid backend and a script that guesses."""
    with serve() if options.hybrid else nullcontext() as url:
        return _generated(world, options, path, url)


def _generated(world: str, options: argparse.Namespace, path: Path, url: str | None) -> Interface:
    config = GenerationConfig(
        env=world,
        backend="hybrid" if url else "probe",
        analyzer_model=NAME if url else None,
        optimizer_model=NAME if url else None,
        base_url=url,
        iterations=options.iterations,
        tasks_per_iteration=options.train,
        play_tasks=0,
        max_seconds=options.seconds,
        seed=options.seed,
    )
    plan = plan_generation(config, player=AgentChoice(PLAYER, None))
    return generate_interface(replace(plan, fresh=plan.fresh[: options.fresh]), path).interface


def plan_play(world: str, interface: Interface, options: argparse.Namespace) -> EvaluationPlan:
    """Plan the three arms on tasks that were not learned from."""
    plan = plan_evaluation(EvaluationConfig(env=world, seed=options.seed))
    split = plan.spec.train_split if options.develop else plan.spec.test_split
    known = set(interface.provenance.training_tasks)
    tasks = [task for task in plan.spec.tasks(split, None) if task not in known]
    arms = build_variants(interface)
    return replace(
        plan,
        split=split,
        task_ids=pick_tasks(tasks, min(options.tasks, len(tasks)), task_type=plan.spec.task_type, seed=options.seed),
        interface="learned",
        variants={name: arms[name] for name in (BASELINE, PLACEBO, "full")},
        player=AgentChoice(PLAYER, None),
    )


def play(plan: EvaluationPlan, path: Path, options: argparse.Namespace) -> dict[str, list[Trajectory]]:
    """Play the arms, each task once by every seed."""
    played: dict[str, list[Trajectory]] = {name: [] for name in plan.variants}
    for number in range(options.plays):
        seeded = replace(plan, seed=options.seed + number)
        experiment = Experiment(seeded, path / f"played-{number}").begin(warn=False)
        with experiment.folder:
            for name, episodes in experiment.play_variants().items():
                played[name] += episodes
    return played


def stroll(plan: EvaluationPlan, path: Path, seed: int) -> Sequence[Any]:
    """Play the interface with an agent that says anything."""
    alone = {"full": plan.variants["full"]}
    experiment = Experiment(replace(plan, player=AgentChoice(STROLLER, None), variants=alone, seed=seed), path)
    with experiment.begin(warn=False).folder:
        return [*experiment.play_variants()["full"]]


def _written(gain: Estimate) -> Result:
    low, high = gain.ci95 or (None, None)
    return {"value": gain.value, "low": low, "high": high, "n": gain.n}


def table(results: Sequence[Result]) -> str:
    """Write one line for each world."""
    rows = [("world", "raw", "placebo", "interface", "gain", "n", "rules", "true", "false", "unknown", "untried")]
    for result in results:
        if "scores" not in result:
            rows.append((result["world"], result.get("error", "no rule"), *[""] * 9))
            continue
        gain, said = result["gain"], result["messages"]
        scores = (f"{result['scores'][name]:.3f}" for name in (BASELINE, PLACEBO, "full"))
        ends = "" if gain["low"] is None else f" [{gain['low']:.3f}, {gain['high']:.3f}]"
        counts = (str(said[kind]) for kind in ("true", "false", "unknown", "untried"))
        figures = f"{gain['value']:+.3f}{ends}", str(result["n"]), str(result["rules"])
        rows.append((result["world"], *scores, *figures, *counts))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
