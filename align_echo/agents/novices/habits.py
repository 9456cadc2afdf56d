"""What all scripted novices share: how they act, how chance is drawn, and how long they follow a hint.

What one knows and wants depends on its environment and is left out (`alfworld.py` and its neighbours).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from align_echo.types import AgentReply, AgentView, Turn


@dataclass(frozen=True)
class ScriptedNovice:
    """A script as an agent. `choose` names the next action, which is the whole reply: same view, same action."""

    choose: Callable[[AgentView], str]
    name: str = "novice"

    def act(self, view: AgentView) -> AgentReply:
        """The next action. Never fails to name one."""
        action = self.choose(view)
        return AgentReply(text=action, action=action)


@dataclass(frozen=True)
class Deed:
    """What a novice wants to do next: a verb, the thing it is done to, perhaps where to, and in what room.

    Every word but the verb may be empty.
    """

    verb: str
    thing: str = ""
    place: str = ""
    room: str = ""


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts only."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:6]) / 2**48


def times_followed(turns: Sequence[Turn], command: str) -> int:
    """How often a command came right after the action that was said last."""
    last = turns[-1].action
    return sum(turn.action == command and before.action == last for before, turn in pairwise(turns))
