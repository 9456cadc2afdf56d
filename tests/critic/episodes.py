"""What the tests of labels share: a view after some actions, and a shortest way on from there."""

from __future__ import annotations

import gymnasium as gym

from align_echo.rollout.session import base_env, extend, start_view, take_turn
from align_echo.types import AgentReply, AgentView


def played(env: gym.Env[str, str], task: str, *actions: str) -> AgentView:
    """The view after actions."""
    view = start_view(env, task, "", seed=0)
    for action in actions:
        view = extend(view, take_turn(env, AgentReply(text=action, action=action)))
    return view


def way(env: gym.Env[str, str]) -> list[str]:
    """A shortest way to the goal from here."""
    return list(base_env(env).oracle().route())  # type: ignore[attr-defined]
