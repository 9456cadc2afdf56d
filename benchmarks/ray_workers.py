"""What actors on Ray play beside threads, and what a killed node costs: `python -m benchmarks.ray_workers`.

Needs the extra `ray`; without it the line says what is `missing`. Starts a cluster on this machine (a head without
CPUs, two nodes with two each) and plays tasks of ALFWorld under its probe interface, in alternating rounds, on 1, 2 and
4 threads and actors: with the scripted novice, which only computes, and with a chat agent whose scripted model takes a
while for each reply. Actors are warm: each has played before, and they run at the threads' priority. Then one of the
nodes is killed in mid-run, and the figures and every trajectory are compared with those of an undisturbed run. Prints
tables, then one JSON line: `value` is episodes a second of the novice on 4 actors, `baseline` on 4 threads, the rest as
in `rounds.py`, with the CPU seconds of all processes that Ray started and that were still there, `slow_model` the same
of the chat agent; `killed_node` tells of the second part.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from align_echo.agents.novice_model import NoviceModel
from align_echo.agents.players import build_agent, choose_agent
from align_echo.agents.spec import AgentSetting
from align_echo.agents.vanilla import Vanilla
from align_echo.errors import install_line
from align_echo.evaluate.comparison import compare, run_variant
from align_echo.evaluate.selection import pick_tasks
from align_echo.halting import pause
from align_echo.progress import Progress
from align_echo.session import Episode
from align_echo.types import Agent, Completion, Message, Trajectory
from align_echo.workers.choice import RayWorkers, ThreadWorkers, Workers
from align_echo.wrappers.catalogue import environment
from benchmarks.processes import cpu_since, family_cpu
from benchmarks.rounds import Round, at_least_one, rate, rates

SPEC = environment("alfworld")
SPLIT = "valid_unseen"
INTERFACE = SPEC.interface("probe")
COUNTS = (1, 2, 4)

NICENESS = "RAY_worker_niceness"
"""Ray gives its workers a low priority otherwise, which threads have not."""


class SlowModel:
    """The scripted novice as a chat model that takes so many seconds for a reply."""

    name = "slow-novice"

    def __init__(self, seconds: float) -> None:
        self._novice = NoviceModel(SPEC.name, "novice", seed=0)
        self._seconds = seconds

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """The novice's reply, after a while."""
        pause(self._seconds)
        return self._novice.complete(messages, temperature=temperature, max_tokens=max_tokens)


class Losses(Progress):
    """Counts what was played again."""

    def __init__(self) -> None:
        self.again = 0
        self.begun_again = 0

    def say(self, text: str) -> None:
        """A line about workers."""
        self.again += "played again" in text
        self.begun_again += "as it began" in text


def play(
    workers: Workers,
    agent: Agent,
    tasks: Sequence[str],
    on_trajectory: Callable[[Trajectory], None] | None = None,
    progress: Progress | None = None,
) -> list[Trajectory]:
    """The episodes of the tasks, in order."""
    played: dict[str, Trajectory] = {}

    def ended(trajectory: Trajectory) -> None:
        played[trajectory.task_id] = trajectory
        if on_trajectory is not None:
            on_trajectory(trajectory)

    run_variant(
        SPEC,
        agent,
        INTERFACE,
        [Episode(task) for task in tasks],
        split=SPLIT,
        workers=workers,
        on_trajectory=ended,
        progress=progress or Progress(),
    )
    return [played[task] for task in tasks]


def throughput(title: str, agent: Agent, tasks: list[str], rounds: int) -> dict[str, Any]:
    """Episodes a second by kind and number of workers, printed: what the JSON line says of the most workers."""
    played: dict[tuple[str, int], list[Round]] = {}
    for _ in range(rounds):
        for count in COUNTS:
            for kind, workers in (("threads", ThreadWorkers(count)), ("actors", RayWorkers("", count))):
                if kind == "actors":
                    play(workers, agent, tasks[:count])  # each has begun
                busy, start = family_cpu(), time.perf_counter()
                play(workers, agent, tasks)
                spent = Round(len(tasks), time.perf_counter() - start, cpu_since(busy))
                played.setdefault((kind, count), []).append(spent)
    print(f"\n{title}: episodes a second, {len(tasks)} episodes, median [slowest, fastest] of {rounds} rounds")
    print(f"{'at once':>8} {'threads':>22} {'actors':>22} {'ratio':>7} {'ratio a CPU s':>14}")
    for count in COUNTS:
        shown = [
            f"{statistics.median(each):.2f} [{min(each):.2f}, {max(each):.2f}]"
            for kind in ("threads", "actors")
            for each in ([rate(spent) for spent in played[kind, count]],)
        ]
        compared = rates(played["actors", count], played["threads", count])
        print(f"{count:>8} {shown[0]:>22} {shown[1]:>22} {compared['ratio']:7.2f} {compared['cpu_ratio']:14.2f}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return rates(played["actors", COUNTS[-1]], played["threads", COUNTS[-1]])


def kill_a_node(cluster: Any, agent: Agent, tasks: list[str]) -> dict[str, object]:
    """Play with a node killed when a third of the episodes has ended; how the result differs from an undisturbed one.
    """
    undisturbed = play(ThreadWorkers(1), agent, tasks)
    play(RayWorkers("", 4), agent, tasks[:4])
    losses, ended, killing = Losses(), list[Trajectory](), threading.Event()

    def kill() -> None:
        killing.wait()
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    def count(trajectory: Trajectory) -> None:
        ended.append(trajectory)
        if len(ended) == len(tasks) // 3:
            killing.set()

    killer = threading.Thread(target=kill)
    killer.start()
    start = time.perf_counter()
    played = play(RayWorkers("", 4), agent, tasks, count, losses)
    took = time.perf_counter() - start
    killer.join()
    tables = [compare(SPEC, {"full": episodes}).model_dump_json() for episodes in (undisturbed, played)]
    return {
        "episodes": len(played),
        "reported": len(ended),
        "played_again": losses.again,
        "lost_as_they_began": losses.begun_again,
        "faults": sum(trajectory.fault is not None for trajectory in played),
        "equal_table": tables[0] == tables[1],
        "equal_trajectories": played == undisturbed,
        "seconds": round(took, 1),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=24, help="episodes of each measurement (default 24)")
    parser.add_argument("--killed-tasks", type=int, default=134, help="episodes of the run with a killed node")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="rounds, of which the median counts (default 5)")
    parser.add_argument("--wait", type=float, default=0.05, help="seconds of the slow model's reply (default 0.05)")
    given = parser.parse_args()
    os.environ[NICENESS] = "0"
    if find_spec("ray") is None:
        nothing = {"value": None, "baseline": None, "ratio": None, "n": 0, "missing": install_line("ray")}
        print(json.dumps({"name": "ray_workers", "unit": "episodes/s", **nothing}))
        return
    import ray
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small})
    for _ in range(2):
        cluster.add_node(num_cpus=2, **small)
    ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)

    tasks = pick_tasks(SPEC.tasks(SPLIT), None, task_type=SPEC.task_type, seed=0)
    novice = build_agent(choose_agent("novice", None).agent, AgentSetting(SPEC, SPLIT))
    computing = throughput("the scripted novice", novice, tasks[: given.tasks], given.rounds)
    slow = Vanilla(SlowModel(given.wait))
    waits = throughput(f"a model that takes {1e3 * given.wait:g} ms", slow, tasks[: given.tasks // 3], given.rounds)
    killed = kill_a_node(cluster, novice, tasks[: given.killed_tasks])
    print("\na node killed in mid-run:", ", ".join(f"{key} {value}" for key, value in killed.items()))
    figure = {
        "name": "ray_workers",
        "unit": "episodes/s",
        **computing,
        "n": given.rounds * given.tasks,
        "slow_model": waits,
        "killed_node": killed,
    }
    ray.shutdown()
    cluster.shutdown()
    print(json.dumps(figure))


if __name__ == "__main__":
    main()
