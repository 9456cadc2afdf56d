"""Threads, processes or Ray: what `--workers` names (`read_workers`), and where it matters (`play_tasks`).

Left out: playing on threads (`rollout.py`) and on Ray (`ray_cluster.py`), and the processes that compute a model
(`models/local/engine_process.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gymnasium as gym

from align_echo.agents.players import WORKERS_WITH_LOCAL_MODEL, Player, workers_for
from align_echo.errors import UsageError, require
from align_echo.faults import check_agent
from align_echo.rollout import EnvironmentHere, play_batch
from align_echo.session import Episode
from align_echo.types import Agent, Trajectory

FORMS = "a number of threads, or processes:N, ray, ray:ACTORS, ray://HOST:PORT or ray://HOST:PORT/ACTORS"
_PROCESSES = re.compile(r"processes:([1-9]\d{0,2})")
_HERE = re.compile(r"ray(?::([1-9]\d{0,5}))?")
_THERE = re.compile(r"(ray://(?:\[[^\]\s]+\]|[^\[\]/:\s]+):\d+)(?:/([1-9]\d{0,5}))?")


@dataclass(frozen=True)
class Threads:
    """So many threads of this process."""

    count: int = 1

    @property
    def threads(self) -> int:
        """How many threads of this process work at once."""
        return self.count

    model_processes = 0


@dataclass(frozen=True)
class Processes:
    """So many processes that each compute the local model; threads of this process play the episodes."""

    count: int

    @property
    def threads(self) -> int:
        """How many threads of this process work at once: for each process as many as a local model answers best."""
        return self.count * WORKERS_WITH_LOCAL_MODEL

    @property
    def model_processes(self) -> int:
        """How many processes compute a local model beside this one."""
        return self.count


@dataclass(frozen=True)
class RayActors:
    """Actors of Ray: at an address ("" for the cluster that `RAY_ADDRESS` names, else one of this machine's own).

    `count` None: one for each CPU.
    """

    address: str = ""
    count: int | None = None

    @property
    def threads(self) -> int:
        """How many threads of this process work at once on what is not played on actors."""
        return self.count or 8

    model_processes = 0


Workers = Threads | Processes | RayActors

ONE_THREAD = Threads()


def read_workers(given: int | str | None) -> Workers | None:
    """What a user says of workers; None for nothing said. Raises `UsageError`, and `MissingExtraError` without Ray."""
    if given is None:
        return None
    text = str(given).strip()
    if text.isdecimal() and len(text) <= 6 and int(text) > 0:
        return Threads(int(text))
    if (processes := _PROCESSES.fullmatch(text)) is not None:
        return Processes(int(processes[1]))
    here, there = _HERE.fullmatch(text), _THERE.fullmatch(text)
    if not (here or there):
        raise UsageError(f"--workers is {FORMS}, not {text!r}")
    require(f"--workers {text}", "ray", ("ray", "cloudpickle"))
    address, count = ("", here[1]) if here else (there[1], there[2]) if there else ("", None)
    return RayActors(address, int(count) if count else None)


def workers_of(given: Workers | None, player: Player) -> Workers:
    """The workers that a player plays on, where it is said (None: it is not) and where not.

    Raises `UsageError` for processes to compute a model that no process of this machine computes.
    """
    if given is None:
        return Threads(workers_for(player))
    if isinstance(given, Processes) and not (player.model and player.model.runs_on_transformers):
        asks = f"asks the model {player.model}" if player.model else "asks no model"
        raise UsageError(
            f"--workers processes:{given.count} computes a local model in processes of its own, and the agent "
            f"{player.agent.name} {asks}: give a number of threads, or ray"
        )
    return given


def play_tasks(
    workers: Workers,
    make_env: Callable[[], gym.Env[str, str]],
    agent: Agent,
    tasks: Sequence[str | Episode],
    *,
    split: str,
    action_format: str = "",
    seed: int = 0,
    on_trajectory: Callable[[Trajectory], object],
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Play tasks as `rollout.run_tasks`, on whatever workers; `on_trajectory` takes each episode as it ends.

    `say` is told, on any thread, of workers that were lost.
    """
    if isinstance(workers, Threads | Processes):
        check_agent(agent)
        play_batch(
            lambda: EnvironmentHere(make_env(), agent, split, action_format, seed),
            tasks,
            workers=workers.threads,
            on_end=lambda _, trajectory: on_trajectory(trajectory),
        )
        return
    from align_echo.workers.ray_cluster import play_on_ray
    from align_echo.workers.shipping import Work

    work = Work(make_env, agent, split, action_format, seed)
    play_on_ray(workers.address, workers.count, work, tasks, on_trajectory=on_trajectory, say=say)
