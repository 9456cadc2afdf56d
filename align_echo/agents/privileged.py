"""Agents that see what no agent may: bounds to compare with, never subjects of a measurement.

`Expert` plays the environment's own expert (the ceiling), `RandomChoice` draws among the actions that the engine would
accept, or among those that its API offers (the floor). Each follows the episode in a raw environment of its own, from
the actions it is shown; the environment that is measured tells them nothing.
"""

from __future__ import annotations

import abc
import hashlib
import threading
from collections.abc import Callable

from align_echo.agents.spec import AgentSetting, AgentSpec
from align_echo.errors import UsageError
from align_echo.types import Agent, AgentReply, AgentView
from align_echo.wrappers.text_env import Offered, TextEnv


class _Shadow(threading.local):
    """A thread's own environment, and the episode that it follows."""

    env: TextEnv | None = None
    task_id: str = ""
    actions: tuple[str | None, ...] = ()


class Privileged(abc.ABC):
    """Follows an episode in an environment of its own. `make_env` gives a raw one without a step limit."""

    name: str

    def __init__(self, make_env: Callable[[], TextEnv]) -> None:
        self._make_env = make_env
        self._shadow = _Shadow()

    def act(self, view: AgentView) -> AgentReply:
        """The next action. Raises `EngineError` if the engine breaks."""
        action = self._choose(self._follow(view), view)
        return AgentReply(text=action, action=action)

    @abc.abstractmethod
    def _choose(self, env: TextEnv, view: AgentView) -> str:
        """An action in the present state of `env`."""

    def _follow(self, view: AgentView) -> TextEnv:
        """The environment, brought to where the episode is."""
        shadow = self._shadow
        if shadow.env is None:
            shadow.env = self._make_env()
        actions = tuple(turn.action for turn in view.turns)
        if shadow.task_id != view.task_id or actions[: len(shadow.actions)] != shadow.actions:
            shadow.env.reset(seed=0, options={"task": view.task_id})
            shadow.task_id, shadow.actions = view.task_id, ()
        for action in actions[len(shadow.actions) :]:
            if action is not None and not shadow.env.state.done:
                shadow.env.step(action)
        shadow.actions = actions
        return shadow.env


class Expert(Privileged):
    """The environment's expert. What it does not win within the step limit, no agent is likely to."""

    name = "expert"

    def _choose(self, env: TextEnv, view: AgentView) -> str:
        return env.oracle().expert_action() or _idle(env)


class RandomChoice(Privileged):
    """Draws evenly among the admissible actions; the same seed and view give the same action.

    Where the engine does not list them it fills a form that is offered with names that are, which may be refused.
    """

    name = "random"

    def __init__(self, make_env: Callable[[], TextEnv], *, seed: int = 0) -> None:
        super().__init__(make_env)
        self._seed = seed

    def _choose(self, env: TextEnv, view: AgentView) -> str:
        draw = hashlib.sha256(f"{self._seed}/{view.task_id}/{len(view.turns)}".encode()).digest()
        number = int.from_bytes(draw[:8], "big")
        if env.state.admissible_actions is not None:
            choices = sorted(env.state.admissible_actions)
            return choices[number % len(choices)] if choices else _idle(env)
        offered = None if env.state.done else env.offered()
        return _idle(env) if offered is None else _filled(offered, number)


def _idle(env: TextEnv) -> str:
    """What is sent where there is nothing better to do: a look, where the environment has one."""
    return next((action for action in env.contract.read_only_actions if "{}" not in action), "")


def _filled(offered: Offered, number: int) -> str:
    """A form with names in its places, drawn by a number: its digits in the base of what there is to choose from."""
    number, form = divmod(number, len(offered.templates))
    action = offered.templates[form]
    for index in range(action.count("{")):
        number, name = divmod(number, max(len(offered.names), 1))
        action = action.replace(f"{{{index}}}", offered.names[name] if offered.names else "")
    return action


def _expert(setting: AgentSetting) -> Agent:
    return Expert(setting.raw_env)


def _random(setting: AgentSetting) -> Agent:
    """Raises `UsageError` for an environment that lists no actions."""
    if not setting.spec.lists_actions:
        name = setting.spec.name
        raise UsageError(f"{name} lists no actions, so the agent random has none to draw from; use another --agent")
    return RandomChoice(setting.raw_env, seed=setting.seed)


EXPERT = AgentSpec(
    "expert",
    "the environment's own expert, which sees the hidden state: a ceiling, not an agent",
    asks_model=False,
    build=_expert,
    needs_expert=True,
)
RANDOM = AgentSpec(
    "random", "draws among the actions that the engine accepts or offers: a floor, not an agent", False, _random
)
