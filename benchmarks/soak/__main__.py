"""An hour of mixed load under faults in one process: `python -m benchmarks.soak [--minutes N]`.

Whole commands run one after another in this process: episodes in six environments, wrapped and raw, and their pages;
hostile interfaces; endpoints with each fault of `benchmarks.hostile_endpoint`; engines that are killed in mid-episode
(ScienceWorld's Java, MiniWoB's Chromium); damaged run folders; interfaces that are learned; the pocket model. Every one
must end as it should: what is broken is said in a line, and no exception gets out. Between two of them, about every
half minute, this process's memory (resident; lent out and kept by glibc's allocator), handles, threads, processes and
temporary files are counted.

Every environment and each kind of load runs before the first sample. Prints a table of what is held (medians of the
first and of the last tenth of the samples, and the rise in an hour with its 95% interval, block bootstrap, over all
samples and over the second half of them), what every load did, and one JSON line: `value` is the rise of the resident
memory in MiB an hour over the second half, `unexpected` counts loads that did not end as they should. Leaves with 1 if
there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from align_echo.halting import pause
from align_echo.models.retry import RetryPolicy
from benchmarks.soak.holding import FIGURES, Held, below, held_now, slope
from benchmarks.soak.loads import LOADS, Load, warm_up

EVERY = 30.0
"""Seconds between samples."""


class Soak:
    """Loads by chance, one after another; `done` counts them by kind and what they did, `unexpected` keeps errors."""

    def __init__(self, seed: int) -> None:
        self.done: Counter[tuple[str, str]] = Counter()
        self.unexpected: list[str] = []
        self._dice = random.Random(seed)

    def once(self, name: str, load: Load) -> None:
        """One load, in a folder that is removed after it."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                did = load(Path(folder), self._dice)
            except Exception as error:  # whatever gets out is what is looked for
                did = "unexpected"
                self.unexpected.append(f"{name}: {type(error).__name__}: {str(error)[:500]}")
                print(self.unexpected[-1], file=sys.stderr, flush=True)
        self.done[name, did] += 1

    def any(self) -> None:
        """One load of a kind that is drawn."""
        name = self._dice.choices(list(LOADS), [weight for _, weight in LOADS.values()])[0]
        self.once(name, LOADS[name][0])


def soak(minutes: float, rest: float, seed: int) -> tuple[Soak, list[Held]]:
    """Run loads for so long, with a pause of `rest` times its own length after each; samples as they were taken."""
    running = Soak(seed)
    running.once("warm-up", warm_up)
    for name, (load, _) in LOADS.items():
        running.once(name, load)
    begun = time.monotonic()
    samples = [held_now(0.0)]
    while (now := time.monotonic() - begun) < 60 * minutes:
        running.any()
        spent = time.monotonic() - begun - now
        pause(rest * spent)
        passed = time.monotonic() - begun
        if passed - samples[-1].seconds >= EVERY:
            samples.append(held_now(passed))
            print(json.dumps(vars(samples[-1])), file=sys.stderr, flush=True)
    samples.append(held_now(time.monotonic() - begun))
    return running, samples


def report(running: Soak, samples: list[Held]) -> dict[str, object]:
    """The table; the figures of the JSON line."""
    tenth = max(1, len(samples) // 10)
    print("| held | first | last | highest | rise in an hour | of the second half |\n|---|---|---|---|---|---|")
    record: dict[str, object] = {}
    for figure in FIGURES:
        values = [getattr(sample, figure) for sample in samples]
        first, last = statistics.median(values[:tenth]), statistics.median(values[-tenth:])
        slopes = [slope(samples, figure), slope(samples[len(samples) // 2 :], figure)]
        shown = " | ".join(f"{rise:+.2f} [{low:.2f}, {high:.2f}]" for rise, low, high in slopes)
        print(f"| {figure} | {first:.5g} | {last:.5g} | {max(values):.5g} | {shown} |")
        rise, low, high = (round(number, 3) for number in slopes[1])
        record[figure] = {"first": first, "last": last, "slope": rise, "ci95": [low, high]}
    by_load = Counter[str]()
    for (name, did), count in running.done.items():
        by_load[name] += count
        print(f"- {name}: {did} ({count})")
    return {"loads": dict(by_load), **record}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="how long (default 60)")
    parser.add_argument("--rest", type=float, default=0.0, help="pause after a load, in its lengths (default 0)")
    parser.add_argument("--seed", type=int, default=0, help="of the loads (default 0)")
    given = parser.parse_args()
    RetryPolicy.pause = _no_pause  # type: ignore[method-assign]
    os.environ["OPENAI_API_KEY"] = "sk-soak"
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "archive"))
    with tempfile.TemporaryDirectory() as own:
        tempfile.tempdir = os.environ["TMPDIR"] = own
        running, samples = soak(given.minutes, given.rest, given.seed)
        figures = report(running, samples)
        for pid, name in below(os.getpid()).items():
            print(f"- a process that is kept: {name} ({pid})")
        for entry in Path(own).iterdir():
            print(f"- a temporary file that is kept: {entry.name}")
    resident = figures["resident"]
    assert isinstance(resident, dict)
    last = {
        "benchmark": "soak",
        "value": resident["slope"],
        "unit": "MiB/h",
        "minutes": given.minutes,
        "samples": len(samples),
        "unexpected": len(running.unexpected),
        **figures,
    }
    print(json.dumps(last))
    return 1 if running.unexpected else 0


def _no_pause(self: RetryPolicy, attempt: int, after: float | None) -> float:
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
