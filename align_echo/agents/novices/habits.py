"""Shared by all scripted novices: acting, drawing chance, reading a hint, counting how often it was followed.

The knowledge and goals of each novice are in its environment's file (`alfworld.py` and others).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from align_echo.base.commands import commands_in
from align_echo.types import AgentReply, AgentView, Turn


@dataclass(frozen=True)
class ScriptedNovice:
    """A script as an agent. `choose` returns the next action, which is the full reply: same view, same action."""

    choose: Callable[[AgentView], str]
    name: str = "novice"

    def act(self, view: AgentView) -> AgentReply:
        """Return the next action, always exactly one."""
        action = self.choose(view)
        return AgentReply(text=action, action=action)


@dataclass(frozen=True)
class NoviceStep:
    """A novice's next step: a verb, an item, perhaps a receptacle, and a room.

    All but the verb may be empty.
    """

    verb: str
    item: str = ""
    receptacle: str = ""
    room: str = ""


def chance(*parts: object) -> float:
    """Hash the parts to a number in [0, 1)."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:6]) / 2**48


CUE = re.compile(r"\b(need|must|should|first|before|try|instead|have to|required?|use|mean)\b", re.IGNORECASE)
"""A word of advice in a text."""


_NEGATION = re.compile(r"\b(not|never|no|cannot|without|wrong)\b|n't\b", re.IGNORECASE)


def advised(turn: Turn, form: re.Pattern[str], *, plain: bool = False, cued: bool = True) -> list[str]:
    """List the actions of `form` that a turn's text advises, in order, with any kind of quotes.

    If the text holds no command, actions merely named count too, in lines with a `CUE` (in any line, if `cued` is
    False). With `plain`, unquoted actions in sentences without a negation count as well. The turn's own action never
    counts.
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
    """Return whether a text shows a form of action by its beginning: quoted, or with letters for names."""
    words = re.escape(beginning)
    return re.search(rf"""[`'"*«“‘]{words}|\b{words}(?: \w+)* [XYxy]\b""", text) is not None


def times_followed(turns: Sequence[Turn], command: str) -> int:
    """Count how often a command came right after the present last action."""
    last = turns[-1].action
    return sum(turn.action == command and before.action == last for before, turn in pairwise(turns))
