"""Episodes on Ray: actors on this machine or on the nodes of a cluster, each of which holds an environment.

A thread of this process drives each actor and gives it the next episode as soon as it has ended one; its result is on
this process's record before that, so that at most one episode an actor is under way. A Ray that is started here ends
with this process and listens on the loopback alone; one that was there is left as it is, without our actors. Actors
stay for the next batch of the process (`close_ray` ends them). Left out: what an actor does (`remote.py`).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from align_echo import __version__, stopping
from align_echo.errors import EngineError, MissingExtraError, UsageError, first_line
from align_echo.faults import check_agent
from align_echo.halting import check_halt
from align_echo.rollout import play_batch
from align_echo.session import Episode
from align_echo.types import Trajectory
from align_echo.workers.remote import EpisodeActor, LostError, RemoteHost
from align_echo.workers.shipping import Work, pack

POLL = 0.2
"""Seconds after which a thread that waits for an actor looks whether the batch was given up."""

PATIENCE = 180.0
"""Seconds that an actor may take to begin: a cluster may have to make room for it."""

LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Where this is 0 when Ray is imported, it takes 127.0.0.1 for its address and listens there alone, on every system. It
takes the machine's own otherwise, even if it is told 127.0.0.1."""

ENDING = 5.0
"""Seconds in which a Ray that was started here ends its processes."""
CLIENT = "ray://"
"""What the address of a Ray begins with that is asked as a client."""

STORE = 100 * 2**20
"""Bytes of shared memory for results under way; they are small and few."""


def play_on_ray(
    address: str,
    count: int | None,
    work: Work,
    tasks: Sequence[str | Episode],
    *,
    on_trajectory: Callable[[Trajectory], object],
    say: Callable[[str], None],
) -> None:
    """As `choice.play_tasks`, on so many actors (None: one for each CPU) of the Ray at an address.

    Raises `UsageError` where Ray cannot be reached, has no room, or runs another version of align-echo.
    """
    check_agent(work.agent)
    if not tasks:
        return
    packed, models = pack(work)
    crew = _crew(address, count)
    lock = threading.Lock()

    def said(line: str) -> None:
        with lock:
            say(line)

    def ended(_: int, trajectory: Trajectory) -> None:
        with lock:
            on_trajectory(trajectory)

    play_batch(lambda: RemoteHost(work, packed, models, crew.link, said), tasks, workers=crew.count, on_end=ended)


class _Crew:
    """The actors of one Ray: those that are free, and how more are made."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.count = 0
        self._share = 0.0
        self._room = True
        self._lock = threading.Lock()
        self._free: list[Any] = []

    def resize(self, count: int | None) -> None:
        """Let so many actors share the CPUs that are there now. Those of another share are ended."""
        cpus = self.ray.cluster_resources().get("CPU", 0.0)
        wanted = count or max(1, int(cpus))
        if wanted != self.count:
            self.close()
            self._room = True
        self.count, self._share = wanted, round(min(1.0, cpus / wanted), 4)

    def link(self) -> _RayLink:
        """A way to a free actor that lives, or to a new one. Raises `LostError`, and `UsageError` where there is no
        room, or another version of align-echo.
        """
        while True:
            with self._lock:
                free = self._free.pop() if self._free else None
            link = _RayLink(self, self._made() if free is None else free)
            try:
                version = link.call("version", patience=PATIENCE)
                if version != __version__:
                    raise UsageError(f"a node of Ray has align-echo {version}, not {__version__}: install the same")
                return link
            except BaseException as error:
                link.close(reusable=False)
                if free is None or not isinstance(error, LostError):
                    raise

    def _made(self) -> Any:
        """A new actor. Once one is lost, others reserve no CPU: there may be none left, and they must not wait for it.
        """
        actor = self.ray.remote(EpisodeActor).options(
            num_cpus=self._share if self._room else 0, scheduling_strategy="SPREAD", max_restarts=0
        )
        return actor.remote()

    def give_back(self, actor: Any) -> None:
        with self._lock:
            self._free.append(actor)

    def saw_loss(self) -> None:
        """An actor is lost: there may be no CPU left to reserve."""
        self._room = False

    def end(self, actor: Any) -> None:
        """End an actor that is lost, or amid an episode."""
        self.ray.kill(actor)

    def close(self) -> None:
        """End the actors that are free."""
        with self._lock:
            actors, self._free = self._free, []
        for actor in actors:
            self.ray.kill(actor)


class _RayLink:
    """A `Link` to an actor of Ray."""

    def __init__(self, crew: _Crew, actor: Any) -> None:
        self._crew = crew
        self._actor = actor

    def call(self, method: str, *arguments: object, patience: float = float("inf")) -> Any:
        ray = self._crew.ray
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
                        f"Ray had no room for one of {self._crew.count} workers within {PATIENCE:g} s: ask for fewer"
                    )
            return ray.get(answer)
        except lost as error:
            self._crew.saw_loss()
            raise LostError(f"{type(error).__name__}: {first_line(error)}") from error
        except (ConnectionError, ray.exceptions.RaySystemError) as error:
            raise EngineError(f"the connection to Ray was lost: {first_line(error)}") from error

    def close(self, *, reusable: bool) -> None:
        if reusable:
            self._crew.give_back(self._actor)
        else:
            self._crew.end(self._actor)


# ---------------------------------------------------------------- starting


_starting = threading.Lock()
_crews: dict[str, _Crew] = {}


def _crew(address: str, count: int | None) -> _Crew:
    with _starting:
        others = [
            there or "this machine"
            for there, crew in _crews.items()
            if there != address and crew.ray.is_initialized()
        ]
        if others:
            raise UsageError(f"this process plays on the Ray of {others[0]}: another one needs a process of its own")
        crew = _crews.get(address)
        if crew is None or not crew.ray.is_initialized():
            crew = _crews[address] = _Crew(_connected(address, count))
        crew.resize(count)
        return crew


def close_ray() -> None:
    """End the actors that wait for the next batch. A Ray that was started here ends with the process."""
    with _starting:
        for crew in _crews.values():
            crew.close()
        _crews.clear()


def _connected(address: str, count: int | None) -> Any:
    """The module ray, connected. Raises `UsageError`, `MissingExtraError`."""
    there = address or os.environ.get("RAY_ADDRESS", "")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # what is played here is nobody else's business
    if not there:
        os.environ.setdefault(LOOPBACK, "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("playing on Ray", "ray") from error
    if ray.is_initialized():
        return ray
    stopping.take_time(ENDING)
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if not there.startswith(CLIENT):
        # With the mark of a client Ray leaves the current folder off its workers' path, where it would come first.
        quiet["job_config"] = ray.job_config.JobConfig(_client_job=True)
    told_to_end = signal.getsignal(signal.SIGTERM)
    try:
        if there:
            ray.init(there, **quiet)
        else:
            ray.init(
                "local",
                num_cpus=count,
                object_store_memory=STORE,
                include_dashboard=False,
                **quiet,
            )
    except Exception as error:  # Ray raises bare ones, too, where a node does not start in time
        where = f"at {there}" if there else "on this machine"
        raise UsageError(f"Ray {where} cannot be used: {first_line(error)}") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, told_to_end)  # Ray has its own, which says nothing
    return ray
