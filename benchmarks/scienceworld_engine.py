"""ScienceWorld: how far the same actions tell the same story, as Java is started here and as it starts by default, and
what a step and a reset cost beside upstream's own wrapper. Processes differ in what they played before.

    python -m benchmarks.scienceworld_engine [--processes N]

Prints lines, then one JSON line: `value` is the steps a second of the expert's episodes here, `baseline` upstream's
along the same actions, the rest as in `rounds.py`; a round is an episode, so that the interval is one over tasks. CPU
seconds are those of this process and of its Java processes.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from statistics import fmean, median
from typing import Any, NamedTuple

from align_echo.wrappers import java
from align_echo.wrappers.scienceworld.env import ScienceWorldEnv
from align_echo.wrappers.scienceworld.tasks import VARIATIONS, variations
from benchmarks.processes import cpu_since, family_cpu
from benchmarks.rounds import Round, rates

ROOMS = ("kitchen", "bathroom", "outside", "foundry", "greenhouse", "hallway", "bedroom", "workshop", "living room")
DOINGS = (
    *("look around", "look around", "inventory", "wait", "wait1", "open cupboard", "open fridge", "open door", "0"),
    *("look at table", "pick up cup", "pick up bowl", "look in bowl", "pick up substance", "0"),
)
PLANNED = ("lifespan-longest-lived", "find-animal", "find-plant", "chemistry-mix", "use-thermometer", "power-component")
"""Tasks whose gold paths are compared too: those that are planned fast."""


class Story(NamedTuple):
    """One step: what was said, and the raw score."""

    observation: str
    raw_score: float | None


def script(name: str) -> list[str]:
    """A walk through six rooms, the same in every process."""
    dice = random.Random(name)
    rooms = dice.sample(ROOMS, 6)
    return [action for room in rooms for action in (f"teleport to {room}", *dice.choices(DOINGS, k=6))]


def tell(process: int) -> tuple[dict[str, list[Story]], dict[str, tuple[str, ...]]]:
    """Every task's walk and some gold paths, in one Java process; each process takes the tasks in another order."""
    env = ScienceWorldEnv("test", step_limit=10_000)
    stories: dict[str, list[Story]] = {}
    for name in shuffled(VARIATIONS, process):
        env.reset(options={"task": task_id(name)})
        stories[name] = []
        for action in script(name):
            env.step(action)
            stories[name].append(Story(env.state.observation, env.state.raw_score))
            if env.state.done:
                break
    simulator = env._simulator
    gold = {}
    for name in shuffled(PLANNED, process):
        simulator.load(name, variations(name, "test")[0], "easy", gold=True)
        gold[name] = tuple(simulator.gold_path())
    simulator.close()
    env.close()
    return stories, gold


def shuffled(names: Iterable[str], process: int) -> list[str]:
    order = list(names)
    random.Random(process).shuffle(order)
    return order


def task_id(name: str) -> str:
    return f"{name}/easy/{variations(name, 'test')[0]}"


def repeat(options: tuple[str, ...], processes: int) -> str:
    """How many steps and gold paths of later processes are those of the first."""
    kept, java.REPEATABLE = java.REPEATABLE, options
    (first, plans), *later = [tell(process) for process in range(processes)]
    java.REPEATABLE = kept
    pairs = [pair for stories, _ in later for name in first for pair in zip(first[name], stories[name], strict=False)]
    exact = sum(a.observation == b.observation for a, b in pairs)
    words = sum(Counter(a.observation.split()) == Counter(b.observation.split()) for a, b in pairs)
    scores = sum(a.raw_score == b.raw_score for a, b in pairs)
    paths = [plans[name] == gold[name] for _, gold in later for name in plans]
    share = 100 / len(pairs)
    return (
        f"{len(pairs)} steps: text {exact * share:.1f}%, up to the order of words {words * share:.1f}%, "
        f"score {scores * share:.1f}%; gold paths {sum(paths)} of {len(paths)}"
    )


def beside_upstream() -> dict[str, Any]:
    """The same gold paths here and in upstream's wrapper, one after the other: the figures of the JSON line."""
    from scienceworld import ScienceWorldEnv as Upstream

    env = ScienceWorldEnv("test", step_limit=10_000)
    upstream = Upstream("", envStepLimit=10_000)
    resets: dict[str, list[float]] = {"here": [], "upstream": []}
    steps: dict[str, list[float]] = {"here": [], "upstream": []}
    rounds: dict[str, list[Round]] = {"here": [], "upstream": []}
    for name in PLANNED:
        env.reset(options={"task": task_id(name)})
        plan = []
        while not env.state.done:
            plan.append(str(env.oracle().expert_action()))
            env.step(plan[-1])

        def anew(name: str = name) -> None:
            upstream.load(name, variations(name, "test")[0], "easy")
            upstream.reset()

        anew()
        walk(upstream.step, plan, [])  # both have played it once
        ways: list[tuple[str, Callable[[], object], Callable[[str], object]]] = [
            ("here", partial(env.reset, options={"task": task_id(name)}), env.step),
            ("upstream", anew, upstream.step),
        ]
        for order in (ways, ways[::-1]):
            for who, reset, step in order:
                resets[who].append(clock(reset))
                rounds[who].append(walk(step, plan, steps[who]))
    for who, seconds in steps.items():
        print(
            f"{who}: step {1000 * median(seconds):.1f} ms median, {1000 * fmean(seconds):.1f} ms mean, "
            f"{1 / fmean(seconds):.0f} steps/s; reset {1000 * median(resets[who]):.0f} ms median; {len(seconds)} steps"
        )
    env.close()
    upstream.close()
    return {**rates(rounds["here"], rounds["upstream"]), "n": len(steps["here"])}


def walk(step: Callable[[str], object], plan: list[str], seconds: list[float]) -> Round:
    """All steps of a plan; the seconds of each are added."""
    busy = family_cpu()
    took = [clock(partial(step, action)) for action in plan]
    seconds += took
    return Round(len(plan), sum(took), cpu_since(busy))


def clock(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=3, help="Java processes to compare (at least 2)")
    processes = max(parser.parse_args().processes, 2)
    print(f"as started here: {repeat(java.REPEATABLE, processes)}", flush=True)
    print(f"Java's defaults: {repeat((), processes)}", flush=True)
    print(json.dumps({"name": "scienceworld steps, one environment", "unit": "steps/s", **beside_upstream()}))


if __name__ == "__main__":
    main()
