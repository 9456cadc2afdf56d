"""True rules that the probe finds in generated worlds, and what they are worth: `python -m studies.worlds`.

The worlds are those of the seeds in which agents err and nothing lists actions or offers forms; with `--every`, all.
Rules are compared as `tests/worlds/measure.py` says. Prints a line for each world, with its false rules, and a JSON
line for each sort of world: the share in percent with a 95% interval over worlds, and the points of success that the
interface adds to its placebo where agents err (`--test`, obedient agent).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from align_echo.intervals import bootstrap, ratio
from tests.worlds.agents import obedient
from tests.worlds.measure import Size, claims_of, false_claims, learn, played, true_claims, truths
from tests.worlds.worlds import World, make_world


@dataclass(frozen=True)
class WorldCount:
    """Rules of a world that are there, found and false, and the test tasks that are won, by arm."""

    world: World
    there: int
    found: int
    false: tuple[str, ...]
    won: dict[str, int]

    @property
    def sort(self) -> str:
        """What the world tells of its actions."""
        features = self.world.features
        return "listed" if features.listed else "offered" if features.offers else "neither"


def draw_worlds(first: int, last: int, *, every: bool) -> Iterator[World]:
    """Yield the worlds of these seeds: those that tell nothing and in which agents err, or `every` one."""
    for seed in range(first, last + 1):
        world = make_world(seed)
        features = world.features
        if every or (features.misaligned and not features.listed and not features.offers):
            yield world


def count_rules(world: World, size: Size) -> WorldCount:
    """Learn a world, compare its rules, and play its test tasks."""
    interface, _ = learn(world, size)
    claims = claims_of(interface.source)
    return WorldCount(
        world=world,
        there=sum(map(len, truths(world).values())),
        found=sum(map(len, true_claims(world, claims).values())),
        false=false_claims(world, claims),
        won=played(world, obedient(world), interface, size.test) if size.test else {},
    )


def sum_up(sort: str, counts: Sequence[WorldCount], size: Size) -> dict[str, Any]:
    """Return the figures of some worlds."""
    ruled = [each for each in counts if each.there]
    sums = {name: np.asarray([getattr(each, name) for each in ruled]) for name in ("found", "there")}
    share = bootstrap(sums, lambda parts: 100 * parts["found"] / parts["there"], bounds=(0, 100))
    erring = [each for each in counts if each.world.features.misaligned and each.won]
    added = [100.0 * (each.won["with"] - each.won["placebo"]) for each in erring]
    gain = ratio(added, [float(size.test)] * len(added)) if added else None
    return {
        "name": f"rules found, {sort}",
        "value": round(share.value, 1),
        "unit": "%",
        "interval": share.ci95,
        "baseline": None,
        "ratio": None,
        "n": sum(each.there for each in ruled),
        "worlds": len(counts),
        "false": sum(len(each.false) for each in counts),
        "over_placebo": gain and {"points": round(gain.value, 1), "interval": gain.ci95, "worlds": gain.n},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=int, default=10, help="training tasks (default 10)")
    parser.add_argument("--fresh", type=int, default=10, help="tasks to test rules on (default 10)")
    parser.add_argument("--test", type=int, default=0, help="test tasks that are played (default 0)")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of playing and learning, at most (default 1)")
    parser.add_argument("--first", type=int, default=4000, help="first seed (default 4000)")
    parser.add_argument("--last", type=int, default=4175, help="last seed (default 4175)")
    parser.add_argument("--every", action="store_true", help="all worlds of the seeds")
    given = parser.parse_args()
    size = Size(train=given.train, fresh=given.fresh, test=given.test, iterations=given.rounds)
    counts: list[WorldCount] = []
    for world in draw_worlds(given.first, given.last, every=given.every):
        start = time.monotonic()
        each = count_rules(world, size)
        counts.append(each)
        in_words = f", false: {'; '.join(each.false)}" if each.false else ""
        won = f", won {each.won}" if each.won else ""
        seconds = time.monotonic() - start
        print(f"{world.seed} ({each.sort}): {each.found} of {each.there}, {seconds:.0f} s{won}{in_words}", flush=True)
    for sort in sorted({each.sort for each in counts}):
        print(json.dumps(sum_up(sort, [each for each in counts if each.sort == sort], size)))
    print(json.dumps(sum_up("all", counts, size)))


if __name__ == "__main__":
    main()
