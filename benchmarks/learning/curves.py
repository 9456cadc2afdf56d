"""What happened while a study trained: `python -m benchmarks.learning.curves STUDY [--out DIR]`.

Prints, over the seeds that were trained: held-out scores by step; how scores changed from an attempt to the one after
its critique, by the score before, in the first and the second half of training; where scores went (a density);
critiques that could not be read, by how their attempt had ended; and log w_t of revised episodes that were won.
Writes `curves/summary.json` into --out; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from align_echo.errors import AlignEchoError
from align_echo.files import write_atomically
from align_echo.intervals import ratio
from align_echo.train.signals import band
from benchmarks.learning.report import lines_of
from benchmarks.learning.studies import STUDIES, study

HALVES = ("first", "second")
WEIGHTS = ("log_w_t", "w_t_below_half")
"""Signals about the weights of revised episodes that were won."""

OUTCOMES = ("lost", "won")
Pairs = list[tuple[float, float]]


class Point(BaseModel):
    """Held-out score (0 to 1) after so many steps: mean, lowest and highest of the seeds."""

    arm: str
    step: int
    environment_steps: float
    score: float
    lowest: float
    highest: float
    seeds: int


class Gain(BaseModel):
    """Mean change of the score from an attempt to the next, by the band of the score before; `n` pairs.

    The interval resamples steps: those of a query share their attempt.
    """

    arm: str
    half: str
    before: str
    gain: float
    ci95: tuple[float, float] | None
    n: int


class Spread(BaseModel):
    """Shares of the pairs of an arm, from one band of scores to another; they add up to 1."""

    arm: str
    half: str
    shares: dict[str, dict[str, float]]


def points(arm: str, runs: Sequence[Path]) -> list[Point]:
    """The curve of an arm: steps that every seed reached."""
    by_step: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for run in runs:
        played = np.cumsum([0, *(line["environment_steps"] for line in lines_of(run / "signals.jsonl"))])
        for line in lines_of(run / "held_out.jsonl"):
            by_step[line["step"]].append((float(played[line["step"]]), line["score"]["value"]))
    return [
        Point(
            arm=arm,
            step=step,
            environment_steps=float(np.mean([turns for turns, _ in seen])),
            score=float(np.mean([score for _, score in seen])),
            lowest=min(score for _, score in seen),
            highest=max(score for _, score in seen),
            seeds=len(seen),
        )
        for step, seen in sorted(by_step.items())
        if len(seen) == len(runs)
    ]


def halves(runs: Sequence[Path]) -> dict[str, list[Pairs]]:
    """Scores before and after, by half of training; a list for each step of each seed."""
    by_half: dict[str, list[Pairs]] = {half: [] for half in HALVES}
    for run in runs:
        lines = lines_of(run / "refinements.jsonl")
        middle = lines[-1]["step"] / 2 if lines else 0
        for line in lines:
            by_half[HALVES[line["step"] - 1 >= middle]].append([(before, after) for before, after in line["scores"]])
    return by_half


def gains(arm: str, half: str, steps: Sequence[Pairs]) -> list[Gain]:
    """By band, and over all."""
    bands = sorted({band(before) for pairs in steps for before, _ in pairs})
    return [_gain(arm, half, name, steps) for name in [*bands, "all"]]


def _gain(arm: str, half: str, name: str, steps: Sequence[Pairs]) -> Gain:
    changes = [[after - before for before, after in step if name in ("all", band(before))] for step in steps]
    estimate = ratio([sum(change) for change in changes], [len(change) for change in changes])
    return Gain(arm=arm, half=half, before=name, gain=estimate.value, ci95=estimate.ci95, n=sum(map(len, changes)))


def spread(arm: str, half: str, steps: Sequence[Pairs]) -> Spread:
    """Where the scores of a half went."""
    pairs = [pair for step in steps for pair in step]
    shares: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for before, after in pairs:
        shares[band(before)][band(after)] += 1 / len(pairs)
    return Spread(arm=arm, half=half, shares={name: dict(sorted(to.items())) for name, to in sorted(shares.items())})


def weights(runs: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Means of `WEIGHTS` by half of training; nothing where no row was moved out of its context."""
    by_half: dict[str, dict[str, list[float]]] = {half: defaultdict(list) for half in HALVES}
    for run in runs:
        signals = lines_of(run / "signals.jsonl")
        for index, line in enumerate(signals):
            for name in WEIGHTS:
                if name in line:
                    by_half[HALVES[index >= len(signals) / 2]][name].append(line[name])
    means = {half: {name: float(np.mean(seen)) for name, seen in by_name.items()} for half, by_name in by_half.items()}
    return {half: by_name for half, by_name in means.items() if by_name}


def critiques(runs: Sequence[Path]) -> dict[str, dict[str, int]]:
    """By how the attempt had ended: critiques asked for, those that could not be read, and those that were cut."""
    lines = [line for run in runs for line in lines_of(run / "signals.jsonl")]
    by_outcome: dict[str, dict[str, int]] = {}
    for outcome in OUTCOMES:
        name = f"critiques_of_{outcome}_attempts"
        names = {"asked": name, "unread": f"unread_{name}", "cut": f"cut_{name}"}
        by_outcome[outcome] = {
            kind: int(sum(line.get(f"count/{key}", 0) for line in lines)) for kind, key in names.items()
        }
    return {outcome: counts for outcome, counts in by_outcome.items() if counts["asked"]}


def curves(runs: Mapping[str, Sequence[Path]]) -> dict[str, Any]:
    """All of it, by arm."""
    refined = {arm: halves(folders) for arm, folders in runs.items()}
    some = [(arm, half, steps) for arm, by_half in refined.items() for half, steps in by_half.items() if steps]
    return {
        "points": [point for arm, folders in runs.items() for point in points(arm, folders)],
        "gains": [gain for arm, half, steps in some for gain in gains(arm, half, steps)],
        "spreads": [spread(arm, half, steps) for arm, half, steps in some],
        "weights": {arm: found for arm, folders in runs.items() if (found := weights(folders))},
        "critiques": {arm: asked for arm, folders in runs.items() if (asked := critiques(folders))},
    }


def show(drawn: Mapping[str, Any]) -> None:
    """Markdown tables."""
    print("| method | step | turns played | held-out score | lowest, highest of the seeds |\n" + "|---" * 5 + "|")
    for point in drawn["points"]:
        ends = f"{point.lowest:.3f}, {point.highest:.3f}"
        print(f"| {point.arm} | {point.step} | {point.environment_steps:,.0f} | {point.score:.3f} | {ends} |")
    print("\n| method | half | score before | n | change of the score |\n" + "|---" * 5 + "|")
    for point in drawn["gains"]:
        change = f"{point.gain:+.3f} " + ("-" if point.ci95 is None else "[{:+.3f}, {:+.3f}]".format(*point.ci95))
        print(f"| {point.arm} | {point.half} | {point.before} | {point.n} | {change} |")
    print("\n| method | half | score before | score after: % of all pairs |\n" + "|---" * 4 + "|")
    for point in drawn["spreads"]:
        for before, to in point.shares.items():
            where = ", ".join(f"{after}: {100 * share:.1f}" for after, share in to.items())
            print(f"| {point.arm} | {point.half} | {before} | {where} |")
    for arm, by_outcome in drawn["critiques"].items():
        for outcome, counts in by_outcome.items():
            counted = ", ".join(f"{kind} {count}" for kind, count in counts.items())
            print(f"\ncritiques of {outcome} attempts, {arm}: {counted}")
    for arm, by_half in drawn["weights"].items():
        for half, by_name in by_half.items():
            means = ", ".join(f"{name} {value:.3f}" for name, value in by_name.items())
            print(f"\nrevised and won, {arm}, {half} half: {means}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=sorted(STUDIES))
    parser.add_argument("--out", type=Path, help="default: runs/learning/STUDY")
    given = parser.parse_args()
    out = given.out or Path("runs/learning") / given.study
    finished = {arm: sorted((out / arm).glob("seed-*/summary.json")) for arm in study(given.study).arms}
    runs = {arm: [summary.parent for summary in summaries] for arm, summaries in finished.items() if summaries}
    if not runs:
        parser.error(f"nothing is trained in {out}: first run python -m benchmarks.learning {given.study}")
    drawn = curves(runs)
    show(drawn)
    written = drawn | {name: [point.model_dump() for point in drawn[name]] for name in ("points", "gains", "spreads")}
    (out / "curves").mkdir(exist_ok=True)
    write_atomically(out / "curves" / "summary.json", json.dumps(written, indent=2) + "\n")
    best = max(drawn["points"], key=lambda point: point.score)
    start = next(point.score for point in drawn["points"] if point.arm == best.arm)
    last = {"name": f"curves, {given.study}: {best.arm}, step {best.step}", "value": best.score, "baseline": start}
    print(json.dumps({**last, "unit": "held-out score", "ratio": best.score / start, "n": best.seeds}))


if __name__ == "__main__":
    try:
        main()
    except AlignEchoError as error:
        sys.exit(f"{error}")
