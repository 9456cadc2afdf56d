"""Many environments stepped in one process: `python -m benchmarks.many_environments [--n N] [--rounds R]`.

ALFWorld's 134 games of valid_unseen on auto-reset, all environments by chance among the admissible actions, so that no
lap is the one before it; choosing is not timed. Three arms, each in a process of its own, take turns. Each plays until
it met every game, and then rounds of --seconds CPU seconds:

    ours       `make_vec` with the default bound of what is kept in memory
    gymnasium  `SyncVectorEnv` over the same environments
    small      `make_vec` with room for --small MB of games, as if there were little memory

Prints a table, then one JSON line: `value` is our steps a second, `baseline` those of `small`, the rest as in
`rounds.py`; `gymnasium` holds the same beside that arm, `arms` what each kept in memory, and resident megabytes before
and after; `same` is whether all gave the same results in their first steps.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from typing import Any

import gymnasium as gym

import align_echo
from align_echo.wrappers.memory import VARIABLE, memory
from benchmarks.processes import family_bytes
from benchmarks.rounds import Round, at_least_one, cpu_rate, rates, shortened

SPLIT = "valid_unseen"
TURNS = 20
HASHED = 400
"""Steps of all environments whose results are hashed: the first ones."""


class Arm:
    """An arm under way, in a process of its own: it has met every game."""

    def __init__(self, name: str, n: int) -> None:
        self._before = family_bytes()
        self._n, self._dice, self._hash = n, random.Random(0), hashlib.sha256()
        self._envs: gym.vector.VectorEnv[Any, Any, Any]
        if name == "gymnasium":
            make = [lambda: align_echo.make("alfworld", split=SPLIT, step_limit=TURNS)]
            self._envs = gym.vector.SyncVectorEnv(make * n)
        else:
            self._envs = align_echo.make_vec("alfworld", n=n, split=SPLIT, step_limit=TURNS)
        self._info = self._envs.reset(seed=0)[1]
        met, games, steps = set(self._info["task_id"]), set(align_echo.tasks("alfworld", split=SPLIT)), 0
        while steps < HASHED or not games <= met:
            self._step(hashed=steps < HASHED)
            met.update(self._info["task_id"])
            steps += 1

    def round(self, seconds: float) -> Round:
        """Steps of all environments for so many CPU seconds."""
        steps = [self._step()]
        while sum(cpu for _, cpu in steps) < seconds:
            steps.append(self._step())
        clock, cpu = (sum(column) for column in zip(*steps, strict=True))
        return Round(self._n * len(steps), clock, cpu)

    def kept(self) -> dict[str, Any]:
        """What is kept in memory, and the hash of the first results."""
        games = memory()
        return {
            "mb": [shortened(size / 1e6) for size in (self._before, family_bytes())],
            "kept_mb": shortened(games.bytes / 1e6),
            "kept": len(games),
            "hash": self._hash.hexdigest(),
        }

    def _step(self, hashed: bool = False) -> tuple[float, float]:
        """One step of all: seconds by the clock and of CPU."""
        actions = tuple(self._dice.choice(listed or ("look",)) for listed in self._info["admissible_actions"])
        clock, cpu = time.perf_counter(), time.process_time()
        observations, rewards, terminated, truncated, self._info = self._envs.step(actions)
        spent = time.perf_counter() - clock, time.process_time() - cpu
        if hashed:
            infos = {key: (value.dtype.str, value.tolist()) for key, value in self._info.items()}
            arrays = [array.tolist() for array in (rewards, terminated, truncated)]
            self._hash.update(repr((observations, arrays, infos)).encode())
        return spent


_under_way: list[Arm] = []
"""The arm of this process."""


def begin(name: str, n: int, megabytes: int | None) -> None:
    """Begin an arm in this process."""
    os.environ.pop(VARIABLE, None)
    if megabytes is not None:
        os.environ[VARIABLE] = str(megabytes)
    _under_way.append(Arm(name, n))


def one_round(seconds: float) -> Round:
    return _under_way[0].round(seconds)


def kept() -> dict[str, Any]:
    return _under_way[0].kept()


Found = dict[str, list[Round]]
Kept = dict[str, dict[str, Any]]


def measure(n: int, small: int, seconds: float, rounds: int) -> tuple[Found, Kept]:
    """The rounds of each arm, and what it kept."""
    bounds = {"ours": None, "gymnasium": None, "small": small}
    found: Found = {name: [] for name in bounds}
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(ProcessPoolExecutor(1, context, initializer=begin, initargs=(name, n, megabytes)))
            for name, megabytes in bounds.items()
        }
        for process in processes.values():
            process.submit(kept).result()  # it has met every game
        for number in range(rounds):
            for name in list(bounds) if number % 2 else reversed(bounds):
                found[name].append(processes[name].submit(one_round, seconds).result())
        return found, {name: process.submit(kept).result() for name, process in processes.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=64, help="environments (default 64)")
    parser.add_argument("--seconds", type=float, default=4.0, help="CPU seconds of a round (default 4)")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="rounds of an arm (default 5)")
    parser.add_argument("--small", type=int, default=48, help="MB of the arm with little memory (default 48)")
    given = parser.parse_args()
    found, arms = measure(given.n, given.small, given.seconds, given.rounds)
    for name, row in arms.items():
        each = [cpu_rate(round_) for round_ in found[name]]
        print(f"{name:10}{statistics.median(each):10,.0f} steps a CPU second ", end="")
        print(f"[{min(each):,.0f}, {max(each):,.0f}], ", end="")
        print(f"{row['mb'][1]:.0f} MB, {row['kept']} things of {row['kept_mb']:.0f} MB kept", flush=True)
    record = {
        "name": f"make_vec, {given.n} environments, random actions",
        "unit": "steps/s",
        **rates(found["ours"], found["small"]),
        "n": int(sum(round_.work for round_ in found["ours"])),
        "gymnasium": rates(found["ours"], found["gymnasium"]),
        "same": len({row["hash"] for row in arms.values()}) == 1,
        "arms": arms,
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
