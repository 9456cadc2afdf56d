"""Turn the flywheel under several seeds: `python -m benchmarks.flywheel ENV [--seeds N] [--rounds R]`.

The pocket model is the agent, and its critics begin as it. Candidates are drawn in states of the expert's ways (in
later rounds of those that the critic leads to); steps are measured on held-out tasks of the test split, and episodes
are played there with one draw a turn and with one of eight, taken by the critics or by rules that ask none, of which
the placebo knows nothing of the candidates. Hours on two cores; a study that was stopped goes on with the same command.
Writes `summary.json` and `curve.svg` into --out; the last line is one JSON object about step success with the last
critic.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from align_echo.errors import AlignEchoError
from align_echo.files import write_atomically
from benchmarks.flywheel.report import compared, judged_states, plot, points, table_of
from benchmarks.flywheel.runs import CANDIDATES, CONTROLS, ONE_DRAW, STUDIES, plays, wheels
from benchmarks.learning.report import findings, markdown
from benchmarks.learning.runs import finish


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", choices=sorted(STUDIES))
    parser.add_argument("--out", type=Path, help="default: runs/flywheel/ENV")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2, help="commands at once, a thread each")
    parser.add_argument("--report", action="store_true", help="report what is finished, run nothing")
    given = parser.parse_args()
    if given.seeds < 1 or given.rounds < 2 or given.processes < 1:
        parser.error("--seeds and --processes are at least 1, --rounds at least 2")
    study = STUDIES[given.env]
    out = given.out or Path("runs/flywheel") / given.env
    seeds = range(1, given.seeds + 1)
    turned, played = wheels(study, seeds, given.rounds, out), plays(study, seeds, given.rounds, out)
    if not given.report:
        for todo in (turned, played):
            finish(todo, processes=given.processes, say=lambda line: print(line, file=sys.stderr, flush=True))
    done = [job.folder for job in turned if (job.folder / "summary.json").is_file()]
    if not done:
        parser.error("nothing is finished yet")
    judged = [judged_states(folder, given.rounds) for folder in done]
    steps, changes = points(judged), compared(judged)
    measured = [job for job in played if job.finished]
    episodes = {baseline: findings(measured, baseline=baseline) for baseline in (ONE_DRAW, *CONTROLS)}
    print(table_of(steps))
    print()
    for change in changes:
        low, high = (100 * end for end in change.gain_ci95)
        print(f"{change.rule}: {100 * change.gain:+.1f} [{low:+.1f}, {high:+.1f}]")
    for baseline, found in episodes.items():
        print(f"\nepisodes, over {baseline}\n\n{markdown(found)}")
    record = {
        "seeds": len(done),
        "steps": [step.model_dump() for step in steps],
        "compared": [change.model_dump() for change in changes],
        "episodes_over": {
            baseline: [finding.model_dump() for finding in found] for baseline, found in episodes.items()
        },
    }
    write_atomically(out / "summary.json", json.dumps(record, indent=2) + "\n")
    plot(steps, f"{given.env}, pocket model, {len(done)} seeds", out / "curve.svg")
    best = next(step for step in steps if (step.rule, step.candidates) == (f"round {given.rounds}", CANDIDATES))
    single = best.value - best.gain
    last = {"name": f"flywheel, {given.env}", "value": best.value, "unit": "share of states, right action taken"}
    print(json.dumps({**last, "baseline": single, "ratio": best.value / single if single else None, "n": best.n}))


if __name__ == "__main__":
    try:
        main()
    except (AlignEchoError, RuntimeError) as error:
        sys.exit(f"{error}")
