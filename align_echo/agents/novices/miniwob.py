"""A scripted novice of MiniWoB: a stand-in for a small language model, and NOT a language model.

It clicks what the instruction names, types what stands there in quotes, and then submits. It is careless: every few
turns it clicks just anything, beside what it means, where the thing would be on a screen of twice the size, or writes
an action in a form of its own; now and then it says that it is done when it is not. It does what feedback tells it
to, however that quotes the action. It never scrolls, drags or goes by color or place. Scores with it are upper
bounds for what the same interface does for a language model. All draws come from a hash: same view, same action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from align_echo.agents.novices.habits import ScriptedNovice, advised, chance, times_followed
from align_echo.types import AgentView
from align_echo.wrappers.gui.actions import FORMS, Click, Finished, Point, Type, write
from align_echo.wrappers.miniwob.screen import ScreenLine, read_screen

_COMMAND = re.compile(rf"\b(?:{'|'.join(FORMS)})\([^`\n)]*\)")
_LAST = re.compile(r"submit|login|search|ok|done", re.IGNORECASE)
_TYPED_INTO = ("input text", "input password", "textarea")


@dataclass(frozen=True)
class ScreenHabits:
    """What this novice does of itself. Numbers are shares of the turns; the first that applies takes the turn."""

    gives_up: float = 0.02
    own_form: float = 0.06
    clicks_anything: float = 0.25
    doubles: float = 0.06
    off_the_mark: float = 0.15
    heeds_feedback: bool = True


USUAL = ScreenHabits()
STUBBORN = ScreenHabits(heeds_feedback=False)
"""Never takes a hint: an interface must at least do it no harm."""


def screen_novice(habits: ScreenHabits = USUAL, *, seed: int = 0, name: str = "novice") -> ScriptedNovice:
    """The scripted novice of MiniWoB. It acts on MiniWoB's text screens only."""
    return ScriptedNovice(lambda view: _ScreenMind(habits, seed, view).choose(), name)


class _ScreenMind:
    """The novice's belief at one moment, rebuilt from the view."""

    def __init__(self, habits: ScreenHabits, seed: int, view: AgentView) -> None:
        self.habits = habits
        self.key = f"{seed}/{view.task_id}/{len(view.turns)}"
        self.goal = view.goal
        self.turns = view.turns
        self.things = read_screen(view.turns[-1].observation if view.turns else view.initial_observation)
        self.done = {turn.action for turn in view.turns}

    def draw(self, *parts: object) -> float:
        """A number in [0, 1) that depends on task, turn and occasion only."""
        return chance(self.key, *parts)

    # -------------------------------------------------------- choosing

    def choose(self) -> str:
        hint = self._hint()
        if hint is not None:
            return hint
        if self.draw("give up") < self.habits.gives_up or not self.things:
            return write(Finished())
        anything = self.things[int(self.draw("which") * len(self.things))]
        if self.draw("anything") < self.habits.clicks_anything:
            return write(Click(anything.center))
        return self._said(self._sensible() or anything)

    def _hint(self) -> str | None:
        """The action that the last feedback names, unless it was followed twice already in vain."""
        if not self.habits.heeds_feedback or not self.turns:
            return None
        for command in advised(self.turns[-1], _COMMAND, plain=True, cued=False):
            if times_followed(self.turns, command) < 2:
                return command
        return None

    def _sensible(self) -> ScreenLine | str | None:
        """What the instruction asks for next: something to click, a text to type, or nothing that it knows of."""
        quoted = re.findall(r'"([^"]*)"', self.goal)
        fields = [thing for thing in self.things if thing.kind in _TYPED_INTO]
        if quoted and fields and re.match(r"(enter|type)\b", self.goal, re.IGNORECASE):
            empty = [thing for thing in fields if not thing.text]
            if empty:
                into = empty[0]
                place = fields.index(into)
                return quoted[min(place, len(quoted) - 1)] if "focused" in into.rest else into
        named = [thing for thing in self.things if thing.kind not in _TYPED_INTO and self._names(thing)]
        fresh = [thing for thing in named if write(Click(thing.center)) not in self.done]
        first = [thing for thing in fresh if not _LAST.fullmatch(thing.text)]
        closing = [thing for thing in self.things if _LAST.fullmatch(thing.text)]
        return next(iter([*first, *fresh, *closing]), None)

    def _names(self, thing: ScreenLine) -> bool:
        return bool(thing.text) and bool(re.search(rf"(?<!\w){re.escape(thing.text)}(?!\w)", self.goal, re.IGNORECASE))

    def _said(self, meant: ScreenLine | str) -> str:
        """The action for what it means, in the way that it says things this turn."""
        own = self.draw("form") < self.habits.own_form
        if isinstance(meant, str):
            return f"type {meant}" if own else write(Type(meant))
        x, y = meant.center
        if self.draw("doubles") < self.habits.doubles:
            x, y = 2 * x, 2 * y
        elif self.draw("mark") < self.habits.off_the_mark:
            x, y = x + int((self.draw("x") - 0.5) * 2 * meant.width), y + int((self.draw("y") - 0.5) * 2 * meant.height)
        return f"click {x} {y}" if own else write(Click(Point(max(x, 0), max(y, 0))))
