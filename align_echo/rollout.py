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
from typing import Any, TypeVar

import gymnasium as gym

from align_echo.agents.forms import as_offered
from align_echo.errors import AgentError, ContextOverflowError, EngineError, ModelError
from align_echo.faults import agent_of, ask, check_agent, fault_of, stop_if_hopeless
from align_echo.halting import Halt, under
from align_echo.types import Agent, AgentReply, AgentView, Step, Trajectory, Turn
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv

ATTEMPTS = 2
"""How often an episode is started before an engine's fault is final."""

HOPELESS = 4
"""A batch stops when its first so many episodes were all broken by the model (the endpoint is down), or all by the
agent's own code."""

Found = TypeVar("Found")

NO_ACTION = "Your reply held no action: {problem}"
"""Shown to the agent in place of an observation when its reply could not be parsed."""


@dataclass(frozen=True)
class Episode:
    """A task to play. `sample` tells draws of the same agent on it apart; `critique` is shown to the agent."""

    task_id: str
    sample: int = 0
    critique: str = ""


def base_env(env: gym.Env[str, str]) -> TextEnv:
    """The `TextEnv` below the wrappers."""
    inner = env.unwrapped
    if not isinstance(inner, TextEnv):
        raise TypeError(f"a rollout needs a TextEnv, not {type(inner).__name__}")
    return inner


def interface_label(env: gym.Env[str, str]) -> str:
    """Name of the interface around an environment; "none" for the raw one."""
    layer: gym.Env[str, str] = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, AlignWrapper):
            return layer.interface.label
        layer = layer.env
    return "none"


def start_view(env: gym.Env[str, str], task_id: str, action_format: str, seed: int) -> AgentView:
    """Reset to a task and say what the agent may know before its first action."""
    return _view(_reset(env, task_id, seed), Episode(task_id), action_format)


def _reset(env: gym.Env[str, str], task_id: str, seed: int) -> dict[str, Any]:
    _, info = env.reset(seed=seed, options={"task": task_id})
    return info


def _view(info: dict[str, Any], episode: Episode, action_format: str) -> AgentView:
    return AgentView(
        task_id=episode.task_id,
        critique=episode.critique,
        action_format=action_format,
        goal=str(info["goal"]),
        rules=str(info.get("rules", "")),
        initial_observation=str(info["raw_observation"]),
    )


def take_turn(env: gym.Env[str, str], reply: AgentReply) -> Step:
    """Carry out one reply of the agent, its action in the spelling that the engine takes (`_as_possible`).

    Raises `EngineError`.
    """
    base = base_env(env)
    before = base.engine_calls
    reward, action = 0.0, reply.action
    if action is None:
        _, _, terminated, truncated, info = base.pass_turn()
        observation = NO_ACTION.format(problem=reply.problem or "nothing to send to the environment")
    else:
        action = _as_possible(base, action)
        observation, gain, terminated, truncated, info = env.step(action)
        reward = float(gain)
    return Step(
        reply=reply.text,
        action=action,
        observation=observation,
        raw_observation=info["raw_observation"],
        reward=reward,
        score=float(info["score"]),
        terminated=terminated,
        truncated=truncated,
        engine_calls=base.engine_calls - before,
        problem=reply.problem,
        cut_off=reply.cut_off,
        interface_error=str(info.get("interface_error", "")),
        violations=tuple(info.get("violations", ())),
        forged=tuple(info.get("forged", ())),
        usage=reply.usage,
        tokens=reply.tokens,
        choice=reply.choice,
    )


def _as_possible(base: TextEnv, action: str) -> str:
    """The action in the engine's spelling, where only that makes it a possible one; else in the agent's own words."""
    possible = base.state.admissible_actions or ()
    if not possible or action in possible or base.as_read(action) in map(base.as_read, possible):
        return action
    return as_offered(action, possible)


def extend(view: AgentView, step: Step) -> AgentView:
    """The agent's view after a step."""
    turn = Turn(reply=step.reply, action=step.action, observation=step.observation, tokens=step.tokens)
    return view.model_copy(update={"turns": (*view.turns, turn)})


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
    env: gym.Env[str, str], trajectory: Trajectory, look: Callable[[AgentView, Step], Found]
) -> Iterator[Found]:
    """Play an episode again in `env`, an environment like the one it was made in: what `look` finds before each step.

    It is given the view and the step to come, while `env` stands there, and leaves `env` as it was. Ends where the
    episode begins or goes on otherwise than it had: what was found before such a step is not told. Raises
    `EngineError`.
    """
    view = start_view(env, trajectory.task_id, "", trajectory.seed)
    if view.initial_observation != trajectory.initial_observation:
        return
    for step in trajectory.steps:
        found = look(view, step)
        again = take_turn(env, AgentReply(text=step.reply, action=step.action, problem=step.problem))
        if again.observation != step.observation:
            return
        yield found
        view = extend(view, again)


def run_episode(
    env: gym.Env[str, str], agent: Agent, task: str | Episode, *, split: str, action_format: str = "", seed: int = 0
) -> Trajectory:
    """Play one task to its end, at most `ATTEMPTS` times if the engine breaks."""
    episode = Episode(task) if isinstance(task, str) else task
    check_agent(agent)
    for attempt in range(ATTEMPTS):
        trajectory = _attempt(env, agent, episode, split, action_format, seed)
        if trajectory.fault is None or trajectory.fault.source != "environment" or attempt == ATTEMPTS - 1:
            break
    return trajectory


def _attempt(
    env: gym.Env[str, str], agent: Agent, episode: Episode, split: str, action_format: str, seed: int
) -> Trajectory:
    base = base_env(env)
    header: dict[str, Any] = {
        "environment": base.contract.environment,
        "split": split,
        "task_id": episode.task_id,
        "agent": agent.name,
        "interface": interface_label(env),
        "seed": seed,
        "sample": episode.sample,
        "critique": episode.critique,
    }
    steps: list[Step] = []
    view: AgentView | None = None
    try:
        info = _reset(env, episode.task_id, seed)
        header["reset_error"] = str(info.get("interface_error", ""))
        header["reset_violations"] = tuple(info.get("violations", ()))
        view = _view(info, episode, action_format)
        player = agent_of(agent, episode.sample)
        while not steps or not (steps[-1].terminated or steps[-1].truncated):
            steps.append(take_turn(env, ask(player, view)))
            view = extend(view, steps[-1])
    except ContextOverflowError:
        header["context_overflow"] = True
    except (EngineError, ModelError, AgentError) as error:
        header["fault"] = fault_of(error)
    if view is not None:
        header |= {"goal": view.goal, "rules": view.rules, "initial_observation": view.initial_observation}
        header["task_type"] = base.task_type
    return Trajectory(
        **{"goal": "", "initial_observation": "", **header},
        steps=tuple(steps),
        score=steps[-1].score if steps else 0.0,
        won=base.state.won if steps and "fault" not in header else False,
    )


def run_tasks(
    make_env: Callable[[], gym.Env[str, str]],
    agent: Agent,
    tasks: Sequence[str | Episode],
    *,
    split: str,
    action_format: str = "",
    seed: int = 0,
    workers: int = 1,
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Play many tasks; the trajectories come back in the order of `tasks`.

    A task's id stands for its first sample; an `Episode` also names another sample, or holds a critique. `workers`
    episodes are played at once: it helps when the agent waits for a remote model, or when a local one answers several
    in one batch. `on_trajectory` is called as each one ends, one at a time. Environments are closed when all is done.
    Raises `ModelError` if the first `HOPELESS` episodes were all broken by the model, `AgentError` if all were by the
    agent's own code, and `UsageError` for what is no agent. What is raised, Ctrl-C too, ends
    the other episodes at their next turn; replies of a local model that are under way are not drawn to their end.
    """
    check_agent(agent)
    report = threading.Lock()
    halt = Halt()
    sources: list[str] = []
    envs = _EnvPerThread(make_env)

    def play(task: str | Episode) -> Trajectory:
        with under(halt):
            player = _UntilHalted(agent, halt)
            trajectory = run_episode(envs.get(), player, task, split=split, action_format=action_format, seed=seed)
        with report:
            if on_trajectory is not None:
                on_trajectory(trajectory)
            sources.append(trajectory.fault.source if trajectory.fault else "")
            if trajectory.fault is not None and len(sources) == HOPELESS:
                stop_if_hopeless(sources, trajectory.fault)
        return trajectory

    try:
        if workers <= 1:
            return [play(task) for task in tasks]
        with ThreadPoolExecutor(max_workers=workers) as pool:
            futures = [pool.submit(play, task) for task in tasks]
            try:
                ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
                _raise_first(ended)
                return [future.result() for future in futures]
            except BaseException:
                halt.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        envs.close()


def _raise_first(ended: Iterable[Future[Trajectory]]) -> None:
    for future in ended:
        if (error := future.exception()) is not None:
            raise error


class _UntilHalted:
    """An agent that goes no further once its batch was given up."""

    def __init__(self, agent: Agent, halt: Halt) -> None:
        self._agent = agent
        self._halt = halt

    @property
    def name(self) -> str:
        return self._agent.name

    def act(self, view: AgentView) -> AgentReply:
        self._halt.check()
        return self._agent.act(view)

    def with_sample(self, sample: int) -> Agent:
        """The same of another sample of the agent."""
        return _UntilHalted(agent_of(self._agent, sample), self._halt)


class _EnvPerThread:
    """Hands each worker thread an environment of its own."""

    def __init__(self, make_env: Callable[[], gym.Env[str, str]]) -> None:
        self._make_env = make_env
        self._local = threading.local()
        self._all: list[gym.Env[str, str]] = []

    def get(self) -> gym.Env[str, str]:
        env: gym.Env[str, str] | None = getattr(self._local, "env", None)
        if env is None:
            env = self._make_env()
            self._local.env = env
            self._all.append(env)
        return env

    def close(self) -> None:
        for env in self._all:
            env.close()


def failed(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Those that the agent lost: no fault, and not won."""
    return [trajectory for trajectory in trajectories if trajectory.fault is None and not trajectory.won]
