"""What a decoding step costs over long contexts: `python -m benchmarks.decode_columns [--threads N] [--rounds N]`.

The pocket model draws one token for each of several rows, on the CPU, after contexts of random tokens. Four settings: 8
rows of 2,000 columns with nothing in common; the same with the first 700 (rules) alike; 32 rows of 700 to 2,000 columns
with the first 700 alike; 32 rows of 2,550 to 3,300 columns in four groups, each with its first 2,500 alike (an attempt
that is told to eight rows). Two arms, a step each by turns: as it is, and without the table of scores, where every row
reads its own copy of everything and as far as the longest row goes. Both must give the same logits.

Prints a table with the time of a step over no columns beside it, then one JSON line: `value` and `baseline` are
milliseconds of a step of the first setting that shares columns; `ratio` is of medians; `interval` is the least and the
largest ratio of a round; `settings` has all of them, with CPU milliseconds; `load` is the machine's when it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch

from align_echo.models.local.loading import pocket_folder
from align_echo.models.local.pocket_model import read_pocket
from align_echo.models.local.slot_attention import PackedStep, SlotPart, forward
from align_echo.models.local.slots import SlotCache
from benchmarks.rounds import at_least_one

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOLERANCE = 1e-3
STEPS = 12
CONTEXT = 4096


@dataclass(frozen=True)
class Setting:
    """Rows in groups: `rules` columns are all rows' alike, `told` more are a group's, and the rest is a row's own."""

    rules: int
    told: int
    own: tuple[tuple[int, ...], ...]


def spread(least: int, most: int, count: int) -> tuple[int, ...]:
    """So many lengths, evenly from the least to the most."""
    return tuple(round(least + (most - least) * index / max(count - 1, 1)) for index in range(count))


SETTINGS = {
    "8 rows, 2,000 columns, none shared": Setting(0, 0, ((2000,),) * 8),
    "8 rows, 2,000 columns, 700 shared": Setting(700, 0, ((1300,) * 8,)),
    "32 rows, 700 to 2,000 columns, 700 shared": Setting(700, 0, (spread(1, 1300, 32),)),
    "32 rows, 2,550 to 3,300 columns, 2,500 shared by 8": Setting(700, 1800, (spread(50, 800, 8),) * 4),
}
TOLD = "8 rows, 2,000 columns, 700 shared"


def filled(model: PreTrainedModel, setting: Setting) -> SlotCache:
    """A cache in which every row has read its context."""
    dice = random.Random(0)
    cache = SlotCache(sum(map(len, setting.own)), CONTEXT)
    rules = [dice.randrange(1000) for _ in range(setting.rules)]
    busy: set[int] = set()
    for group in setting.own:
        told = [*rules, *(dice.randrange(1000) for _ in range(setting.told))]
        for own in group:
            ids = [*told, *(dice.randrange(1000) for _ in range(own))]
            slot, done = cache.take([*ids, 0], "", busy)
            busy.add(slot)
            forward(model, PackedStep(cache, [SlotPart(slot, done, ids[done:])], model.device), torch.tensor([0]))
    return cache


def step(
    model: PreTrainedModel, cache: SlotCache, starts: list[int], shared: bool
) -> tuple[torch.Tensor, float, float]:
    """One step after contexts of these lengths, as it is or without a table: logits, seconds, CPU seconds."""
    began, cpu = time.perf_counter(), time.process_time()
    packed = PackedStep(cache, [SlotPart(slot, start, [5]) for slot, start in enumerate(starts)], model.device)
    if not shared:
        packed.table = None
    logits = forward(model, packed, torch.arange(len(starts)))
    return logits, time.perf_counter() - began, time.process_time() - cpu


def measure(model: PreTrainedModel, setting: Setting, rounds: int) -> dict[str, object]:
    """Medians in milliseconds of steps as they are, without a table, and over no columns; ratios of the first two."""
    cache = filled(model, setting)
    lengths = [int(length) for length in cache.lengths]
    arms = {"now": (lengths, True), "before": (lengths, False), "empty": ([0] * len(lengths), True)}
    spent: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in arms}
    for _ in range(rounds):
        for times in spent.values():
            times.append([])
        for _ in range(STEPS):
            found = {}
            for name, (starts, shared) in arms.items():
                found[name], *seconds = step(model, cache, starts, shared)
                spent[name][-1].append((seconds[0], seconds[1]))
            torch.testing.assert_close(found["now"], found["before"], atol=TOLERANCE, rtol=TOLERANCE)

    def milliseconds(name: str, clock: int) -> list[float]:
        return [1000 * statistics.median(pair[clock] for pair in times) for times in spent[name]]

    ratios = [now / before for now, before in zip(milliseconds("now", 0), milliseconds("before", 0), strict=True)]
    return {
        **{name: round(statistics.median(milliseconds(name, 0)), 2) for name in arms},
        **{f"{name}_cpu": round(statistics.median(milliseconds(name, 1)), 2) for name in arms},
        "ratio": round(statistics.median(ratios), 3),
        "interval": [round(min(ratios), 3), round(max(ratios), 3)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default 2)")
    parser.add_argument("--rounds", type=at_least_one, default=5, help=f"of {STEPS} steps of each arm (default 5)")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    model = cast("PreTrainedModel", read_pocket(pocket_folder()))
    model.train(False)
    print("| setting | before, ms | now, ms | over no columns, ms | now / before |")
    print("|---|---|---|---|---|")
    found: dict[str, dict[str, object]] = {}
    with torch.inference_mode():
        for name, setting in SETTINGS.items():
            figures = found[name] = measure(model, setting, given.rounds)
            print(f"| {name} | {figures['before']} | {figures['now']} | {figures['empty']} | {figures['ratio']} |")
    shared = {key: found[TOLD][key] for key in ("ratio", "interval")}
    line = {
        "name": f"decoding step, {TOLD}",
        "value": found[TOLD]["now"],
        "unit": "ms",
        "baseline": found[TOLD]["before"],
        **shared,
        "n": given.rounds * STEPS,
        "threads": given.threads,
        "load": round(os.getloadavg()[0], 2),
        "settings": found,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
