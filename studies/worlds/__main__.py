"""True rules that the probe finds where nothing lists actions or offers forms: `python -m studies.worlds`.

The worlds are those of the seeds in which agents err. Rules are compared as `tests/worlds/measure.py` says. Prints a
line for each world, with its false rules, and one JSON line: the share in percent with a 95% interval over worlds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

import numpy as np

from align_echo.intervals import bootstrap
from tests.worlds.measure import Size, claims_of, false_claims, learn, true_claims, truths
from tests.worlds.worlds import World, make_world


def unlisted(first: int, last: int) -> Iterator[tuple[int, World]]:
    """Yield the worlds of these seeds without a list and without forms, in which agents err."""
    for seed in range(first, last + 1):
        world = make_world(seed)
        if world.features.misaligned and not world.features.listed and not world.features.offers:
            yield seed, world


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=int, default=10, help="training tasks (default 10)")
    parser.add_argument("--fresh", type=int, default=10, help="tasks to test rules on (default 10)")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of playing and learning, at most (default 1)")
    parser.add_argument("--first", type=int, default=4000, help="first seed (default 4000)")
    parser.add_argument("--last", type=int, default=4175, help="last seed (default 4175)")
    given = parser.parse_args()
    size = Size(train=given.train, fresh=given.fresh, iterations=given.rounds)
    found, there, wrong = [], [], 0
    for seed, world in unlisted(given.first, given.last):
        start = time.monotonic()
        claims = claims_of(learn(world, size)[0].source)
        false = false_claims(world, claims)
        found.append(sum(map(len, true_claims(world, claims).values())))
        there.append(sum(map(len, truths(world).values())))
        wrong += len(false)
        seconds, in_words = time.monotonic() - start, f", false: {'; '.join(false)}" if false else ""
        print(f"{seed}: {found[-1]} of {there[-1]}, {seconds:.0f} s{in_words}", flush=True)
    sums = {"found": np.asarray(found), "there": np.asarray(there)}
    share = bootstrap(sums, lambda parts: 100 * parts["found"] / parts["there"], bounds=(0, 100))
    record = {"name": "rules found where nothing is listed", "value": round(share.value, 1), "unit": "%"}
    record |= {"interval": share.ci95, "baseline": None, "ratio": None, "n": sum(there), "worlds": len(there)}
    print(json.dumps({**record, "false": wrong}))


if __name__ == "__main__":
    main()
