"""Episodes on Ray: actors on this machine or on the nodes of a cluster, each with its own environment.

A thread of this process drives each actor. It records an episode's result before it sends the actor the next episode,
so at most one episode per actor is in progress. A Ray started here ends with this process and listens on the loopback
interface only. A Ray that was running before stays as it was, without our actors. Actors are reused by the next batch
of this process (`close_ray` ends them). Not here: what an actor does (`remote.py`).
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from align_echo.agents.players import WORKERS_WITH_LOCAL_MODEL, AgentChoice, workers_for
from align_echo.agents.spec import check_agent
from align_echo.base import halting
from align_echo.base.halting import check_halt
from align_echo.errors import EngineError, MissingExtraError, UsageError, first_line, require
from align_echo.models.local import CONVERSATIONS
from align_echo.rollout.batches import LocalHost, play_batch
from align_echo.rollout.faults import FirstReplies
from align_echo.rollout.session import Episode
from align_echo.types import Agent, Trajectory
from align_echo.version import __version__
from align_echo.workers.remote import EpisodeActor, LostError, RemoteHost
from align_echo.workers.shipping import RolloutSpec, pack

POLL = 0.2
"""Seconds between checks for a halt while a thread waits for an actor."""

PATIENCE = 180.0
"""Seconds that an actor may take to start: a cluster may have to free resources first."""

LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""With 0 at import, Ray uses the address 127.0.0.1 and listens there only, on every system. Otherwise it uses the
machine's address, even if 127.0.0.1 is requested."""

ENDING = 5.0
"""Seconds that a Ray started here has to end its processes."""
CLIENT = "ray://"
"""Prefix of an address that is used through Ray's client."""

STORE = 100 * 2**20
"""Bytes of shared memory for results in transit, which are small and few."""


def play_on_ray(
    address: str,
    count: int | None,
    work: RolloutSpec,
    tasks: Sequence[str | Episode],
    *,
    on_trajectory: Callable[[Trajectory], object],
    say: Callable[[str], None],
    first_replies: FirstReplies | None = None,
) -> None:
    """Play tasks as `choice.play_tasks` does, on `count` Ray actors (None: one per CPU).

    Raises `UsageError` if Ray cannot be reached, has no room, or runs another version of align-echo.
    """
    check_agent(work.agent)
    if not tasks:
        return
    packed, models = pack(work)
    pool = _actor_pool(address, count)
    lock = threading.Lock()

    def say_locked(line: str) -> None:
        with lock:
            say(line)

    def record_locked(_: int, trajectory: Trajectory) -> None:
        with lock:
            on_trajectory(trajectory)

    play_batch(
        lambda: RemoteHost(work, packed, models, pool.link, say_locked),
        tasks,
        workers=pool.count,
        on_end=record_locked,
        first_replies=first_replies,
    )


class _ActorPool:
    """The actors of one Ray: the idle actors, and how to start more."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.count = 0
        self._share = 0.0
        self._room = True
        self._lock = threading.Lock()
        self._free: list[Any] = []

    def resize(self, count: int | None) -> None:
        """Share the current CPUs among `count` actors. Idle actors with another share are ended."""
        cpus = self.ray.cluster_resources().get("CPU", 0.0)
        wanted = count or max(1, int(cpus))
        if wanted != self.count:
            self.close()
            self._room = True
        self.count, self._share = wanted, round(min(1.0, cpus / wanted), 4)

    def link(self) -> _RayLink:
        """Connect to a live idle actor, or to a new actor.

        Raises `LostError`, and `UsageError` if Ray has no room or runs another version of align-echo.
        """
        while True:
            with self._lock:
                free = self._free.pop() if self._free else None
            link = _RayLink(self, self._start_actor() if free is None else free)
            try:
                version = link.call("version", patience=PATIENCE)
                if version != __version__:
                    raise UsageError(f"a node of Ray has align-echo {version}, not {__version__}: install the same")
                return link
            except BaseException as error:
                link.close(reusable=False)
                if free is None or not isinstance(error, LostError):
                    raise

    def _start_actor(self) -> Any:
        """Start an actor. After a loss, new actors reserve no CPU: there may be none left, and they must not wait for
        one.
        """
        actor = self.ray.remote(EpisodeActor).options(
            num_cpus=self._share if self._room else 0, scheduling_strategy="SPREAD", max_restarts=0
        )
        return actor.remote()

    def give_back(self, actor: Any) -> None:
        with self._lock:
            self._free.append(actor)

    def saw_loss(self) -> None:
        """Note that an actor is lost: there may be no CPU left to reserve."""
        self._room = False

    def end(self, actor: Any) -> None:
        """Kill an actor that is lost or in the middle of an episode."""
        self.ray.kill(actor)

    def close(self) -> None:
        """Kill the idle actors."""
        with self._lock:
            actors, self._free = self._free, []
        for actor in actors:
            self.ray.kill(actor)


class _RayLink:
    """A `Link` to an actor of Ray."""

    def __init__(self, pool: _ActorPool, actor: Any) -> None:
        self._pool = pool
        self._actor = actor

    def call(self, method: str, *arguments: object, patience: float = float("inf")) -> Any:
        ray = self._pool.ray
        lost = (
            *(ray.exceptions.RayActorError, ray.exceptions.ObjectLostError, ray.exceptions.NodeDiedError),
            *(ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError),
        )
        try:
            answer = getattr(self._actor, method).remote(*arguments)
            while not ray.wait([answer], timeout=POLL)[0]:
                check_halt()
                patience -= POLL
                if patience < 0:
                    raise UsageError(
                        f"Ray had no room for one of {self._pool.count} workers within {PATIENCE:g} s: ask for fewer"
                    )
            return ray.get(answer)
        except lost as error:
            self._pool.saw_loss()
            raise LostError(f"{type(error).__name__}: {first_line(error)}") from error
        except (ConnectionError, ray.exceptions.RaySystemError) as error:
            raise EngineError(f"the connection to Ray was lost: {first_line(error)}") from error

    def close(self, *, reusable: bool) -> None:
        if reusable:
            self._pool.give_back(self._actor)
        else:
            self._pool.end(self._actor)


# ---------------------------------------------------------------- starting


_starting = threading.Lock()
_pools: dict[str, _ActorPool] = {}


def _actor_pool(address: str, count: int | None) -> _ActorPool:
    with _starting:
        other_addresses = [
            used_address or "this machine"
            for used_address, pool in _pools.items()
            if used_address != address and pool.ray.is_initialized()
        ]
        if other_addresses:
            raise UsageError(
                f"this process plays on the Ray of {other_addresses[0]}: another one needs a process of its own"
            )
        pool = _pools.get(address)
        if pool is None or not pool.ray.is_initialized():
            pool = _pools[address] = _ActorPool(_connected(address, count))
        pool.resize(count)
        return pool


def close_ray() -> None:
    """End the actors that wait for the next batch. A Ray started here ends with the process."""
    with _starting:
        for pool in _pools.values():
            pool.close()
        _pools.clear()


def _connected(address: str, count: int | None) -> Any:
    """Connect to Ray and return the module `ray`. Raises `UsageError` and `MissingExtraError`."""
    target = address or os.environ.get("RAY_ADDRESS", "")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics leave the machine
    if not target:
        os.environ.setdefault(LOOPBACK, "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("playing on Ray", "ray") from error
    if ray.is_initialized():
        return ray
    halting.take_time(ENDING)
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if not target.startswith(CLIENT):
        # Marked as a client's job, Ray does not put the current folder first on its workers' path.
        quiet["job_config"] = ray.job_config.JobConfig(_client_job=True)
    previous_handler = signal.getsignal(signal.SIGTERM)
    try:
        if target:
            ray.init(target, **quiet)
        else:
            ray.init(
                "local",
                num_cpus=count,
                object_store_memory=STORE,
                include_dashboard=False,
                **quiet,
            )
    except Exception as error:  # Ray raises a bare Exception if a node does not start in time
        where = f"at {target}" if target else "on this machine"
        raise UsageError(f"Ray {where} cannot be used: {first_line(error)}") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, previous_handler)  # Ray's own handler prints nothing
    return ray


# ---------------------------------------------------------------- choice

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

    Raises `UsageError` for `processes:N` if no process of this machine runs the player's model, and for more threads
    than conversations that a model in this process holds.
    """
    if requested is None:
        return ThreadWorkers(workers_for(player))
    computed = player.model is not None and player.model.runs_on_transformers
    if isinstance(requested, ThreadWorkers) and computed and requested.threads > CONVERSATIONS:
        raise UsageError(
            f"--workers {requested.threads}: the model {player.model} holds {CONVERSATIONS} conversations at once: "
            "take no more, or processes:N"
        )
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
    first_replies: FirstReplies | None = None,
) -> None:
    """Play tasks as `rollout.run_tasks` does, on any kind of workers; `on_trajectory` receives each episode as it
    ends.

    `say` receives a line, on any thread, about each lost worker. On Ray, `first_replies` hears episodes as they end.
    """
    if isinstance(workers, ThreadWorkers | ProcessWorkers):
        check_agent(agent)
        play_batch(
            lambda: LocalHost(make_env(), agent, split, action_format, seed, first_replies),
            tasks,
            workers=workers.threads,
            on_end=lambda _, trajectory: on_trajectory(trajectory),
            first_replies=first_replies,
        )
        return
    from align_echo.workers.shipping import RolloutSpec

    work = RolloutSpec(make_env, agent, split, action_format, seed)
    play_on_ray(
        workers.address,
        workers.count,
        work,
        tasks,
        on_trajectory=on_trajectory,
        say=say,
        first_replies=first_replies,
    )
