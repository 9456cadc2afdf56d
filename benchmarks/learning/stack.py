"""What stands on what: `python -m benchmarks.learning.stack --trained DIR [--interface NAME] [--best-of N]`.

The start of the study `alfworld` and the policies that one of its arms trained (DIR holds `seed-1`, `seed-2` ...,
default: runs/learning/alfworld/echo), each with and without the interface, each with and without best-of-N by its own
verdict: every combination under the same seeds, once on each task of the study, at temperature 1. Writes `summary.json`
into --out; the last line is one JSON object about all three together, with the start as the baseline.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from align_echo.errors import AlignEchoError
from benchmarks.learning.report import findings, show
from benchmarks.learning.runs import START, Job, finish, measuring, trained_seeds
from benchmarks.learning.studies import study

LAYERS = ("interface", "trained", "best-of")


def jobs(trained: Path, seeds: Sequence[int], out: Path, *, interface: str, best_of: int) -> list[Job]:
    """Every combination of the layers under every seed, seeds outermost."""
    return [
        _job(layers, seed, trained, out, ("--interface", interface), ("--best-of", str(best_of)))
        for seed in seeds
        for layers in product(*((None, layer) for layer in LAYERS))
    ]


def _job(
    layers: Sequence[str | None], seed: int, trained: Path, out: Path, interface: Sequence[str], best_of: Sequence[str]
) -> Job:
    chosen = replace(study("alfworld"), samples=1)
    arm = " + ".join(filter(None, layers)) or START
    folder = out / arm.replace(" + ", "-") / f"seed-{seed}"
    model = str(trained / f"seed-{seed}" / "policy") if "trained" in layers else chosen.start
    more = (*(interface if "interface" in layers else ()), *(best_of if "best-of" in layers else ()))
    return Job(arm, seed, folder, (), measuring(chosen, model, seed, folder, more))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trained", type=Path, default=Path("runs/learning/alfworld/echo"))
    parser.add_argument("--interface", default="probe")
    parser.add_argument("--best-of", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("runs/learning/stack"))
    parser.add_argument("--processes", type=int, default=2, help="commands at once, a thread each")
    given = parser.parse_args()
    if given.best_of < 2 or given.processes < 1:
        parser.error("--best-of is at least 2 and --processes at least 1")
    seeds = trained_seeds(given.trained)
    if not seeds:
        parser.error(f"no trained policies in {given.trained}: first run python -m benchmarks.learning alfworld")
    todo = jobs(given.trained, seeds, given.out, interface=given.interface, best_of=given.best_of)
    finish(todo, processes=given.processes, say=lambda line: print(line, file=sys.stderr, flush=True))
    found = findings(todo, baseline=START)
    show(found, given.out)
    success = {one.arm: one for one in found if one.measure == "success"}
    all_three, start = success[" + ".join(LAYERS)], success[START]
    last = {"name": "stack, alfworld", "value": all_three.value, "unit": "share of tasks won", "baseline": start.value}
    print(json.dumps({**last, "ratio": all_three.value / start.value, "n": all_three.n}))


if __name__ == "__main__":
    try:
        main()
    except (AlignEchoError, RuntimeError) as error:
        sys.exit(f"{error}")
