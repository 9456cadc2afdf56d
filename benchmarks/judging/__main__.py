"""Follow docs/critic.md under several seeds, and measure: `python -m benchmarks.judging ENV [--seeds N]`.

Fixed before it was run: the primary contrast is the best of 8 by the critic over the best of 8 by the placebo, who
takes one of the distinct candidates at random, on tasks of the test split: 134 games of ALFWorld in episodes won, 200
goals of WebShop in the score. All arms draw alike (top-k 30, top-p 0.8, temperature 1); one of them is the policy after
it imitated as many of the expert's actions as the critic had labels. Hours on two cores; a study that was stopped goes
on with the same command. Writes `summary.json` into --out; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from align_echo.errors import AlignEchoError
from align_echo.files import write_atomically
from benchmarks.judging.runs import ONE_DRAW, PLACEBO, STUDIES, collections, critics, imitation, plays, trial_of
from benchmarks.learning.report import findings, markdown
from benchmarks.learning.runs import Job, finish


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", choices=sorted(STUDIES))
    parser.add_argument("--out", type=Path, help="default: runs/judging/ENV")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2, help="commands at once, a thread each")
    parser.add_argument("--report", action="store_true", help="report what is finished, run nothing")
    given = parser.parse_args()
    if given.seeds < 1 or given.processes < 1:
        parser.error("--seeds and --processes are at least 1")
    study = STUDIES[given.env]
    out = given.out or Path("runs/judging") / given.env
    homes = {seed: out / f"seed-{seed}" for seed in range(1, given.seeds + 1)}
    played = [job for seed, home in homes.items() for job in plays(study, seed, home)]

    def do(jobs: Iterable[Job]) -> None:
        finish(list(jobs), processes=given.processes, say=lambda line: print(line, file=sys.stderr, flush=True))

    if not given.report:
        do(job for seed, home in homes.items() for job in collections(study, seed, home))
        do(job for seed, home in homes.items() for job in critics(seed, home))
        do(imitation(study, seed, home) for seed, home in homes.items())
        do(played)
        do(trial_of(home, seed) for seed, home in homes.items())
    measured = [job for job in played if job.finished]
    if not measured:
        parser.error("nothing is finished yet")
    over = {baseline: findings(measured, baseline=baseline) for baseline in (PLACEBO, ONE_DRAW)}
    for baseline, found in over.items():
        print(f"over {baseline}\n\n{markdown(found)}\n")
    record = {baseline: [finding.model_dump() for finding in found] for baseline, found in over.items()}
    write_atomically(out / "summary.json", json.dumps({"primary": study.primary, "over": record}, indent=2) + "\n")
    of_primary = {contrast.arm: contrast for contrast in over[PLACEBO] if contrast.measure == study.primary}
    critic, placebo = (of_primary[arm].value if arm in of_primary else None for arm in ("critic of 8", PLACEBO))
    last = {"name": f"critic over placebo, {given.env}", "value": critic, "unit": study.primary, "baseline": placebo}
    n = of_primary["critic of 8"].n if critic is not None else 0
    print(json.dumps({**last, "ratio": critic / placebo if critic and placebo else None, "n": n}))


if __name__ == "__main__":
    try:
        main()
    except (AlignEchoError, RuntimeError) as error:
        sys.exit(f"{error}")
