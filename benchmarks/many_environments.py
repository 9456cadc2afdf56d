"""Many environments stepped in one process: `python -m benchmarks.many_environments [--n N] [--rounds R]`.

ALFWorld's 134 games of valid_unseen on auto-reset, all environments by chance among the admissible actions, so that no
lap is the one before it; choosing is not timed. Each plays until it met every game, and then rounds of --seconds
seconds:

    ours       `make_vec` with the default bound of what is kept in memory
    gymnasium  `SyncVectorEnv` over the same environments, in the same process, its rounds in turn with ours
    small      `make_vec` with room for --small MB of games, as if there were little memory, in a process of its own

Prints a table, then one JSON line: `value` is our steps a CPU second (median), `baseline` that of `small`; `interval`
is from the slowest round to the fastest, `mb` resident memory before and after, `same` whether all arms gave the same.
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
from pathlib import Path
from typing import Any

import gymnasium as gym

import align_echo
from align_echo.wrappers.memory import VARIABLE, memory

SPLIT = "valid_unseen"
TURNS = 20
HASHED = 400
"""Steps of all environments whose results are hashed, each in its turn."""


def resident() -> float:
    """Resident megabytes of this process (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def make(arm: str, n: int) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The environments of an arm."""
    if arm != "gymnasium":
        return align_echo.make_vec("alfworld", n=n, split=SPLIT, step_limit=TURNS)
    return gym.vector.SyncVectorEnv([lambda: align_echo.make("alfworld", split=SPLIT, step_limit=TURNS)] * n)


class Play:
    """An arm under way."""

    def __init__(self, envs: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        self._envs, self._dice = envs, random.Random(0)
        self._info = envs.reset(seed=0)[1]
        self.met: set[str] = set(self._info["task_id"])
        self.hash = hashlib.sha256()
        self._hashed = 0

    def step(self) -> tuple[float, float]:
        """One step of all: seconds by the clock and of CPU."""
        actions = tuple(self._dice.choice(listed or ("look",)) for listed in self._info["admissible_actions"])
        clock, cpu = time.perf_counter(), time.process_time()
        observations, rewards, terminated, truncated, self._info = self._envs.step(actions)
        spent = time.perf_counter() - clock, time.process_time() - cpu
        self.met.update(self._info["task_id"])
        if self._hashed < HASHED:
            self._hashed += 1
            infos = {key: (value.dtype.str, value.tolist()) for key, value in self._info.items()}
            arrays = [array.tolist() for array in (rewards, terminated, truncated)]
            self.hash.update(repr((observations, arrays, infos)).encode())
        return spent


def play(arms: list[str], n: int, megabytes: int | None, seconds: float, rounds: int) -> dict[str, Any]:
    """The figures of arms whose rounds take turns, by their names."""
    os.environ.pop(VARIABLE, None)
    if megabytes is not None:
        os.environ[VARIABLE] = str(megabytes)
    before = resident()
    playing = {arm: Play(make(arm, n)) for arm in arms}
    games = set(align_echo.tasks("alfworld", split=SPLIT))
    for played in playing.values():
        while not games <= played.met:
            played.step()
    measured: dict[str, list[tuple[int, float, float]]] = {arm: [] for arm in arms}
    for number in range(rounds):
        for arm in arms if number % 2 else reversed(arms):
            measured[arm].append(one_round(playing[arm], seconds, n))
    kept = memory()
    return {
        arm: {
            "steps_per_cpu_s": statistics.median(rates := [count / cpu for count, _, cpu in found]),
            "interval": [min(rates), max(rates)],
            "steps_per_s": statistics.median(count / clock for count, clock, _ in found),
            "cpu_s": seconds * rounds,
            "steps": sum(count for count, _, _ in found),
            "mb": [before, resident()],
            "kept_mb": kept.bytes / 1e6,
            "kept": len(kept),
            "hash": playing[arm].hash.hexdigest()[:16],
        }
        for arm, found in measured.items()
    }


def one_round(playing: Play, seconds: float, n: int) -> tuple[int, float, float]:
    """Steps of all `n` for so many CPU seconds: how many, seconds by the clock, CPU seconds."""
    clock, cpu, count = 0.0, 0.0, 0
    while cpu < seconds:
        by_clock, busy = playing.step()
        clock, cpu, count = clock + by_clock, cpu + busy, count + n
    return count, clock, cpu


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=64, help="environments (default 64)")
    parser.add_argument("--seconds", type=float, default=4.0, help="CPU seconds of a round (default 4)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of an arm (default 5)")
    parser.add_argument("--small", type=int, default=48, help="MB of the arm with little memory (default 48)")
    given = parser.parse_args()
    figures: dict[str, dict[str, Any]] = {}
    for arms, megabytes in ((["small"], given.small), (["gymnasium", "ours"], None)):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            figures |= pool.submit(play, arms, given.n, megabytes, given.seconds, given.rounds).result()
    for arm, row in figures.items():
        print(
            f"{arm:10}{row['steps_per_cpu_s']:10,.0f} steps a CPU second, {row['mb'][1]:.0f} MB, "
            f"{row['kept']} things of {row['kept_mb']:.0f} MB kept",
            flush=True,
        )
    rates = {arm: row["steps_per_cpu_s"] for arm, row in figures.items()}
    record = {
        "name": f"make_vec, {given.n} environments, random actions",
        "value": rates["ours"],
        "unit": "steps/CPU s",
        "baseline": rates["small"],
        "ratio": rates["ours"] / rates["small"],
        "ratio_gymnasium": rates["ours"] / rates["gymnasium"],
        "n": figures["ours"]["steps"],
        "same": len({row["hash"] for row in figures.values()}) == 1,
        "load": os.getloadavg()[0],
        "arms": figures,
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
