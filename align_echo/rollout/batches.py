"""Play episodes: (environment, agent) -> Trajectory. Faults are data.

If an engine, a model or an agent's own code breaks, its episode ends with a typed `Fault`: the trajectory is stored,
marked, and counted separately; it has no score. After an engine fault the episode is first restarted once; models have
their own retries, and agents' code is not retried. A conversation beyond the model's context ends its episode too, and
is no fault. Batches run on threads with one environment each: environments step while the model answers others, calls
of a remote model overlap, a local model batches concurrent requests, and a thread starts the next episode as soon as
one has ended. Results come in the order of the tasks. With a local model every step carries the token ids of its call
(`align_echo.tokens` builds a sequence from them).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol, TypeVar

import gymnasium as gym

from align_echo.agents.presets import get_episode_rules
from align_echo.agents.spec import check_agent
from align_echo.base.halting import Halt, check_halt, linked_to_outer, under
from align_echo.errors import AgentError, ContextOverflowError, EngineError, ModelError
from align_echo.rollout.faults import FirstReplies, agent_for_sample, ask, stop_if_hopeless
from align_echo.rollout.session import Episode, Session, extend
from align_echo.types import Agent, AgentReply, AgentView, Step, Trajectory

ATTEMPTS = 2
"""Number of starts of an episode before an engine's fault is final."""

HOPELESS = 4
"""A batch stops if its first `HOPELESS` episodes were all broken by the model (the endpoint is down), or all by the
agent's own code."""

Look = TypeVar("Look")


def view_before(trajectory: Trajectory, turn: int, action_format: str) -> AgentView:
    """Rebuild the agent's view before a turn of an episode, counted from 0."""
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
    """Replay an episode in `env`, a similar environment. Yield the result of `look` before each step.

    `look` receives the view and the next step while `env` is in that state, and must leave `env` unchanged. The replay
    ends at the first difference from the recorded episode, without yielding the result before that step. Raises
    `EngineError`.
    """
    session = Session(env, agent=trajectory.agent, seed=trajectory.seed)
    view = session.reset(trajectory.task_id)
    if view.initial_observation != trajectory.initial_observation:
        return
    for step in trajectory.steps:
        looked = look(view, step)
        if session.over:
            return
        reply = AgentReply(
            text=step.reply,
            action=step.action,
            thinking=step.thinking,
            call=step.call,
            problem=step.problem,
            verbatim=True,
        )
        replayed_step = session.act(reply)
        if replayed_step.observation != step.observation:
            return
        yield looked
        view = session.view


class PutOffError(Exception):
    """An episode was put off: none of its first replies held an action."""


def run_episode(
    env: gym.Env[str, str],
    agent: Agent,
    task: str | Episode,
    *,
    split: str,
    action_format: str = "",
    seed: int = 0,
    first_replies: FirstReplies | None = None,
) -> Trajectory:
    """Play one task to its end, at most `ATTEMPTS` times if the engine breaks.

    With `first_replies`, raises `PutOffError` and `UsageError` as `FirstReplies.hear` decides.
    """
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
        trajectory = _attempt(session, agent, Episode(task) if isinstance(task, str) else task, first_replies)
        if trajectory.fault is None or trajectory.fault.source != "environment" or attempt == ATTEMPTS - 1:
            break
    return trajectory


def _attempt(session: Session, agent: Agent, episode: Episode, first_replies: FirstReplies | None) -> Trajectory:
    try:
        session.reset(episode)
        player = agent_for_sample(agent, episode.sample)
        while not session.over:
            check_halt()
            session.act(ask(player, session.view))
            if first_replies is not None and first_replies.hear(episode.task_id, session.steps):
                raise PutOffError
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
    """Play tasks and return the trajectories in the order of `tasks`.

    A task id means its first sample; an `Episode` can name another sample, or carry a critique. `workers` episodes are
    played at once: useful while the agent waits for a remote model, or if a local model batches requests.
    `on_trajectory` is called as each episode ends, by one thread at a time. Environments are closed at the end.

    Raises `ModelError` if the first `hopeless` episodes were all broken by the model (0: never), `AgentError` if all
    were broken by the agent's own code, and `UsageError` if `agent` is no agent. Any exception, Ctrl-C too, ends the
    other episodes at their next turn, and so does an enclosing halt (`base/halting.py`); running replies of a local
    model are stopped.
    """
    check_agent(agent)
    return run_batch(
        lambda: LocalHost(make_env(), agent, split, action_format, seed),
        tasks,
        workers=workers,
        on_trajectory=on_trajectory,
        hopeless=hopeless,
    )


class EpisodeHost(Protocol):
    """A place to play episodes one after another: an environment in this process, or in another."""

    def play(self, task: str | Episode) -> Trajectory: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class LocalHost:
    """A host in this process."""

    env: gym.Env[str, str]
    agent: Agent
    split: str
    action_format: str
    seed: int
    first_replies: FirstReplies | None = None

    def play(self, task: str | Episode) -> Trajectory:
        return run_episode(
            self.env,
            self.agent,
            task,
            split=self.split,
            action_format=self.action_format,
            seed=self.seed,
            first_replies=self.first_replies,
        )

    def close(self) -> None:
        self.env.close()


def run_batch(
    make_host: Callable[[], EpisodeHost],
    tasks: Sequence[str | Episode],
    *,
    workers: int,
    on_trajectory: Callable[[Trajectory], object] | None,
    hopeless: int = HOPELESS,
) -> list[Trajectory]:
    """Play tasks as `run_tasks` does, on any hosts."""
    trajectories: dict[int, Trajectory] = {}

    def store(index: int, trajectory: Trajectory) -> None:
        trajectories[index] = trajectory
        if on_trajectory is not None:
            on_trajectory(trajectory)

    play_batch(make_host, tasks, workers=workers, on_end=store, hopeless=hopeless)
    return [trajectories[index] for index in range(len(tasks))]


def play_batch(
    make_host: Callable[[], EpisodeHost],
    tasks: Sequence[str | Episode],
    *,
    workers: int,
    on_end: Callable[[int, Trajectory], object],
    hopeless: int = HOPELESS,
    first_replies: FirstReplies | None = None,
) -> None:
    """Play tasks without storing finished episodes: `on_end` receives each with its index in `tasks`, one at a time.

    Each of `workers` threads drives its own host, which plays the next task as soon as one has ended. An episode that
    was put off is played after the others. Raises as `run_tasks` and `FirstReplies.hear`.
    """
    next_task, report = threading.Lock(), threading.Lock()
    halt = Halt()
    waiting = deque(enumerate(tasks))
    sources: list[str] = []  # of the first episodes
    hosts: list[EpisodeHost] = []

    def play() -> None:
        """Play tasks until none is left."""
        host: EpisodeHost | None = None
        while True:
            with next_task:
                if not waiting:
                    return
                index, task = waiting.popleft()
            with under(halt):
                check_halt()
                if host is None:
                    host = make_host()
                    hosts.append(host)
                try:
                    trajectory = host.play(task)
                except PutOffError:
                    waiting.append((index, task))
                    continue
            with report:
                on_end(index, trajectory)
                if first_replies is not None:
                    first_replies.hear(trajectory.task_id, trajectory.steps)
                if len(sources) < hopeless:
                    sources.append(trajectory.fault.source if trajectory.fault else "")
                    if trajectory.fault is not None and len(sources) == hopeless:
                        stop_if_hopeless(sources, trajectory.fault)

    try:
        with linked_to_outer(halt), ThreadPoolExecutor(max(workers, 1)) as pool:
            if workers <= 1:
                play()
                return
            players = [pool.submit(play) for _ in range(min(workers, len(tasks)))]
            try:
                finished, _ = wait(players, return_when=FIRST_EXCEPTION)
                _raise_first(finished)
            except BaseException:
                halt.set()
                raise
    finally:
        for host in hosts:
            host.close()


def _raise_first(finished: Iterable[Future[None]]) -> None:
    for future in finished:
        if (error := future.exception()) is not None:
            raise error


def failed(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Return the lost episodes: without a fault, and not won."""
    return [trajectory for trajectory in trajectories if trajectory.fault is None and not trajectory.won]
