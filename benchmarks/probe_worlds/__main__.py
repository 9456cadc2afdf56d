"""What does the probe find on worlds that nobody tuned it to? `python -m benchmarks.probe_worlds [--seeds 0:20]`.

Each seed makes a text world with its own words, names, refusals and rules, which are known (`worlds.py`). The probe
learns it from an erring agent's failures; its rules are compared with the true ones by form, and two agents play test
tasks without the interface, with its placebo and with it. Seeds below 3000 may be tuned on; from there on they are
for reports: whoever changes the probe looks at none of those. A world on which the probe refuses to work or finds
nothing counts with recall 0, and as right where there is nothing to find. Worlds that neither list nor offer anything
are played more (`measure.HEARD_ONLY`). Half a minute for a world on one core, those two minutes; Ctrl-C ends it with
the worlds so far. --out gets `summary.json`, and --read makes one table of several such: the seeds may be shared out
among processes. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from align_echo.errors import UsageError
from align_echo.files import write_atomically
from benchmarks.probe_worlds.features import SPELLINGS
from benchmarks.probe_worlds.measure import Measured, measure, size_for
from benchmarks.probe_worlds.report import by_sort, gains, last_line, read, summary, table
from benchmarks.probe_worlds.worlds import make_world

WHY = 100
"""So many characters are shown of why the probe learned nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:20", help="FIRST:END, the last one left out")
    parser.add_argument("--out", type=Path, help="folder for summary.json")
    parser.add_argument("--iterations", type=int, help="rounds of playing and learning; default: by world")
    parser.add_argument("--spelling", choices=SPELLINGS, help="the spelling of all names; default: drawn")
    parser.add_argument("--read", type=Path, nargs="+", help="summaries to make one table of; nothing is played")
    given = parser.parse_args()
    if given.read:
        show([measured for file in given.read for measured in read_or_refuse(parser, file)])
        return
    held = {"spelling": given.spelling} if given.spelling else {}
    first, _, end = given.seeds.partition(":")
    rounds = given.iterations is None or given.iterations >= 1
    if not (first.isdigit() and end.isdigit() and int(first) < int(end) and rounds):
        parser.error("--seeds is FIRST:END with FIRST below END, and --iterations is at least 1")
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
    worlds: list[Measured] = []
    try:
        for seed in range(int(first), int(end)):
            world = make_world(seed, **held)
            size = size_for(world)
            worlds.append(measure(world, replace(size, iterations=given.iterations or size.iterations)))
            print(in_one_line(worlds[-1]), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"stopped: what follows is of {len(worlds)} worlds", file=sys.stderr)
    if not worlds:
        sys.exit("no world was measured")
    if given.out:
        write_atomically(given.out / "summary.json", json.dumps(summary(worlds), indent=2) + "\n")
    show(worlds)


def show(worlds: Sequence[Measured]) -> None:
    """Print the tables, and the last line."""
    print(f"{table(worlds)}\n\nfound where actions are listed: {by_sort(worlds)}\n{gains(worlds)}")
    print(json.dumps(last_line(worlds)))


def read_or_refuse(parser: argparse.ArgumentParser, file: Path) -> list[Measured]:
    """The worlds of a summary; the process ends with status 2 where it is none."""
    try:
        return read(file)
    except UsageError as error:
        parser.error(str(error))


def in_one_line(measured: Measured) -> str:
    """One world in one line."""
    features = measured.world.features
    kind = f"{features.spelling}, {features.refusal}, depth {features.depth}, {'' if features.listed else 'not '}listed"
    rules = f"{sum(measured.learned.values())} of {sum(measured.there.values())} rules, {len(measured.false)} false"
    won = ", ".join(f"{arm} {count}" for arm, count in measured.won["obedient"].items())
    why = f"; {measured.refused[:WHY]}" if measured.refused else ""
    return f"world {measured.world.seed} ({kind}): {rules}; obedient agent of {measured.tasks}: {won}{why}"


if __name__ == "__main__":
    main()
