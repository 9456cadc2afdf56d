"""Agents with hidden information: bounds to compare with, not agents to evaluate.

`expert` plays the environment's own expert (the ceiling). `random_choice` draws among the actions the engine accepts,
or among those its API offers (the floor). Each replays the episode's actions in a private raw environment; the measured
environment gives them nothing extra.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any

from align_echo.agents.spec import AgentSetting, AgentSpec
from align_echo.errors import UsageError
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.text_env import ActionOptions, TextEnv


class PrivilegedAgent(threading.local):
    """Replays an episode in a private environment. `make_env` builds a raw one without a step limit; `choose` picks an
    action in its present state.

    Threads may share an instance: each thread has its own environment and episode.
    """

    def __init__(
        self, name: str, make_env: Callable[[], TextEnv], choose: Callable[[TextEnv, AgentView], str]
    ) -> None:
        self.name = name
        self._make_env = make_env
        self._choose = choose
        self._env: TextEnv | None = None
        self._task_id = ""
        self._actions: tuple[str | None, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the environment."""
        return type(self), (self.name, self._make_env, self._choose)

    def act(self, view: AgentView) -> AgentReply:
        """Return the next action. Raises `EngineError` if the engine breaks."""
        action = self._choose(self._follow(view), view)
        return AgentReply(text=action, action=action)

    def _follow(self, view: AgentView) -> TextEnv:
        """Bring the private environment to the current state of the episode and return it."""
        if self._env is None:
            self._env = self._make_env()
        actions = tuple(turn.action for turn in view.turns)
        if self._task_id != view.task_id or actions[: len(self._actions)] != self._actions:
            self._env.reset(seed=0, options={"task": view.task_id})
            self._task_id, self._actions = view.task_id, ()
        for action in actions[len(self._actions) :]:
            if action is not None and not self._env.over:
                self._env.step(action)
        self._actions = actions
        return self._env


def expert(make_env: Callable[[], TextEnv]) -> PrivilegedAgent:
    """Build the environment's expert. A task it fails within the step limit is unlikely to be solved by any agent."""
    return PrivilegedAgent("expert", make_env, lambda env, view: env.oracle().expert_action() or _idle(env))


def random_choice(make_env: Callable[[], TextEnv], *, seed: int = 0) -> PrivilegedAgent:
    """Build an agent that draws uniformly among the admissible actions; the same seed and view give the same action.

    If the engine does not list them, it fills an offered form with offered names; the engine may refuse the result.
    """

    def choose(env: TextEnv, view: AgentView) -> str:
        draw = hashlib.sha256(f"{seed}/{view.task_id}/{len(view.turns)}".encode()).digest()
        number = int.from_bytes(draw[:8], "big")
        if env.state.admissible_actions is not None:
            choices = sorted(env.state.admissible_actions)
            return choices[number % len(choices)] if choices else _idle(env)
        offered = None if env.over else env.offered()
        return _filled(offered, number) if offered is not None and offered.templates else _idle(env)

    return PrivilegedAgent("random", make_env, choose)


def _idle(env: TextEnv) -> str:
    """Return a harmless action (a look), if the environment has one."""
    return next((action for action in env.contract.read_only_actions if "{}" not in action), "")


def _filled(offered: ActionOptions, number: int) -> str:
    """Fill a form with names. The digits of `number` choose the form and then a name for each blank."""
    number, form = divmod(number, len(offered.templates))
    action = offered.templates[form]
    for index in range(action.count("{")):
        number, name = divmod(number, max(len(offered.names), 1))
        action = action.replace(f"{{{index}}}", offered.names[name] if offered.names else "")
    return action


def _random(setting: AgentSetting) -> PrivilegedAgent:
    """Build the random agent. Raises `UsageError` for an environment that lists no actions."""
    if not setting.spec.lists_actions or not (setting.spec.gym_id or _names_actions(setting)):
        name = setting.spec.name
        raise UsageError(f"{name} lists no actions, so the agent random has none to draw from; use another --agent")
    return random_choice(setting.raw_env, seed=setting.seed)


def _names_actions(setting: AgentSetting) -> bool:
    """Check if an environment that is not our own lists or offers actions at the start of its first task."""
    env = setting.raw_env()
    try:
        env.reset(seed=0, options={"task": env.task_ids[0]})
        offered = env.offered()
        return bool(env.state.admissible_actions or (offered is not None and offered.templates))
    finally:
        env.close()


EXPERT = AgentSpec(
    "expert",
    "the environment's own expert, which sees the hidden state: a ceiling, not an agent",
    asks_model=False,
    build=lambda setting: expert(setting.raw_env),
    needs_expert=True,
)
RANDOM = AgentSpec(
    "random",
    "draws among the actions that the engine accepts or offers: a floor, not an agent",
    asks_model=False,
    build=_random,
)
