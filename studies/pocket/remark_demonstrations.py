"""Chats of the careless household teacher whose refusals come with words: idle ones, reasons, commands, wrong commands.

Idle words change nothing: the teacher goes on as if there were none, so that its habits last. A reason or a command
ends them at once, also in the midst of repeating. A command is sent as it is named, right or wrong; one that did not
help is not sent again. Left out: the words themselves (`idle_words.py`, `remarks.py`), and how the shipped interface
is worded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from align_echo.dice import Dice
from align_echo.train.sft import Demonstration
from align_echo.types import AgentView
from studies.pocket.games import other_goals
from studies.pocket.household import CARELESS, REFUSAL, TOLD, Habits, Teacher
from studies.pocket.household_demonstrations import Played, Rooms, demonstration, play
from studies.pocket.idle_words import contentless, idle_rules
from studies.pocket.remarks import misleading, order, other_rules, reason, shuffled_rules

STUBBORN = replace(CARELESS, sticks=0.75, repeats=0.5)
"""Who repeats more often, mostly to the end: so clear a habit outlasts a reader's doubt whether words say something."""

UNREFUSED = 0.35
"""Share of the episodes without a refusal that are shown: there is nothing in them to read."""

KINDS = ("bare", "idle", "reason", "right", "wrong")


@dataclass(frozen=True)
class Lesson:
    """One kind of episode: how likely each of `KINDS` is after a refusal, and which rules come first.

    `rules` is "none", "idle" (words that say nothing), "shipped" (the shipped ones, shuffled) or "other" (other words).
    """

    name: str
    weights: tuple[int, int, int, int, int]
    habits: Habits = STUBBORN
    rules: str = "none"


LESSONS = (
    Lesson("alfworld.bare", (1, 0, 0, 0, 0)),
    Lesson("alfworld.bare", (1, 0, 0, 0, 0), rules="idle"),
    Lesson("alfworld.idle", (0, 1, 0, 0, 0)),
    Lesson("alfworld.idle", (0, 1, 0, 0, 0)),
    Lesson("alfworld.idle", (0, 1, 0, 0, 0)),
    Lesson("alfworld.idle", (1, 3, 0, 0, 0)),
    Lesson("alfworld.idle", (0, 1, 0, 0, 0), rules="idle"),
    Lesson("alfworld.mixed", (2, 4, 1, 2, 1)),
    Lesson("alfworld.mixed", (2, 4, 1, 2, 1), rules="idle"),
    Lesson("alfworld.reasons", (0, 0, 1, 0, 0)),
    Lesson("alfworld.orders", (0, 0, 0, 5, 1)),
    Lesson("alfworld.orders", (0, 0, 1, 2, 2)),
    Lesson("alfworld.advised", (1, 1, 2, 4, 1), TOLD, "shipped"),
    Lesson("alfworld.advised", (2, 1, 1, 2, 1), TOLD, "other"),
)


def lessons_of(rooms: Rooms, task: str, dice: Dice, shipped_rules: str) -> list[Demonstration]:
    """An episode of each lesson in one room, with the shipped interface's own under it, and two under its feedback."""
    demonstrations = []
    goals = dice.shuffled(other_goals(task, dice, len(LESSONS) + 3))
    for number, (lesson, goal) in enumerate(zip(LESSONS, goals[3:], strict=True)):
        own_dice = Dice(f"{task} {lesson.name} {number} {dice.below(10**9)}")
        remarks = Remarks(lesson, own_dice)
        rules = _rules(lesson.rules, own_dice, shipped_rules)
        episode = play(rooms.raw, task, own_dice, lesson.habits, goal=goal, rules=rules, remark=remarks)
        if episode.fit and (remarks.count or own_dice.chance(UNREFUSED)):
            demonstrations.append(demonstration(lesson.name, _alone(episode, own_dice)))
    shown = (("told", rooms.full, TOLD), ("hinted", rooms.feedback, STUBBORN), ("hinted", rooms.feedback, STUBBORN))
    for number, ((name, env, habits), goal) in enumerate(zip(shown, goals[:3], strict=True)):
        own_dice = Dice(f"{task} {name} {number} {dice.below(10**9)}")
        episode = play(env, task, own_dice, habits, goal=goal)
        if episode.fit:
            demonstrations.append(demonstration(f"alfworld.{name}", episode))
    return demonstrations


def _rules(kind: str, dice: Dice, shipped: str) -> str:
    if kind == "idle":
        return idle_rules(dice, shipped)
    if kind == "shipped":
        return shuffled_rules(dice, shipped)
    return other_rules(dice) if kind == "other" else ""


class Remarks:
    """What is said after each refusal of one episode.

    `count` is the number of refusals so far, `misled` are the wrong commands that were named, with the words.
    """

    def __init__(self, lesson: Lesson, dice: Dice) -> None:
        self._kinds = [kind for kind, weight in zip(KINDS, lesson.weights, strict=True) for _ in range(weight)]
        self._dice = dice
        self._same = dice.chance(0.5)
        self._idle = ""
        self.misled: dict[str, str] = {}
        self._obeyed = ""
        self.count = 0

    def __call__(self, teacher: Teacher, view: AgentView) -> str:
        """The refusal on the view's last turn with its words; the teacher is told what to make of them."""
        turn = len(view.turns) - 1
        self.count += 1
        action = view.turns[-1].action or ""
        words = self._again(action)
        if not words:
            kind = self._dice.pick(self._kinds)
            words = self._words(kind, teacher, view, action)
            if kind == "idle":
                teacher.idle.add(turn)
        return f"{REFUSAL} {words}".strip()

    def _again(self, action: str) -> str:
        """What misled once, said again where its command was refused, as an interface that is wrong does."""
        obeyed, self._obeyed = self._obeyed, ""
        return self.misled[obeyed] if obeyed == action and self._dice.chance(0.5) else ""

    def _words(self, kind: str, teacher: Teacher, view: AgentView, action: str) -> str:
        if kind == "bare":
            return ""
        if kind == "idle":
            if not (self._same and self._idle):
                self._idle = contentless(self._dice, action)
            return self._idle
        right = teacher.right
        if kind == "reason":
            return reason(self._dice, right, action, _names_read(view)) or self._order(teacher, right, action)
        if kind == "wrong":
            command = misleading(self._dice, teacher.belief.places, teacher.wanted)
            if command not in (right, action) and command not in self.misled:
                self.misled[command] = order(self._dice, command, action)
                self._obeyed = command
                teacher.obey(command)
                return self.misled[command]
        return self._order(teacher, right, action)

    def _order(self, teacher: Teacher, right: str, action: str) -> str:
        if right == action:
            return ""
        teacher.obey(right)
        return order(self._dice, right, action)


def _names_read(view: AgentView) -> frozenset[str]:
    texts = [view.initial_observation, *(turn.observation for turn in view.turns)]
    return frozenset(name for text in texts for name in re.findall(r"[a-z]+ \d+", text))


def _alone(played: Played, dice: Dice) -> Played:
    """Now and then: the words alone, without the environment's own."""
    if not dice.chance(0.1):
        return played
    steps = tuple(
        step.model_copy(update={"observation": step.observation.removeprefix(f"{REFUSAL} ")})
        for step in played.trajectory.steps
    )
    return replace(played, trajectory=played.trajectory.model_copy(update={"steps": steps}))
