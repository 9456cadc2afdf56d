"""Second attempts of what was trained: `python -m benchmarks.learning.rounds [--trained DIR] [--rounds K]`.

The start of the study `alfworld` and the policies that ECHO and ICRL trained (DIR holds `echo/seed-1`, `icrl/seed-1`
..., default: runs/learning/alfworld) play every task of the study once at temperature 1. What failed is criticised, by
the critic trained with the policy, by the start or by the policy itself, and played anew; or simply played anew, which
is what critiques are compared with, by seed and task. Writes `summary.json` into --out; the last line is one JSON
object about ICRL's policy and its own critiques.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from align_echo.errors import AlignEchoError
from align_echo.files import write_atomically
from align_echo.types import Trajectory
from benchmarks.learning.report import Table, interval
from benchmarks.learning.runs import START, Job, finish, measuring, trained_seeds
from benchmarks.learning.studies import study

NONE = "none"
CRITICS = {
    START: ("self", NONE),
    "echo": ("own critic", START, NONE),
    "icrl": ("self", NONE),
}
"""Who reviews whose attempts; "self" is the policy, in the form that it was trained with."""


class Standing(BaseModel):
    """Share of tasks won after a round, over seeds and tasks; `gain` is over as many attempts without critiques."""

    policy: str
    critic: str
    round: int
    success: float
    ci95: tuple[float, float]
    n: int
    seeds: int
    gain: float | None = None
    gain_ci95: tuple[float, float] | None = None


def jobs(trained: Path, seeds: Sequence[int], out: Path, *, rounds: int) -> list[Job]:
    """Every policy with every critic of `CRITICS` under every seed, seeds outermost."""
    return [
        _job(policy, critic, seed, trained, out, rounds)
        for seed in seeds
        for policy, critics in CRITICS.items()
        for critic in critics
    ]


def _job(policy: str, critic: str, seed: int, trained: Path, out: Path, rounds: int) -> Job:
    chosen = replace(study("alfworld"), samples=1)
    models = trained / policy / f"seed-{seed}"
    critics = {START: chosen.start, "own critic": str(models / "critic")}.get(critic, critic)
    form = "icrl" if (policy, critic) == ("icrl", "self") else None
    folder = out / f"{policy}-{critic.replace(' ', '-')}" / f"seed-{seed}"
    model = chosen.start if policy == START else str(models / "policy")
    measured = measuring(chosen, model, seed, refine_rounds=rounds, critic=critics, critic_form=form)
    return Job(f"{policy}, {critic}", seed, folder, None, measured)


def won_by(job: Job, rounds: int) -> list[dict[str, bool]]:
    """After each round, which tasks were won: those that were not played again stand as they did."""
    standing: dict[str, bool] = {}
    rounds_played = []
    for number in range(rounds + 1):
        file = job.measured / "trajectories" / f"round-{number}.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        for trajectory in map(Trajectory.model_validate_json, lines):
            if trajectory.fault is None:
                standing[trajectory.task_id] = trajectory.won
        rounds_played.append(dict(standing))
    return rounds_played


def standings(done: Sequence[Job], rounds: int) -> list[Standing]:
    """Of every policy and critic after every round."""
    tables: dict[tuple[str, str, int], Table] = {}
    for arm in dict.fromkeys(job.arm for job in done):
        policy, _, critic = arm.partition(", ")
        by_seed = [won_by(job, rounds) for job in done if job.arm == arm]
        for number in range(rounds + 1):
            tables[policy, critic, number] = _table([scores[number] for scores in by_seed])
    return [_standing(key, table, tables.get((key[0], NONE, key[2]))) for key, table in tables.items()]


def _table(by_seed: Sequence[dict[str, bool]]) -> Table:
    """[seeds, tasks]; NaN for a task whose every attempt broke."""
    tasks = sorted({task for scores in by_seed for task in scores})
    return np.asarray([[float(scores.get(task, np.nan)) for task in tasks] for scores in by_seed])


def _standing(key: tuple[str, str, int], table: Table, without: Table | None) -> Standing:
    policy, critic, number = key
    gained = None if without is None or critic == NONE or number == 0 else table - without
    return Standing(
        policy=policy,
        critic=critic,
        round=number,
        success=float(np.nanmean(table)),
        ci95=interval(table),
        n=int(np.isfinite(table).sum()),
        seeds=len(table),
        gain=None if gained is None else float(np.nanmean(gained)),
        gain_ci95=None if gained is None else interval(gained),
    )


def show(results: Sequence[Standing]) -> None:
    """A Markdown table, a line for each policy and critic."""
    last = max(standing.round for standing in results)
    heads = ["policy", "critic", "n", *(f"round {number}, % won" for number in range(last + 1)), "over no critic"]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for policy, critic in dict.fromkeys((standing.policy, standing.critic) for standing in results):
        row = [standing for standing in results if (standing.policy, standing.critic) == (policy, critic)]
        cells = [
            f"{100 * standing.success:.1f} [{100 * standing.ci95[0]:.0f}, {100 * standing.ci95[1]:.0f}]"
            for standing in row
        ]
        gains = [
            f"{100 * standing.gain:+.1f} [{100 * standing.gain_ci95[0]:+.1f}, {100 * standing.gain_ci95[1]:+.1f}]"
            for standing in row
            if standing.gain is not None and standing.gain_ci95 is not None
        ]
        print("| " + " | ".join([policy, critic, str(row[0].n), *cells, "; ".join(gains)]) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trained", type=Path, default=Path("runs/learning/alfworld"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/learning/rounds"))
    parser.add_argument("--processes", type=int, default=2, help="commands at once, a thread each")
    given = parser.parse_args()
    if given.rounds < 1 or given.processes < 1:
        parser.error("--rounds and --processes are at least 1")
    seeds = trained_seeds(given.trained / "echo", given.trained / "icrl")
    if not seeds:
        parser.error(f"no trained policies in {given.trained}: first run python -m benchmarks.learning alfworld")
    todo = jobs(given.trained, seeds, given.out, rounds=given.rounds)
    finish(todo, processes=given.processes, say=lambda line: print(line, file=sys.stderr, flush=True))
    results = standings(todo, given.rounds)
    show(results)
    write_atomically(
        given.out / "summary.json", json.dumps([result.model_dump() for result in results], indent=2) + "\n"
    )
    ends = {(result.policy, result.critic): result for result in results if result.round == given.rounds}
    own, without = ends["icrl", "self"], ends["icrl", NONE]
    last = {"name": f"{given.rounds} rounds, icrl's policy", "value": own.success, "unit": "share of tasks won"}
    print(json.dumps({**last, "baseline": without.success, "ratio": own.success / without.success, "n": own.n}))


if __name__ == "__main__":
    try:
        main()
    except (AlignEchoError, RuntimeError) as error:
        sys.exit(f"{error}")
