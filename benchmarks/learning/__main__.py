"""Train by several methods, measure, compare: `python -m benchmarks.learning STUDY [--seeds N] [--arms A B ...]`.

Studies: `alfworld` and, each with one thing changed, `alfworld-low-rate`, `alfworld-n4`, `alfworld-hard` and
`alfworld-interface`; `webshop`, `webshop-high-rate` and `webshop-taught`. Every arm begins with the same model, ends
after the same number of turns played in environments and is measured without critique on tasks that were not trained
on: with the weights of its best evaluation, and with those of its last step. Hours on two cores; a study that was
stopped goes on with the same command. Writes `summary.json` into --out; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from align_echo.errors import AlignEchoError
from benchmarks.learning.report import compared, show
from benchmarks.learning.runs import START, at_last_step, finish, jobs
from benchmarks.learning.studies import STUDIES, study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=sorted(STUDIES))
    parser.add_argument("--out", type=Path, help="default: runs/learning/STUDY")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--arms", nargs="+", help="default: every config of the study")
    parser.add_argument("--processes", type=int, default=2, help="runs at once, a thread each")
    parser.add_argument("--baseline", help="the method that gains are over; default: grpo")
    parser.add_argument("--report", action="store_true", help="compare what is finished, run nothing")
    given = parser.parse_args()
    chosen = study(given.study)
    arms = given.arms or list(chosen.arms)
    baseline = given.baseline or chosen.baseline
    unknown = sorted(({*arms} - {*chosen.arms}) | ({baseline} - {START, *chosen.arms}))
    if unknown or given.seeds < 1 or given.processes < 1:
        parser.error(f"unknown arms: {', '.join(unknown)}" if unknown else "--seeds and --processes are at least 1")
    out = given.out or Path("runs/learning") / chosen.name
    todo = jobs(chosen, arms, given.seeds, out)
    at_end = [at_last_step(chosen, job) for job in todo if job.training]
    for part in () if given.report else (todo, at_end):
        finish(part, processes=given.processes, say=lambda line: print(line, file=sys.stderr, flush=True))
    done = [job for job in (*todo, *at_end) if job.finished]
    if not done:
        parser.error("nothing is finished yet")
    results = compared(done, baseline)
    show(results, out)
    best = max((finding for finding in results if finding.measure == "score"), key=lambda finding: finding.value)
    start = next((finding.value for finding in results if finding.arm == START and finding.measure == "score"), None)
    last = {"name": f"learning, {chosen.name}: {best.arm}", "value": best.value, "unit": "mean held-out score"}
    print(json.dumps({**last, "baseline": start, "ratio": best.value / start if start else None, "n": best.n}))


if __name__ == "__main__":
    try:
        main()
    except (AlignEchoError, RuntimeError) as error:
        sys.exit(f"{error}")
