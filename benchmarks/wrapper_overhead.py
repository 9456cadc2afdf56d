"""What an interface costs per step beyond the engine: `python -m benchmarks.wrapper_overhead [--tasks N]`.

Plays ALFWorld tasks (the expert's actions with others mixed in) three times in one process: without an interface, with
the one that changes nothing, and with a stateful one of about 100 lines. Time inside the engine (the agent's action and
probes) is taken off. Prints a table, then one JSON line for the stateful interface: `value` is the median overhead,
`baseline` the raw environment's median step, `ratio` their quotient.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

from align_echo.interface import Interface, identity, load_interface
from align_echo.wrappers import catalogue
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv

ENVIRONMENT = "alfworld"
OTHERS = ("look", "inventory", "go to fridge 1", "open drawer 1", "take mug 1 from desk 1", "examine desk 1", "dance")


class EngineClock(gym.Wrapper[str, str, str, str]):
    """Adds up the seconds spent in the engine below an `AlignWrapper`."""

    def __init__(self, env: gym.Env[str, str]) -> None:
        super().__init__(env)
        self.seconds = 0.0
        base = env.unwrapped
        assert isinstance(base, TextEnv)
        for name in ("probe", "pass_turn"):
            setattr(base, name, self._timed(getattr(base, name)))

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*arguments)
            finally:
                self.seconds += time.perf_counter() - start

        return timed

    def step(self, action: str) -> Any:
        """The environment's step, timed."""
        return self._timed(self.env.step)(action)


def play_raw(tasks: list[str]) -> tuple[dict[str, list[str]], list[float]]:
    """The actions of every task and the seconds of each raw step."""
    env = catalogue.make(ENVIRONMENT, split="valid_unseen")
    base = env.unwrapped
    assert isinstance(base, TextEnv)
    played: dict[str, list[str]] = {}
    seconds: list[float] = []
    for task in tasks:
        chance = random.Random(task)
        env.reset(options={"task": task})
        played[task] = []
        over = False
        while not over:
            expert = base.oracle().expert_action() if chance.random() < 0.6 else None
            action = expert or chance.choice(OTHERS)
            start = time.perf_counter()
            _, _, terminated, truncated, _ = env.step(action)
            seconds.append(time.perf_counter() - start)
            played[task].append(action)
            over = terminated or truncated
    env.close()
    return played, seconds


def play_wrapped(played: dict[str, list[str]], interface: Interface) -> list[float]:
    """Seconds of each step beyond the engine. Ends with an error if the interface failed on any of them."""
    clock = EngineClock(catalogue.make(ENVIRONMENT, split="valid_unseen"))
    env = AlignWrapper(clock, interface)
    seconds: list[float] = []
    for task, actions in played.items():
        env.reset(options={"task": task})
        for action in actions:
            clock.seconds, start = 0.0, time.perf_counter()
            _, _, terminated, truncated, info = env.step(action)
            seconds.append(time.perf_counter() - start - clock.seconds)
            if info["interface_error"]:
                raise SystemExit(f"the interface failed: {info['interface_error']}")
            if terminated or truncated:
                break
    env.close()
    return seconds


def row(name: str, seconds: list[float]) -> str:
    """One line of the table, in milliseconds."""
    p99 = sorted(seconds)[int(0.99 * (len(seconds) - 1))]
    return f"{name:<28} {1e3 * statistics.median(seconds):8.3f} {1e3 * p99:8.3f} {len(seconds):6d}"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=18, help="how many tasks to play (default 18)")
    count = parser.parse_args().tasks
    spec = catalogue.environment(ENVIRONMENT)
    tasks = catalogue.tasks(ENVIRONMENT, split="valid_unseen")
    tasks = tasks[:: max(1, len(tasks) // count)][:count]
    stateful = load_interface(Path(__file__).with_name("stateful_interface.py"), spec.contract)

    played, raw = play_raw(tasks)
    unchanged = play_wrapped(played, identity(spec.contract))
    seconds = play_wrapped(played, stateful)
    print(f"{'milliseconds per step':<28} {'median':>8} {'p99':>8} {'n':>6}")
    print(row("raw environment", raw))
    print(row("beyond it: identity", unchanged))
    print(row("beyond it: stateful", seconds))
    value, baseline = 1e3 * statistics.median(seconds), 1e3 * statistics.median(raw)
    figure = {
        "name": "wrapper_overhead",
        "value": round(value, 4),
        "unit": "ms",
        "baseline": round(baseline, 4),
        "ratio": round(value / baseline, 4),
        "n": len(seconds),
    }
    print(json.dumps(figure))


if __name__ == "__main__":
    main()
