"""Give every reader what nobody should write: `python -m benchmarks.fuzz [--minutes N] [--of TARGET]`.

Readers of model output, of files and of what interface code sends (`targets.py`) get texts made of those that they read
(`mutate.py`), in turn, for so many minutes of CPU time. Wrong is any exception that a reader does not name, a result
that it may not have (a control character, a key or a tag that gets through, an action of two lines), and whatever takes
more than ten seconds. Then each gets texts of 25,000, 50,000 and 100,000 characters that repeat one fragment, and is
called steep where twice the text takes more than three times as long.

Prints a row for each reader and what was wrong with the shortest text that showed it, then one JSON line: `value` is
the number of distinct faults, `n` the number of texts. Leaves with 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter

from benchmarks.fuzz.growth import TooLongError, fragments, steep, stopped_after
from benchmarks.fuzz.mutate import mutated
from benchmarks.fuzz.targets import TARGETS, Target, problem

PATIENCE = 10
"""CPU seconds for one text."""


def judged(target: Target, text: str) -> str:
    """`problem`, and that it takes too long."""
    try:
        with stopped_after(PATIENCE):
            return problem(target, text)
    except TooLongError:
        return f"more than {PATIENCE} s"


def fuzz(targets: list[Target], minutes: float, seed: int) -> tuple[Counter[str], dict[tuple[str, str], str]]:
    """Texts by target, and the shortest text by target and fault."""
    dice = random.Random(seed)
    counts: Counter[str] = Counter()
    faults: dict[tuple[str, str], str] = {}
    until = time.process_time() + 60 * minutes
    while time.process_time() < until:
        for target in targets:
            for _ in range(20):
                text = mutated(target.seeds, dice)
                counts[target.name] += 1
                wrong = judged(target, text)
                key = target.name, wrong.partition(":")[0]
                if wrong and len(text) <= len(faults.get(key, text)):
                    if key not in faults:
                        print(f"{target.name}: {wrong}: {text[:200]!r}", file=sys.stderr, flush=True)
                    faults[key] = text
    return counts, faults


def grown(targets: list[Target], most: int, seed: int) -> dict[str, list[str]]:
    """What is steep of each target, over at most so many fragments of each."""
    dice = random.Random(seed)
    slow: dict[str, list[str]] = {}
    for target in targets:
        tried = fragments(target)
        for fragment in dice.sample(tried, min(most, len(tried))):
            if shown := steep(target, fragment):
                slow.setdefault(target.name, []).append(shown)
                print(f"{target.name}: {shown}", file=sys.stderr, flush=True)
                if len(slow[target.name]) >= 3:
                    break
    return slow


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5, help="of CPU time for texts made by chance (default 5)")
    parser.add_argument("--fragments", type=int, default=150, help="of each reader, repeated (default 150)")
    parser.add_argument("--of", action="append", choices=[*TARGETS], help="this reader alone; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="of the texts (default 0)")
    given = parser.parse_args()
    targets = [TARGETS[name] for name in given.of or TARGETS]
    counts, faults = fuzz(targets, given.minutes, given.seed)
    slow = grown(targets, given.fragments, given.seed)
    print("| reader | texts | faults | steep |\n|---|---|---|---|")
    for target in targets:
        count = sum(name == target.name for name, _ in faults)
        print(f"| {target.name} | {counts[target.name]:,} | {count} | {len(slow.get(target.name, []))} |")
    for (name, wrong), text in faults.items():
        print(f"- {name}: {wrong}: {text[:300]!r}")
    for name, lines in slow.items():
        for line in lines:
            print(f"- {name}: steep: {line}")
    value = len(faults) + len(slow)
    print(json.dumps({"benchmark": "fuzz", "value": value, "n": counts.total(), "readers": len(targets)}))
    return 1 if value else 0


if __name__ == "__main__":
    sys.exit(main())
