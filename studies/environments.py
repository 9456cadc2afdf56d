"""Every environment side by side: `python -m studies.environments [--env NAME ...] [--steps N] [--out DIR]`.

One row an environment, each measured in fresh processes: seconds to the first observation, steps a second of one
environment along the expert's episodes (tasks new to the process; choosing the action is not timed; the median of
--rounds rounds of different tasks), the first actions of each round in the engine's upstream wrapper where it is
installed (all its rounds after all of ours), median and 99th percentile of a reset, and resident memory that each
further open environment adds (Java processes included). Data that is written once to the cache was written before. An
environment that cannot be played here is a row that says why. Prints a table, then one JSON line: `value` is the steps
a second of the slowest environment, `baseline` upstream's for that one (null: none is installed), `environments` holds
every figure: `interval` and `upstream_interval` are from the slowest round to the fastest, `cpu_us_per_step` the CPU
time of this process for a step. `--out DIR` also gets it as summary.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import align_echo
from align_echo.base.files import write_atomically
from align_echo.errors import AlignEchoError
from align_echo.evaluate.plan import pick_tasks
from align_echo.rollout.session import base_env
from align_echo.wrappers.catalogue import environment, environments
from align_echo.wrappers.text_env import TextEnv
from studies.rounds import at_least_one, family_bytes, rounded

ENDLESS = 10**9
UPSTREAM_STEPS = 60
"""Steps of a round that are played in upstream's wrapper, at most."""

Script = list[tuple[str, list[str]]]
"""Tasks and the expert's actions on each."""

Step = Callable[[str], Any]
Start = Callable[[str], Step]
"""Begins an episode of a task in upstream's wrapper: what takes its actions."""


def make(name: str, engine: str | None = None) -> TextEnv:
    """A raw environment of the test split that no step limit ends."""
    return base_env(align_echo.make(name, split=environment(name).test_split, step_limit=ENDLESS, engine=engine))


def some_tasks(name: str, count: int) -> list[str]:
    """Test tasks, spread over the task types."""
    spec = environment(name)
    ids = align_echo.tasks(name, split=spec.test_split)
    return pick_tasks(ids, min(count, len(ids)), task_type=spec.task_type)


# ---------------------------------------------------------------- time


def reset_times(name: str, count: int) -> dict[str, Any]:
    """Seconds to the first observation of the process, and of every reset after it."""
    start = time.perf_counter()
    env = make(name)
    tasks = some_tasks(name, count + 1)
    env.reset(options={"task": tasks[0]})
    first = time.perf_counter() - start
    seconds = []
    for task in tasks[1:]:
        start = time.perf_counter()
        env.reset(options={"task": task})
        seconds.append(time.perf_counter() - start)
    env.close()
    return {"first": first, "resets": seconds}


def step_times(name: str, steps: int, rounds: int) -> list[dict[str, Any]]:
    """For each round the seconds of the steps of expert's episodes, `steps` or more in all if the split has them, CPU
    seconds, and the episodes."""
    env = make(name)
    tasks = some_tasks(name, steps + 1)
    expert_episode(env, tasks.pop(0))  # what is loaded with the first step
    measured: list[dict[str, Any]] = []
    while tasks and len(measured) < rounds:
        script: Script = []
        seconds, cpu, count = 0.0, 0.0, 0
        share = max(1, len(tasks) // (rounds - len(measured)))
        while tasks and len(script) < share and count < steps / rounds:
            task = tasks.pop(0)
            clock, busy, actions = expert_episode(env, task)
            seconds, cpu, count = seconds + clock, cpu + busy, count + len(actions)
            script.append((task, actions))
        measured.append({"seconds": seconds, "cpu": cpu, "steps": count, "script": script})
    env.close()
    return [row for row in measured if row["steps"]]


def expert_episode(env: TextEnv, task: str) -> tuple[float, float, list[str]]:
    """Seconds of the steps by the clock and of CPU, and the actions."""
    env.reset(options={"task": task})
    seconds, cpu, over = 0.0, 0.0, False
    actions: list[str] = []
    while not over and (action := env.oracle().expert_action()) is not None:
        start, busy = time.perf_counter(), time.process_time()
        _, _, terminated, truncated, _ = env.step(action)
        seconds, cpu = seconds + time.perf_counter() - start, cpu + time.process_time() - busy
        over = terminated or truncated
        actions.append(action)
    return seconds, cpu, actions


# ---------------------------------------------------------------- upstream's wrappers


@contextmanager
def alfworld_upstream(_: Script) -> Iterator[Start]:
    """TextWorld's own environment under ALFWorld's demangler."""
    env = make("alfworld", "textworld")

    def start(task: str) -> Step:
        env.reset(options={"task": task})
        return env.step

    yield start
    env.close()


@contextmanager
def scienceworld_upstream(_: Script) -> Iterator[Start]:
    """ScienceWorld's own Python environment."""
    from scienceworld import ScienceWorldEnv

    env = ScienceWorldEnv("", envStepLimit=ENDLESS)

    def start(task: str) -> Step:
        name, simplifications, variation = task.split("/")
        env.load(name, int(variation), simplifications.replace("+", ","))
        env.reset()
        step: Step = env.step
        return step

    yield start
    env.close()


@contextmanager
def textworldexpress_upstream(_: Script) -> Iterator[Start]:
    """TextWorldExpress' own Python environment."""
    from textworld_express import TextWorldExpressEnv

    env = TextWorldExpressEnv(envStepLimit=ENDLESS)

    def start(task: str) -> Step:
        game, seed = task.split("/")
        env.reset(seed=int(seed), gameFold="test", gameName=game, gameParams="")
        step: Step = env.step
        return step

    yield start
    env.close()


@contextmanager
def math_upstream(script: Script) -> Iterator[Start]:
    """Reading and checking of an answer by math-verify, in its caller's own process."""
    from math_verify import parse, verify

    gold_of = {task: actions[0] for task, actions in script}
    yield lambda task: lambda reply: verify(parse(gold_of[task]), parse(reply))


UPSTREAM: dict[str, Callable[[Script], AbstractContextManager[Start]]] = {
    "alfworld": alfworld_upstream,
    "scienceworld": scienceworld_upstream,
    "textworldexpress": textworldexpress_upstream,
    "math": math_upstream,
}
"""WebShop's needs Java, Lucene and a download; SearchQA has none."""


def upstream_rates(name: str, rounds: Sequence[Script]) -> list[float]:
    """Steps a second of upstream's wrapper, round by round, after an episode that is not timed."""
    episodes = [episode for script in rounds for episode in script]
    with UPSTREAM[name](episodes) as start:
        task, actions = episodes[-1]
        step = start(task)
        for action in actions:
            step(action)
        return [upstream_rate(start, script) for script in rounds]


def upstream_rate(start: Start, script: Script) -> float:
    """Of one round: of its first `UPSTREAM_STEPS` steps."""
    seconds, count = 0.0, 0
    for task, actions in script:
        if count >= UPSTREAM_STEPS:
            break
        step = start(task)
        for action in actions[: UPSTREAM_STEPS - count]:
            begun = time.perf_counter()
            step(action)
            seconds += time.perf_counter() - begun
            count += 1
    return count / seconds


# ---------------------------------------------------------------- memory


def bytes_each(name: str, count: int) -> float:
    """Resident bytes that each of `count` further open environments adds, processes that it starts included."""
    tasks = some_tasks(name, count + 1)
    envs = [make(name) for _ in tasks]
    _play_a_little(envs[0], tasks[0])
    before = family_bytes()
    for env, task in zip(envs[1:], tasks[1:], strict=True):
        _play_a_little(env, task)
    added = (family_bytes() - before) / (len(envs) - 1)
    for env in envs:
        env.close()
    return added


def _play_a_little(env: TextEnv, task: str) -> None:
    env.reset(options={"task": task})
    for _ in range(20):
        listed = (*(env.state.admissible_actions or ()), *env.contract.read_only_actions)
        env.step(listed[0] if listed else env.oracle().expert_action() or "")
        if env.state.done:
            env.reset(options={"task": task})


# ---------------------------------------------------------------- all of it


def fresh(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, or raises, in a process of its own; an extra that it lacks is an `ImportError`."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_call, call, arguments).result()


def _call(call: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    try:
        return call(*arguments)
    except AlignEchoError as error:  # of which not all survive the way between processes
        raise ImportError(str(error)) from None


def measure(name: str, steps: int, resets: int, further: int, rounds: int) -> dict[str, Any]:
    """The figures of one environment. Raises `ImportError` for one that cannot be played here."""
    fresh(reset_times, name, resets)  # what is built once on disk
    started = fresh(reset_times, name, resets)
    stepped = fresh(step_times, name, steps, rounds)
    upstream = fresh(upstream_rates, name, [row["script"] for row in stepped]) if name in UPSTREAM else []
    rates = [row["steps"] / row["seconds"] for row in stepped]
    rate, count = statistics.median(rates), sum(row["steps"] for row in stepped)
    ordered = sorted(started["resets"])
    return {
        "first_observation_s": started["first"],
        "steps_per_s": rate,
        "interval": [min(rates), max(rates)],
        "rounds": len(rates),
        "cpu_us_per_step": 1e6 * sum(row["cpu"] for row in stepped) / count,
        "steps": count,
        "upstream_steps_per_s": statistics.median(upstream) if upstream else None,
        "upstream_interval": [min(upstream), max(upstream)] if upstream else None,
        "ratio": rate / statistics.median(upstream) if upstream else None,
        "reset_p50_ms": 1e3 * statistics.median(ordered),
        "reset_p99_ms": 1e3 * ordered[int(0.99 * (len(ordered) - 1))],
        "resets": len(ordered),
        "mb_per_further": fresh(bytes_each, name, further) / 1e6,
        "further": further,
    }


def main() -> None:
    """Measure the environments and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", action="append", choices=list(environments()), help="only this one; may be repeated")
    parser.add_argument("--steps", type=int, default=400, help="steps that are timed, at least (default 400)")
    parser.add_argument("--resets", type=int, default=40, help="resets that are timed, at most (default 40)")
    parser.add_argument("--further", type=int, default=4, help="environments opened beside the first (default 4)")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="rounds that the steps are timed in (default 5)")
    parser.add_argument("--out", type=Path, help="folder for summary.json")
    given = parser.parse_args()
    figures: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    for name in given.env or environments():
        print(f"measuring {name}", file=sys.stderr, flush=True)
        try:
            figures[name] = measure(name, given.steps, given.resets, given.further, given.rounds)
        except ImportError as error:
            missing[name] = str(error)
    if not figures:
        raise SystemExit("no environment can be played here: " + "; ".join(missing.values()))
    _print_table(figures)
    for name, reason in missing.items():
        print(f"{name:14}  not measured: {reason}")
    slowest = min(figures.values(), key=lambda row: row["steps_per_s"])
    record = {
        "name": "environments, steps of the slowest",
        "value": slowest["steps_per_s"],
        "unit": "steps/s",
        "baseline": slowest["upstream_steps_per_s"],
        "ratio": slowest["ratio"],
        "n": slowest["steps"],
        "interval": slowest["interval"],
        "load": os.getloadavg()[0],
        "environments": {**figures, **{name: {"missing": reason} for name, reason in missing.items()}},
    }
    line = json.dumps(rounded(record))
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        write_atomically(given.out / "summary.json", line + "\n")
    print(line)


def _print_table(figures: dict[str, dict[str, Any]]) -> None:
    headings = ("first obs., s", "steps/s", "n", "upstream", "ratio", "reset p50, ms", "p99, ms", "n", "MB a further")
    keys = (
        *("first_observation_s", "steps_per_s", "steps", "upstream_steps_per_s", "ratio"),
        *("reset_p50_ms", "reset_p99_ms", "resets", "mb_per_further"),
    )
    print(f"{'':14}" + "".join(f"{heading:>14}" for heading in headings))
    for name, row in figures.items():
        cells = [row[key] for key in keys]
        print(f"{name:14}" + "".join(f"{'-' if cell is None else f'{cell:,.5g}':>14}" for cell in cells))


if __name__ == "__main__":
    main()
