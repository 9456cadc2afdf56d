"""Agents that see what no agent may: bounds to compare with, never subjects of a measurement.

`expert` plays the environment's own expert (the ceiling), `random_choice` draws among the actions that the engine would
accept, or among those that its API offers (the floor). Each follows the episode in a raw environment of its own, from
the actions it is shown; the environment that is measured tells them nothing.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any

from align_echo.agents.spec import AgentSetting, AgentSpec
from align_echo.errors import UsageError
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.text_env import Offered, TextEnv


class Privileged(threading.local):
    """Follows an episode in an environment of its own. `make_env` gives a raw one without a step limit; `choose` names
    an action in its present state.

    Several threads may share one: each has an environment, and follows an episode, of its own.
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
        """Another process gets one that has played nothing."""
        return type(self), (self.name, self._make_env, self._choose)

    def act(self, view: AgentView) -> AgentReply:
        """The next action. Raises `EngineError` if the engine breaks."""
        action = self._choose(self._follow(view), view)
        return AgentReply(text=action, action=action)

    def _follow(self, view: AgentView) -> TextEnv:
        """The environment, brought to where the episode is."""
        if self._env is None:
            self._env = self._make_env()
        actions = tuple(turn.action for turn in view.turns)
        if self._task_id != view.task_id or actions[: len(self._actions)] != self._actions:
            self._env.reset(seed=0, options={"task": view.task_id})
            self._task_id, self._actions = view.task_id, ()
        for action in actions[len(self._actions) :]:
            if action is not None and not self._env.state.done:
                self._env.step(action)
        self._actions = actions
        return self._env


def expert(make_env: Callable[[], TextEnv]) -> Privileged:
    """The environment's expert. What it does not win within the step limit, no agent is likely to."""
    return Privileged("expert", make_env, lambda env, view: env.oracle().expert_action() or _idle(env))


def random_choice(make_env: Callable[[], TextEnv], *, seed: int = 0) -> Privileged:
    """Draws evenly among the admissible actions; the same seed and view give the same action.

    Where the engine does not list them it fills a form that is offered with names that are, which may be refused.
    """

    def choose(env: TextEnv, view: AgentView) -> str:
        draw = hashlib.sha256(f"{seed}/{view.task_id}/{len(view.turns)}".encode()).digest()
        number = int.from_bytes(draw[:8], "big")
        if env.state.admissible_actions is not None:
            choices = sorted(env.state.admissible_actions)
            return choices[number % len(choices)] if choices else _idle(env)
        offered = None if env.state.done else env.offered()
        return _idle(env) if offered is None else _filled(offered, number)

    return Privileged("random", make_env, choose)


def _idle(env: TextEnv) -> str:
    """What is sent where there is nothing better to do: a look, where the environment has one."""
    return next((action for action in env.contract.read_only_actions if "{}" not in action), "")


def _filled(offered: Offered, number: int) -> str:
    """A form filled with names. The digits of `number` choose the form and then a name for each of its places."""
    number, form = divmod(number, len(offered.templates))
    action = offered.templates[form]
    for index in range(action.count("{")):
        number, name = divmod(number, max(len(offered.names), 1))
        action = action.replace(f"{{{index}}}", offered.names[name] if offered.names else "")
    return action


def _random(setting: AgentSetting) -> Privileged:
    """Raises `UsageError` for an environment that lists no actions."""
    if not setting.spec.lists_actions:
        name = setting.spec.name
        raise UsageError(f"{name} lists no actions, so the agent random has none to draw from; use another --agent")
    return random_choice(setting.raw_env, seed=setting.seed)


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
