"""Parse `--workers` (`read_workers`) and play tasks on threads, processes or Ray (`play_tasks`).

Not here: playing on threads (`rollout.py`) and on Ray (`ray_cluster.py`), and the processes that run a model
(`models/local/engine_process.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gymnasium as gym

from align_echo.agents.players import WORKERS_WITH_LOCAL_MODEL, AgentChoice, workers_for
from align_echo.errors import UsageError, require
from align_echo.faults import check_agent
from align_echo.rollout import LocalHost, play_batch
from align_echo.session import Episode
from align_echo.types import Agent, Trajectory

FORMS = "a number of threads, or processes:N, ray, ray:ACTORS, ray://HOST:PORT or ray://HOST:PORT/ACTORS"
_PROCESSES = re.compile(r"processes:([1-9]\d{0,2})")
_LOCAL_RAY = re.compile(r"ray(?::([1-9]\d{0,5}))?")
_REMOTE_RAY = re.compile(r"(ray://(?:\[[^\]\s]+\]|[^\[\]/:\s]+):\d+)(?:/([1-9]\d{0,5}))?")


@dataclass(frozen=True)
class ThreadWorkers:
    """Worker threads of this process."""

    count: int = 1

    @property
    def threads(self) -> int:
        """Number of threads of this process used at once."""
        return self.count

    model_processes = 0


@dataclass(frozen=True)
class ProcessWorkers:
    """Processes that each run the local model, while threads of this process play the episodes."""

    count: int

    @property
    def threads(self) -> int:
        """Number of threads of this process used at once: per model process, the best number for a local model."""
        return self.count * WORKERS_WITH_LOCAL_MODEL

    @property
    def model_processes(self) -> int:
        """Number of model processes, besides this one."""
        return self.count


@dataclass(frozen=True)
class RayWorkers:
    """Ray actors. `address` "" means the cluster of `RAY_ADDRESS`, or else a local Ray started by this process.

    `count` None: one actor per CPU.
    """

    address: str = ""
    count: int | None = None

    @property
    def threads(self) -> int:
        """Number of threads of this process used at once for everything not played on actors."""
        return self.count or 8

    model_processes = 0


Workers = ThreadWorkers | ProcessWorkers | RayWorkers

ONE_THREAD = ThreadWorkers()


def read_workers(value: int | str | None) -> Workers | None:
    """Parse the value of `--workers`; None stays None.

    Raises `UsageError` for an unknown form and `MissingExtraError` if Ray is not installed.
    """
    if value is None:
        return None
    text = str(value).strip()
    if text.isdecimal() and len(text) <= 6 and int(text) > 0:
        return ThreadWorkers(int(text))
    if (processes := _PROCESSES.fullmatch(text)) is not None:
        return ProcessWorkers(int(processes[1]))
    local, remote = _LOCAL_RAY.fullmatch(text), _REMOTE_RAY.fullmatch(text)
    if not (local or remote):
        raise UsageError(f"--workers is {FORMS}, not {text!r}")
    require(f"--workers {text}", "ray", ("ray", "cloudpickle"))
    address, count = ("", local[1]) if local else (remote[1], remote[2]) if remote else ("", None)
    return RayWorkers(address, int(count) if count else None)


def choose_workers(requested: Workers | None, player: AgentChoice) -> Workers:
    """Return the requested workers, or the player's default number of threads if `requested` is None.

    Raises `UsageError` for `processes:N` if no process of this machine runs the player's model.
    """
    if requested is None:
        return ThreadWorkers(workers_for(player))
    if isinstance(requested, ProcessWorkers) and not (player.model and player.model.runs_on_transformers):
        asks = f"asks the model {player.model}" if player.model else "asks no model"
        raise UsageError(
            f"--workers processes:{requested.count} computes a local model in processes of its own, and the agent "
            f"{player.agent.name} {asks}: give a number of threads, or ray"
        )
    return requested


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
    """Play tasks as `rollout.run_tasks` does, on any kind of workers; `on_trajectory` receives each episode as it
    ends.

    `say` receives a line, on any thread, about each lost worker.
    """
    if isinstance(workers, ThreadWorkers | ProcessWorkers):
        check_agent(agent)
        play_batch(
            lambda: LocalHost(make_env(), agent, split, action_format, seed),
            tasks,
            workers=workers.threads,
            on_end=lambda _, trajectory: on_trajectory(trajectory),
        )
        return
    from align_echo.workers.ray_cluster import play_on_ray
    from align_echo.workers.shipping import RolloutSpec

    work = RolloutSpec(make_env, agent, split, action_format, seed)
    play_on_ray(workers.address, workers.count, work, tasks, on_trajectory=on_trajectory, say=say)
