"""One episode, driven from outside: reset to a task, read the agent's view, act, and take the trajectory.

    with Session.open("alfworld", split="valid_unseen", interface="probe", agent="my loop") as session:
        session.reset(task)
        while not session.over:
            session.step(my_policy(session.view))
        trajectory = session.trajectory()

`batches.py` drives it with an `Agent`, with retries and in batches; your own loop drives it with any policy. An engine
error is raised to the driver, and recorded on the trajectory as a `Fault`. A session belongs to one thread at a time,
since environments are not shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import gymnasium as gym

from align_echo.agents.parsing import as_offered
from align_echo.agents.presets import EpisodeRules
from align_echo.errors import AgentError, EngineError, ModelError, UsageError
from align_echo.interface.contract import Interface
from align_echo.registry import with_article
from align_echo.rollout.faults import build_fault
from align_echo.types import AgentReply, AgentView, Step, Trajectory, Turn
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv

NO_ACTION = "Your reply held no action: {problem}"
"""Text shown to the agent instead of an observation if its reply could not be parsed."""


_ENDINGS = frozenset({"fault", "context_overflow", "ended_by_repeats"})
"""Reasons other than the environment for an episode to end."""


@dataclass(frozen=True)
class Episode:
    """A task to play. `sample` distinguishes draws of the same agent; `critique` is shown to the agent."""

    task_id: str
    sample: int = 0
    critique: str = ""


class Session:
    """An environment and its current episode. `agent` is the name of the acting agent in the trajectory."""

    def __init__(
        self,
        env: gym.Env[str, str],
        *,
        agent: str,
        split: str = "",
        action_format: str = "",
        seed: int = 0,
        episode_rules: EpisodeRules = EpisodeRules(),  # noqa: B008 - frozen
    ) -> None:
        """Store the settings. Raises `UsageError` for another environment than a `TextEnv`, wrapped in an interface or
        not.

        `action_format` is the view's description of actions; `episode_rules` are those of the agent's preset.
        """
        self._base = base_env(env)
        self._env = env
        self._agent = agent
        self._split = split
        self._action_format = action_format
        self._seed = seed
        self._episode_rules = episode_rules
        self._header: dict[str, Any] = {}
        self._view: AgentView | None = None
        self._steps: list[Step] = []

    @classmethod
    def open(
        cls,
        env: str | EnvironmentSpec,
        *,
        agent: str,
        split: str | None = None,
        interface: str | Path | Interface | None = None,
        retract: bool = True,
        data_root: str | Path | None = None,
        step_limit: int | None = None,
        engine: str | None = None,
        seed: int = 0,
    ) -> Session:
        """Open a session in an environment by name, made as by `align_echo.make`; `split` None is the training split.

        Raises `UsageError`, `MissingDataError` or `InterfaceError`, each one line.
        """
        spec = environment(env)
        split = split or spec.train_split
        chosen = spec.interface(interface, retract=retract)
        wrapped = spec.make(split, interface=chosen, data_root=data_root, step_limit=step_limit, engine=engine)
        return cls(wrapped, agent=agent, split=split, action_format=spec.action_format, seed=seed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ playing

    def reset(self, task: str | Episode) -> AgentView:
        """Begin a task and return the view before the first action. The previous episode is discarded.

        Raises `UsageError` for an unknown task, `EngineError` if the environment breaks.
        """
        episode = Episode(task) if isinstance(task, str) else task
        self._view, self._steps = None, []
        self._header = {
            "environment": self._base.contract.environment,
            "split": self._split,
            "task_id": episode.task_id,
            "agent": self._agent,
            "agent_preset": self._episode_rules.preset,
            **interface_on_record(self._env),
            "seed": self._seed,
            "sample": episode.sample,
            "critique": episode.critique,
        }
        try:
            _, info = self._env.reset(seed=self._seed, options={"task": episode.task_id})
        except EngineError as error:
            self.fail(error)
            raise
        self._header["reset_error"] = str(info.get("interface_error", ""))
        self._header["reset_violations"] = tuple(info.get("violations", ()))
        self._view = AgentView(
            task_id=episode.task_id,
            critique=episode.critique,
            action_format=self._action_format,
            goal=str(info["goal"]),
            rules=str(info.get("rules", "")),
            initial_observation=str(info["raw_observation"]),
        )
        return self._view

    @property
    def view(self) -> AgentView:
        """Everything known before the next action. Raises `UsageError` before a reset."""
        if self._view is None:
            raise UsageError("call reset(task) before anything else of a session")
        return self._view

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the steps of the episode so far."""
        return tuple(self._steps)

    @property
    def over(self) -> bool:
        """True if no action can be taken: the episode has ended or broke, or none was begun."""
        is_done = bool(self._steps) and (self._steps[-1].terminated or self._steps[-1].truncated)
        return self._view is None or is_done or not _ENDINGS.isdisjoint(self._header)

    def step(self, action: str) -> Step:
        """Take one turn with an action. `step.observation` is shown to the agent. Raises as `act`."""
        return self.act(AgentReply(text=action, action=action))

    def act(self, reply: AgentReply) -> Step:
        """Take one turn with an agent's reply. A reply without an action costs its turn, and the agent is told so.

        Raises `UsageError` before a reset and once the episode is over, `EngineError` if the environment breaks.
        """
        view = self.view
        if self.over:
            raise UsageError("the episode is over: call reset(task) to begin another")
        try:
            step = take_turn(self._env, reply)
        except EngineError as error:
            self.fail(error)
            raise
        self._steps.append(step)
        self._view = extend(view, step)
        if not self.over and self._episode_rules.are_too_many([each.action for each in self._steps]):
            self._header["ended_by_repeats"] = True
        return step

    # ------------------------------------------------------------ ending

    def fail(self, error: EngineError | ModelError | AgentError) -> None:
        """Mark the episode as broken by this error: it has no score, and its trajectory holds a `Fault`."""
        self._header["fault"] = build_fault(error)

    def overflow(self) -> None:
        """End the episode because the conversation exceeded the model's context; this is no fault."""
        self._header["context_overflow"] = True

    def trajectory(self) -> Trajectory:
        """Return the episode so far. Raises `UsageError` before a reset."""
        if not self._header:
            raise UsageError("call reset(task) before anything else of a session")
        beginning: dict[str, Any] = {"goal": "", "initial_observation": ""}
        if self._view is not None:
            view = self._view
            beginning = {"goal": view.goal, "rules": view.rules, "initial_observation": view.initial_observation}
            beginning["task_type"] = self._base.task_type
        return Trajectory(
            **beginning,
            **self._header,
            steps=tuple(self._steps),
            score=self._steps[-1].score if self._steps else 0.0,
            won=self._base.state.won if self._steps and "fault" not in self._header else False,
        )

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


# ---------------------------------------------------------------- one turn


def base_env(env: gym.Env[str, str]) -> TextEnv:
    """Return the `TextEnv` below the wrappers. Raises `UsageError` if there is none."""
    inner = env.unwrapped
    if not isinstance(inner, TextEnv):
        kind = with_article(type(inner).__name__)
        raise UsageError(f"this needs a text environment of align-echo, not {kind}: align_echo.make(...) makes one")
    return inner


def interface_on_record(env: gym.Env[str, str]) -> dict[str, Any]:
    """Return a trajectory's fields about the interface around an environment; empty for the raw environment."""
    layer: gym.Env[str, str] = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, AlignWrapper):
            return {"interface": layer.interface.label, "played_under": layer.interface.played}
        layer = layer.env
    return {}


def take_turn(env: gym.Env[str, str], reply: AgentReply) -> Step:
    """Carry out one reply of the agent, its action in the engine's spelling (`_as_possible`) unless marked verbatim.

    Raises `EngineError`.
    """
    base = base_env(env)
    before = base.engine_calls
    reward, action = 0.0, reply.action
    if action is None:
        _, _, terminated, truncated, info = base.pass_turn()
        observation = NO_ACTION.format(problem=reply.problem or "nothing to send to the environment")
    else:
        action = action if reply.verbatim else _as_possible(base, action)
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
        thinking=reply.thinking,
        call=reply.call,
        problem=reply.problem,
        cut_off=reply.cut_off,
        residue=reply.residue,
        interface_error=str(info.get("interface_error", "")),
        violations=tuple(info.get("violations", ())),
        forged=tuple(info.get("forged", ())),
        hints=tuple(info.get("hints", ())),
        usage=reply.usage,
        tokens=reply.tokens,
        choice=reply.choice,
    )


def _as_possible(base: TextEnv, action: str) -> str:
    """Return the action in the engine's spelling if only that is a possible action, else unchanged."""
    possible = base.state.admissible_actions or ()
    if not possible or action in possible or base.as_read(action) in map(base.as_read, possible):
        return action
    return as_offered(action, possible)


def extend(view: AgentView, step: Step) -> AgentView:
    """Add a step to the agent's view."""
    turn = Turn(
        reply=step.reply,
        action=step.action,
        observation=step.observation,
        thinking=step.thinking,
        call=step.call,
        tokens=step.tokens,
    )
    return view.model_copy(update={"turns": (*view.turns, turn)})


def start_view(env: gym.Env[str, str], task_id: str, action_format: str, seed: int) -> AgentView:
    """Reset to a task and return the agent's view before its first action."""
    return Session(env, agent="", action_format=action_format, seed=seed).reset(task_id)


def try_reset(
    spec: EnvironmentSpec, task: str, *, split: str, data_root: Path | None, expert: bool = False
) -> None:
    """Start a task, so that missing parts of an environment are reported before anything is written. Propagates its
    errors. With `expert`, ask its expert for an action too.
    """
    env = spec.make(split, data_root=data_root)
    try:
        env.reset(options={"task": task})
        if expert:
            base_env(env).oracle().expert_action()
    finally:
        env.close()
