"""What all scripted novices share: how they act, how chance is drawn, how they read a hint and how long they follow it.

What one knows and wants depends on its environment and is left out (`alfworld.py` and its neighbours).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from align_echo.commands import commands_in
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


CUE = re.compile(r"\b(need|must|should|first|before|try|instead|have to|required?|use|mean)\b", re.IGNORECASE)
"""A word of a text that tells one to do something."""


_NEGATION = re.compile(r"\b(not|never|no|cannot|without|wrong)\b|n't\b", re.IGNORECASE)


def advised(turn: Turn, form: re.Pattern[str], *, plain: bool = False, cued: bool = True) -> list[str]:
    """The actions of a novice's `form` that a turn's text tells one to send, in order, however they are quoted.

    Where no order is read, what is merely named counts, in lines that have a `CUE` (in any, if `cued` is False), and
    with `plain` also what stands there without quotes, in sentences without a no. The turn's own action never counts.
    """
    own = turn.action or ""
    orders = [command.text for command in commands_in(turn.observation, own) if command.kind != "named"]
    orders = [order for order in orders if form.fullmatch(order)]
    if not orders:
        lines = [line for line in turn.observation.splitlines() if not cued or CUE.search(line)]
        named = [command.text for line in lines for command in commands_in(line, own)]
        orders = [name for name in named if form.fullmatch(name)]
        if plain and not orders:
            sayings = [part for line in lines for part in re.split(r"(?<=[.;!?])\s", line)]
            sayings = [saying for saying in sayings if not _NEGATION.search(saying)]
            orders = [match[0] for saying in sayings for match in form.finditer(saying) if match[0] != own]
    return list(dict.fromkeys(orders))


def names_form(text: str, beginning: str) -> bool:
    """Whether a text shows a form of action by how it begins: in quotes of any kind, or with letters for names."""
    words = re.escape(beginning)
    return re.search(rf"""[`'"*«“‘]{words}|\b{words}(?: \w+)* [XYxy]\b""", text) is not None


def times_followed(turns: Sequence[Turn], command: str) -> int:
    """How often a command came right after the action that was said last."""
    last = turns[-1].action
    return sum(turn.action == command and before.action == last for before, turn in pairwise(turns))
