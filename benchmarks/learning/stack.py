"""What stands on what: `python -m benchmarks.learning.stack --trained DIR [--trained-inside DIR] [--best-of N]`.

The start of the study `alfworld` and the policies that one of its arms trained (DIR holds `seed-1`, `seed-2` ...,
default: runs/learning/alfworld/echo), each with and without the interface, each with and without best-of-N by its own
verdict: every combination under the same seeds, once on each task of the study, at temperature 1; and, in the
interface, the policies that were trained in it (study `alfworld-interface`). Writes `summary.json` into --out; the last
line is one JSON object about all three together, with the start as the baseline.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from align_echo.errors import AlignEchoError
from benchmarks.learning.report import findings, show
from benchmarks.learning.runs import START, Job, finish, measuring, trained_seeds
from benchmarks.learning.studies import study

INTERFACE, TRAINED, INSIDE, BEST_OF = "interface", "trained", "trained inside", "best-of"
COMBINATIONS = (
    *product((None, INTERFACE), (None, TRAINED), (None, BEST_OF)),
    (INTERFACE, INSIDE, None),
    (INTERFACE, INSIDE, BEST_OF),
)
ALL = " + ".join((INTERFACE, INSIDE, BEST_OF))


def jobs(trained: Path, inside: Path, seeds: Sequence[int], out: Path, *, interface: str, best_of: int) -> list[Job]:
    """Every combination under every seed, seeds outermost."""
    made = []
    for seed in seeds:
        models = {TRAINED: trained / f"seed-{seed}" / "policy", INSIDE: inside / f"seed-{seed}" / "policy"}
        for layers in COMBINATIONS:
            chosen = [layer for layer in layers if layer]
            made.append(_job(chosen, seed, out, models, interface=interface, best_of=best_of))
    return made


def _job(
    layers: Sequence[str], seed: int, out: Path, models: Mapping[str, Path], *, interface: str, best_of: int
) -> Job:
    chosen = replace(study("alfworld"), samples=1)
    arm = " + ".join(layers) or START
    folder = out / arm.replace(" + ", "-").replace(" ", "-") / f"seed-{seed}"
    model = next((str(models[layer]) for layer in layers if layer in models), chosen.start)
    measured = measuring(
        chosen,
        model,
        seed,
        interface=interface if INTERFACE in layers else "none",
        best_of=best_of if BEST_OF in layers else 1,
    )
    return Job(arm, seed, folder, None, measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trained", type=Path, default=Path("runs/learning/alfworld/echo"))
    parser.add_argument("--trained-inside", type=Path, default=Path("runs/learning/alfworld-interface/echo"))
    parser.add_argument("--interface", default="probe")
    parser.add_argument("--best-of", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("runs/learning/stack"))
    parser.add_argument("--processes", type=int, default=2, help="commands at once, a thread each")
    given = parser.parse_args()
    if given.best_of < 2 or given.processes < 1:
        parser.error("--best-of is at least 2 and --processes at least 1")
    for arm in (given.trained, given.trained_inside):
        if not trained_seeds(arm):
            parser.error(f"no trained policies in {arm}: first run python -m benchmarks.learning {arm.parent.name}")
    seeds = trained_seeds(given.trained, given.trained_inside)
    todo = jobs(
        given.trained, given.trained_inside, seeds, given.out, interface=given.interface, best_of=given.best_of
    )
    finish(todo, processes=given.processes, say=lambda line: print(line, file=sys.stderr, flush=True))
    results = findings(todo, baseline=START)
    show(results, given.out)
    success = {finding.arm: finding for finding in results if finding.measure == "success"}
    all_three, start = success[ALL], success[START]
    last = {"name": "stack, alfworld", "value": all_three.value, "unit": "share of tasks won", "baseline": start.value}
    print(json.dumps({**last, "ratio": all_three.value / start.value, "n": all_three.n}))


if __name__ == "__main__":
    try:
        main()
    except (AlignEchoError, RuntimeError) as error:
        sys.exit(f"{error}")
