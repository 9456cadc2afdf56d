"""Scripted novice of MiniWoB: a stand-in for a small language model, and NOT a language model.

It clicks elements named in the instruction, types its quoted text, and then submits. It is careless: every few turns it
clicks a random element, misses the element, clicks as if the screen were twice the size, or writes an action in a form
of its own; now and then it declares the task finished too early. It follows feedback, with any kind of quotes. It never
scrolls, drags or goes by color or position. Its scores are upper bounds for the effect of the same interface on a
language model. All draws come from a hash: same view, same action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from align_echo.agents.novices.habits import ScriptedNovice, advised, chance, times_followed
from align_echo.types import AgentView
from align_echo.wrappers.gui.actions import FORMS, ClickAction, FinishAction, Point, TypeAction, write
from align_echo.wrappers.miniwob.page import ScreenLine, read_screen

_COMMAND = re.compile(rf"\b(?:{'|'.join(FORMS)})\([^`\n)]*\)")
_LAST = re.compile(r"submit|login|search|ok|done", re.IGNORECASE)
_TYPED_INTO = ("input text", "input password", "textarea")


@dataclass(frozen=True)
class ScreenHabits:
    """Habits of this novice. Numbers are shares of the turns; the first that applies takes the turn."""

    gives_up: float = 0.02
    own_form: float = 0.06
    clicks_anything: float = 0.25
    doubles: float = 0.06
    off_the_mark: float = 0.15
    heeds_feedback: bool = True


USUAL = ScreenHabits()
STUBBORN = ScreenHabits(heeds_feedback=False)
"""Ignores all hints: an interface must at least do no harm."""


def screen_novice(habits: ScreenHabits = USUAL, *, seed: int = 0, name: str = "novice") -> ScriptedNovice:
    """Build the scripted novice of MiniWoB. It understands MiniWoB's text screens only."""
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
        """Draw a number in [0, 1) from task, turn and occasion only."""
        return chance(self.key, *parts)

    # -------------------------------------------------------- choosing

    def choose(self) -> str:
        hint = self._hint()
        if hint is not None:
            return hint
        if self.draw("give up") < self.habits.gives_up or not self.things:
            return write(FinishAction())
        anything = self.things[int(self.draw("which") * len(self.things))]
        if self.draw("anything") < self.habits.clicks_anything:
            return write(ClickAction(anything.center))
        return self._said(self._sensible() or anything)

    def _hint(self) -> str | None:
        """Return the action named by the last feedback, unless it was already followed twice in vain."""
        if not self.habits.heeds_feedback or not self.turns:
            return None
        for command in advised(self.turns[-1], _COMMAND, plain=True, cued=False):
            if times_followed(self.turns, command) < 2:
                return command
        return None

    def _sensible(self) -> ScreenLine | str | None:
        """Choose what the instruction asks for next: an element to click, a text to type, or None."""
        quoted = re.findall(r'"([^"]*)"', self.goal)
        fields = [line for line in self.things if line.kind in _TYPED_INTO]
        if quoted and fields and re.match(r"(enter|type)\b", self.goal, re.IGNORECASE):
            empty = [line for line in fields if not line.text]
            if empty:
                into = empty[0]
                index = fields.index(into)
                return quoted[min(index, len(quoted) - 1)] if "focused" in into.rest else into
        named = [line for line in self.things if line.kind not in _TYPED_INTO and self._names(line)]
        fresh = [line for line in named if write(ClickAction(line.center)) not in self.done]
        first = [line for line in fresh if not _LAST.fullmatch(line.text)]
        closing = [line for line in self.things if _LAST.fullmatch(line.text)]
        return next(iter([*first, *fresh, *closing]), None)

    def _names(self, line: ScreenLine) -> bool:
        return bool(line.text) and bool(re.search(rf"(?<!\w){re.escape(line.text)}(?!\w)", self.goal, re.IGNORECASE))

    def _said(self, meant: ScreenLine | str) -> str:
        """Write the action, with this turn's habits of form and aim."""
        own = self.draw("form") < self.habits.own_form
        if isinstance(meant, str):
            return f"type {meant}" if own else write(TypeAction(meant))
        x, y = meant.center
        if self.draw("doubles") < self.habits.doubles:
            x, y = 2 * x, 2 * y
        elif self.draw("mark") < self.habits.off_the_mark:
            x, y = x + int((self.draw("x") - 0.5) * 2 * meant.width), y + int((self.draw("y") - 0.5) * 2 * meant.height)
        return f"click {x} {y}" if own else write(ClickAction(Point(max(x, 0), max(y, 0))))
