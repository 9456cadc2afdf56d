"""ALFWorld's two engines side by side: `python -m benchmarks.alfworld_engine [--games N] [--steps N]`.

Plays the same random actions on the same embedded games with both engines in one run: steps a second of one
environment (games new to the process, then the same games with other actions), seconds to reset a game played before,
bytes an environment adds (64 in one process, each in a game of its own), steps a second of 64 environments in two
processes. Prints a table, then one JSON line for the step rate of one environment on known games: `baseline` is the
reference engine's, `ratio` their quotient.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

import align_echo
from align_echo.wrappers.alfworld.spec import TASK_TYPES, task_type
from align_echo.wrappers.text_env import TextEnv

SPLIT = "valid_unseen"
ENDLESS = 10**9
MANY = 64
PROCESSES = 2


def games(count: int, seed: int = 0) -> list[str]:
    """Embedded games, the six types in turn."""
    ids = align_echo.tasks("alfworld", split=SPLIT)
    random.Random(seed).shuffle(ids)
    by_type = [[id_ for id_ in ids if task_type(id_) == kind] for kind in TASK_TYPES]
    turns = itertools.zip_longest(*by_type)
    return [id_ for turn in turns for id_ in turn if id_][:count]


def make(engine: str) -> TextEnv:
    """A raw environment that no step limit ends."""
    env = align_echo.make("alfworld", split=SPLIT, engine=engine, step_limit=ENDLESS).unwrapped
    assert isinstance(env, TextEnv)
    return env


def play(env: TextEnv, task: str, steps: int, seed: str = "") -> tuple[float, float, int]:
    """Seconds of the reset, seconds of all steps, and how many steps: a game that is won ends early."""
    start = time.perf_counter()
    env.reset(options={"task": task})
    reset = time.perf_counter() - start
    rng = random.Random(task + seed)
    seconds, count = 0.0, 0
    while count < steps:
        action = rng.choice(env.state.admissible_actions or ("look",))
        start = time.perf_counter()
        _, _, over, _, _ = env.step(action)
        seconds += time.perf_counter() - start
        count += 1
        if over:
            break
    return reset, seconds, count


def rates(engine: str, tasks: Sequence[str], steps: int) -> dict[str, float]:
    """Steps a second on games new to the process, then with other actions; median seconds of a reset when known."""
    env = make(engine)
    rate = {}
    for lap in ("first", "again"):
        runs = [play(env, task, steps, lap) for task in tasks]
        rate[lap] = sum(count for _, _, count in runs) / sum(seconds for _, seconds, _ in runs)
    rate["reset"] = statistics.median(reset for reset, _, _ in runs)
    env.close()
    return rate


def _memory() -> int:
    """Resident bytes of this process (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _bytes_each(engine: str, count: int, steps: int, answer: Any) -> None:
    envs = [make(engine) for _ in range(count + 1)]
    tasks = games(count + 1)
    play(envs.pop(), tasks.pop(), steps)
    before = _memory()
    for env, task in zip(envs, tasks, strict=True):
        play(env, task, steps)
    answer.put((_memory() - before) / count)


def _steps_each(engine: str, count: int, steps: int, seed: int, gate: Any, answer: Any) -> None:
    envs = [make(engine) for _ in range(count)]
    for env, task in zip(envs, games(count, seed), strict=True):
        env.reset(options={"task": task})
    rng = random.Random(seed)
    gate.wait()
    start = time.perf_counter()
    for _ in range(steps):
        for env in envs:
            _, _, over, _, _ = env.step(rng.choice(env.state.admissible_actions or ("look",)))
            if over:
                env.reset(options={"task": rng.choice(env.task_ids)})
    answer.put((count * steps) / (time.perf_counter() - start))


def bytes_each(engine: str, count: int, steps: int) -> float:
    """Bytes that an environment adds, measured in a process of its own."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=_bytes_each, args=(engine, count, steps, answer))
    process.start()
    measured = float(answer.get())
    process.join()
    return measured


def steps_together(engine: str, count: int, steps: int) -> float:
    """Steps a second of `count` environments, shared out over the processes."""
    context = multiprocessing.get_context("spawn")
    answer, gate = context.Queue(), context.Barrier(PROCESSES)
    processes = [
        context.Process(target=_steps_each, args=(engine, count // PROCESSES, steps, seed, gate, answer))
        for seed in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    total = sum(float(answer.get()) for _ in processes)
    for process in processes:
        process.join()
    return total


def main() -> None:
    """Measure both engines and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=6, help="games played by both engines (default 6)")
    parser.add_argument("--steps", type=int, default=40, help="steps in each (default 40)")
    given = parser.parse_args()
    tasks = games(given.games)
    gym.logger.min_level = gym.logger.ERROR
    rates("fast", tasks, 1)  # compiled once, kept on disk
    fast, real = rates("fast", tasks, given.steps), rates("textworld", tasks, given.steps)
    rows = [
        ("steps/s, games new to the process", fast["first"], real["first"]),
        ("steps/s, games known, other actions", fast["again"], real["again"]),
        ("resets/s of a known game", 1 / fast["reset"], 1 / real["reset"]),
        (
            f"steps/s, {MANY} environments in {PROCESSES} processes (textworld: {2 * PROCESSES})",
            steps_together("fast", MANY, 200),
            steps_together("textworld", 2 * PROCESSES, 20),
        ),
    ]
    print(f"{'':62}{'fast':>12}{'textworld':>12}{'ratio':>10}")
    for name, ours, theirs in rows:
        print(f"{name:62}{ours:12,.1f}{theirs:12,.2f}{ours / theirs:10,.0f}")
    print(f"{f'bytes an environment ({MANY} games in one process; textworld: 6)':62}", end="")
    print(f"{bytes_each('fast', MANY, 50):12,.0f}{bytes_each('textworld', 6, 3):12,.0f}")
    value, baseline = rows[1][1], rows[1][2]
    record = {"name": "alfworld steps, one environment", "value": round(value), "unit": "steps/s"}
    print(
        json.dumps(
            record | {"baseline": round(baseline, 2), "ratio": round(value / baseline), "n": given.games * given.steps}
        )
    )


if __name__ == "__main__":
    main()
