"""ALFWorld's two engines side by side: `python -m benchmarks.alfworld_engine [--games N] [--steps N] [--rounds N]`.

Plays random actions on embedded games with both engines in one run: steps a second of one environment (games new to the
process, then rounds of the same games with other actions, by turns), seconds to reset a game played before, bytes an
environment adds (64 in one process, each in a game of its own), steps a second of 64 environments in two processes. The
reference is so slow that it plays --games of the games, of all task types alike, and our engine all of them: no game
twice in a round, as an engine that remembers answers gains from that. Prints a table, then one JSON line for the step
rate of one environment on known games: `baseline` is the reference engine's, `n` its steps, the rest as in `rounds.py`.
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
from benchmarks.rounds import Round, at_least_one, rate, rates

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


class Engine:
    """One environment of an engine, and the seconds of its resets."""

    def __init__(self, name: str) -> None:
        self.env = make(name)
        self.resets: list[float] = []

    def play(self, task: str, steps: int, seed: str = "") -> Round:
        """All steps of one episode; a game that is won ends early."""
        start = time.perf_counter()
        self.env.reset(options={"task": task})
        self.resets.append(time.perf_counter() - start)
        rng = random.Random(task + seed)
        seconds, cpu, count = 0.0, 0.0, 0
        while count < steps:
            action = rng.choice(self.env.state.admissible_actions or ("look",))
            start, busy = time.perf_counter(), time.process_time()
            _, _, over, _, _ = self.env.step(action)
            seconds, cpu = seconds + time.perf_counter() - start, cpu + time.process_time() - busy
            count += 1
            if over:
                break
        return Round(count, seconds, cpu)

    def round(self, tasks: Sequence[str], steps: int, seed: str) -> Round:
        """All tasks, with other actions for each seed."""
        played = [self.play(task, steps, seed) for task in tasks]
        return Round(*(sum(column) for column in zip(*played, strict=True)))


def _memory() -> int:
    """Resident bytes of this process (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _bytes_each(engine: str, count: int, steps: int, answer: Any) -> None:
    envs = [Engine(engine) for _ in range(count + 1)]
    tasks = games(count + 1)
    envs.pop().play(tasks.pop(), steps)
    before = _memory()
    for env, task in zip(envs, tasks, strict=True):
        env.play(task, steps)
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
    parser.add_argument("--games", type=int, default=6, help="games played by the reference (default 6)")
    parser.add_argument("--steps", type=int, default=20, help="steps in each (default 20)")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="rounds on known games (default 5)")
    given = parser.parse_args()
    every = games(len(align_echo.tasks("alfworld", split=SPLIT)))
    gym.logger.min_level = gym.logger.ERROR
    playing = ((Engine("fast"), every), (Engine("textworld"), every[: given.games]))
    new = [rate(engine.round(tasks, given.steps, "first")) for engine, tasks in playing]
    rounds: tuple[list[Round], list[Round]] = ([], [])
    for number in range(given.rounds):
        for (engine, tasks), played in zip(playing, rounds, strict=True):
            played.append(engine.round(tasks, given.steps, str(number)))
    known = rates(*rounds)
    for engine, _ in playing:
        engine.env.close()
    resets = [1 / statistics.median(engine.resets[len(tasks) :]) for engine, tasks in playing]
    rows: list[tuple[str, float, float]] = [
        ("steps/s, games new to the process", new[0], new[1]),
        ("steps/s, games known, other actions", known["value"], known["baseline"]),
        ("resets/s of a known game", resets[0], resets[1]),
        (
            f"steps/s, {MANY} environments in {PROCESSES} processes (textworld: {2 * PROCESSES})",
            steps_together("fast", MANY, 2000),
            steps_together("textworld", 2 * PROCESSES, 100),
        ),
    ]
    print(f"{'':62}{'fast':>12}{'textworld':>12}{'ratio':>10}")
    for name, ours, theirs in rows:
        print(f"{name:62}{ours:12,.1f}{theirs:12,.2f}{ours / theirs:10,.0f}")
    print(f"{f'bytes an environment ({MANY} games in one process; textworld: 6)':62}", end="")
    print(f"{bytes_each('fast', MANY, 50):12,.0f}{bytes_each('textworld', 6, 3):12,.0f}")
    count = int(sum(lap.work for lap in rounds[1]))
    print(json.dumps({"name": "alfworld steps, one environment", "unit": "steps/s", **known, "n": count}))


if __name__ == "__main__":
    main()
