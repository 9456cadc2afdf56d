"""Labelled actions for the intuitive critic to learn from: which action is right in a state, and the chat about it.

An action is right if it brings the goal nearer by the oracle's count. In ALFWorld, where a player cannot know where a
thing is, looking into furniture that was not looked into is right as well, for as long as something that the task needs
was never seen. All else is wrong: what is refused, repeated, or leads away.
"""

from __future__ import annotations

import gymnasium as gym

from align_echo.agents.conversation import said
from align_echo.agents.novices.household import Belief, name_of, read_goal
from align_echo.agents.vanilla import Vanilla
from align_echo.critic.verdict import Verdict, verdict_messages
from align_echo.models.scripted import ScriptedModel
from align_echo.rollout import base_env
from align_echo.train.demonstrations import Demonstration
from align_echo.types import AgentView
from align_echo.wrappers.alfworld.spec import is_invalid

_VANILLA = Vanilla(ScriptedModel(()))
"""Words the chats; never asked."""


def verdict_demonstration(
    view: AgentView, action: str, verdict: Verdict, *, kind: str = "alfworld.verdict"
) -> Demonstration:
    """The agent's chat with the question about the action and the one-word answer, which alone is imitated."""
    asked = verdict_messages(_VANILLA.conversation(view), action)
    spoken = sum(message.role == "assistant" for message in asked)
    weights = (*(0.0,) * spoken, 1.0)
    return Demonstration(kind=kind, messages=(*asked, said(verdict)), weights=weights)


def label(env: gym.Env[str, str], view: AgentView, action: str) -> Verdict | None:
    """Whether the action is right in the environment's present state, which `view` shows and which stays as it is.

    The action goes to the engine as it is, past an interface. None where the goal cannot be reached from here, so that
    no action is right. Raises `EngineError` as a step does, and once the episode is over.
    """
    base = base_env(env)
    before = base.oracle().distance()
    if before is None:
        return None
    here = base.snapshot()
    try:
        observation, _, _, _, _ = base.step(action)
        after = base.oracle().distance()
    finally:
        base.restore(here)
    nearer = after is not None and after < before
    explores = base.contract.environment == "alfworld" and not is_invalid(observation) and _explores(view, action)
    return "correct" if nearer or explores else "wrong"


def _explores(view: AgentView, action: str) -> bool:
    """Whether a household action looks into furniture while something that the task needs was never seen."""
    goal = read_goal(view.goal)
    place = action.strip().removeprefix("go to ").removeprefix("open ")
    if goal is None or place == action.strip():
        return False
    belief = Belief.from_intro(view.initial_observation)
    stood: set[str] = set()
    seen: set[str] = set()
    for turn in view.turns:
        belief.update(turn.observation, goal.dest)
        seen |= {thing for things in belief.contents.values() for thing in things}
        stood.add((turn.action or "").removeprefix("go to "))
    kinds = [name_of(thing) for thing in seen]
    missing = kinds.count(goal.obj) < goal.copies or (bool(goal.tool) and goal.tool not in kinds)
    fresh = place not in belief.contents and (action.strip().startswith("open ") or place not in stood)
    return missing and fresh
