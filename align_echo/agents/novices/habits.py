"""What all scripted novices have in common: how they act, draws that depend on the occasion only, and how long a hint
is followed. Left out: what one knows and wants, which is its environment's (`alfworld.py` and its neighbours).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Generic, TypeVar

from align_echo.types import AgentReply, AgentView, Turn

HabitsT = TypeVar("HabitsT")


class ScriptedNovice(ABC, Generic[HabitsT]):
    """A novice with habits, by default the `usual` ones: an action that `choose` names is its whole reply."""

    usual: type[HabitsT]

    def __init__(self, habits: HabitsT | None = None, *, seed: int = 0, name: str = "novice") -> None:
        self.habits = habits or self.usual()
        self.seed = seed
        self.name = name

    def act(self, view: AgentView) -> AgentReply:
        """The next action. Never fails to name one."""
        action = self.choose(view)
        return AgentReply(text=action, action=action)

    @abstractmethod
    def choose(self, view: AgentView) -> str:
        """The next action: same view, same action."""


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts only."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:6]) / 2**48


def times_followed(turns: Sequence[Turn], command: str) -> int:
    """How often a command came right after the action that was said last."""
    last = turns[-1].action
    return sum(turn.action == command and before.action == last for before, turn in pairwise(turns))
