"""(environment, agent) -> Trajectory. Faults are data.

An engine, a model or an agent's own code that breaks ends its own episode with a typed `Fault`: the trajectory is kept,
marked, and counted apart; it has no score. An engine's episode is started once more first; a model has retries of its
own, and an agent's code is not tried again. A conversation that outgrows the model's context ends its episode too, and
is no fault. Batches run on threads, one environment each: environments step while the model answers others, a remote
model's calls overlap, a local model batches what is under way, and a thread whose episode has ended begins the next one
at once. Results come back in the order asked for. With a local model every step carries the token ids of its call
(`align_echo.tokens` makes a sequence of them).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol, TypeVar

import gymnasium as gym

from align_echo.agents.presets import get_episode_rules
from align_echo.errors import AgentError, ContextOverflowError, EngineError, ModelError
from align_echo.faults import agent_of, ask, check_agent, stop_if_hopeless
from align_echo.halting import Halt, check_halt, ended_with_around, under
from align_echo.session import Episode, Session, extend
from align_echo.types import Agent, AgentReply, AgentView, Step, Trajectory

ATTEMPTS = 2
"""How often an episode is started before an engine's fault is final."""

HOPELESS = 4
"""A batch stops when its first so many episodes were all broken by the model (the endpoint is down), or all by the
agent's own code."""

Look = TypeVar("Look")


def view_before(trajectory: Trajectory, turn: int, action_format: str) -> AgentView:
    """What the agent knew before a turn of an episode, counted from 0."""
    view = AgentView(
        task_id=trajectory.task_id,
        action_format=action_format,
        goal=trajectory.goal,
        rules=trajectory.rules,
        initial_observation=trajectory.initial_observation,
        critique=trajectory.critique,
    )
    for step in trajectory.steps[:turn]:
        view = extend(view, step)
    return view


def replay(
    env: gym.Env[str, str], trajectory: Trajectory, look: Callable[[AgentView, Step], Look]
) -> Iterator[Look]:
    """Play an episode again in `env`, an environment like the one it was made in: what `look` gives before each step.

    `look` is given the view and the step to come, while `env` stands there, and leaves `env` as it was. The replay ends
    where the episode begins or goes on otherwise than it had; what `look` gave before such a step is left out. Raises
    `EngineError`.
    """
    session = Session(env, agent=trajectory.agent, seed=trajectory.seed)
    view = session.reset(trajectory.task_id)
    if view.initial_observation != trajectory.initial_observation:
        return
    for step in trajectory.steps:
        seen = look(view, step)
        if session.over:
            return
        reply = AgentReply(text=step.reply, action=step.action, problem=step.problem, verbatim=True)
        again = session.act(reply)
        if again.observation != step.observation:
            return
        yield seen
        view = session.view


def run_episode(
    env: gym.Env[str, str], agent: Agent, task: str | Episode, *, split: str, action_format: str = "", seed: int = 0
) -> Trajectory:
    """Play one task to its end, at most `ATTEMPTS` times if the engine breaks."""
    check_agent(agent)
    session = Session(
        env,
        agent=agent.name,
        split=split,
        action_format=action_format,
        seed=seed,
        episode_rules=get_episode_rules(agent),
    )
    for attempt in range(ATTEMPTS):
        trajectory = _attempt(session, agent, Episode(task) if isinstance(task, str) else task)
        if trajectory.fault is None or trajectory.fault.source != "environment" or attempt == ATTEMPTS - 1:
            break
    return trajectory


def _attempt(session: Session, agent: Agent, episode: Episode) -> Trajectory:
    try:
        session.reset(episode)
        player = agent_of(agent, episode.sample)
        while not session.over:
            check_halt()
            session.act(ask(player, session.view))
    except ContextOverflowError:
        session.overflow()
    except (EngineError, ModelError, AgentError) as error:
        session.fail(error)
    return session.trajectory()


def run_tasks(
    make_env: Callable[[], gym.Env[str, str]],
    agent: Agent,
    tasks: Sequence[str | Episode],
    *,
    split: str,
    action_format: str = "",
    seed: int = 0,
    workers: int = 1,
    on_trajectory: Callable[[Trajectory], object] | None = None,
    hopeless: int = HOPELESS,
) -> list[Trajectory]:
    """Play many tasks; the trajectories come back in the order of `tasks`.

    A task's id stands for its first sample; an `Episode` also names another sample, or holds a critique. `workers`
    episodes are played at once: it helps when the agent waits for a remote model, or when a local one answers several
    in one batch. `on_trajectory` is called as each one ends, one at a time. Environments are closed when all is done.
    Raises `ModelError` if the first `hopeless` episodes were all broken by the model (0: whatever breaks goes on),
    `AgentError` if all were by the agent's own code, and `UsageError` for what is no agent. What is raised, Ctrl-C too,
    ends the other episodes at their next turn, and so does a halt around the call (`halting.py`); replies of a local
    model that are under way are not drawn to their end.
    """
    check_agent(agent)
    return run_batch(
        lambda: EnvironmentHere(make_env(), agent, split, action_format, seed),
        tasks,
        workers=workers,
        on_trajectory=on_trajectory,
        hopeless=hopeless,
    )


class Host(Protocol):
    """Where episodes are played one after the other: an environment in this process, or one in another."""

    def play(self, task: str | Episode) -> Trajectory: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class EnvironmentHere:
    """A host in this process."""

    env: gym.Env[str, str]
    agent: Agent
    split: str
    action_format: str
    seed: int

    def play(self, task: str | Episode) -> Trajectory:
        return run_episode(
            self.env, self.agent, task, split=self.split, action_format=self.action_format, seed=self.seed
        )

    def close(self) -> None:
        self.env.close()


def run_batch(
    make_host: Callable[[], Host],
    tasks: Sequence[str | Episode],
    *,
    workers: int,
    on_trajectory: Callable[[Trajectory], object] | None,
    hopeless: int = HOPELESS,
) -> list[Trajectory]:
    """As `run_tasks`, wherever the episodes are played."""
    played: dict[int, Trajectory] = {}

    def ended(index: int, trajectory: Trajectory) -> None:
        played[index] = trajectory
        if on_trajectory is not None:
            on_trajectory(trajectory)

    play_batch(make_host, tasks, workers=workers, on_end=ended, hopeless=hopeless)
    return [played[index] for index in range(len(tasks))]


def play_batch(
    make_host: Callable[[], Host],
    tasks: Sequence[str | Episode],
    *,
    workers: int,
    on_end: Callable[[int, Trajectory], object],
    hopeless: int = HOPELESS,
) -> None:
    """Play many tasks, and hold no episode after its end: `on_end` takes it, with its place in `tasks`, one at a time.

    Each of `workers` threads drives a host of its own, which plays the next task as soon as it has ended one. Raises as
    `run_tasks`.
    """
    next_task, report = threading.Lock(), threading.Lock()
    halt = Halt()
    waiting = iter(enumerate(tasks))
    sources: list[str] = []  # of the first episodes
    hosts: list[Host] = []

    def play() -> None:
        """Play tasks until none is left."""
        host: Host | None = None
        while True:
            with next_task:
                index, task = next(waiting, (-1, ""))
            if index < 0:
                return
            with under(halt):
                check_halt()
                if host is None:
                    host = make_host()
                    hosts.append(host)
                trajectory = host.play(task)
            with report:
                on_end(index, trajectory)
                if len(sources) < hopeless:
                    sources.append(trajectory.fault.source if trajectory.fault else "")
                    if trajectory.fault is not None and len(sources) == hopeless:
                        stop_if_hopeless(sources, trajectory.fault)

    try:
        with ended_with_around(halt), ThreadPoolExecutor(max(workers, 1)) as pool:
            if workers <= 1:
                play()
                return
            players = [pool.submit(play) for _ in range(min(workers, len(tasks)))]
            try:
                ended, _ = wait(players, return_when=FIRST_EXCEPTION)
                _raise_first(ended)
            except BaseException:
                halt.set()
                raise
    finally:
        for host in hosts:
            host.close()


def _raise_first(ended: Iterable[Future[None]]) -> None:
    for future in ended:
        if (error := future.exception()) is not None:
            raise error


def failed(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """The episodes that the agent lost: no fault ended them, and they were not won."""
    return [trajectory for trajectory in trajectories if trajectory.fault is None and not trajectory.won]
