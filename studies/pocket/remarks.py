"""Words after a refusal with content, rules likewise, and chats of a careless household teacher who reads them.

A reader must tell text with content from text without (`idle_words.py`), so each kind comes in more wordings than a
model can learn by heart. Idle words change nothing: the teacher goes on as if there were none. A reason or a command
ends its habits at once, also in the midst of repeating. A command is sent as it is named, right or wrong; if it did
not help, it is not sent again.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace

from align_echo.base.dice import Dice
from align_echo.train.sft import Demonstration
from align_echo.types import AgentView
from align_echo.wrappers.alfworld.routes import APPLIANCES, entity_name
from studies.pocket.household import CARELESS, REFUSAL, TOLD, Habits, Teacher
from studies.pocket.household_demonstrations import Played, Rooms, demonstration, other_goals, play
from studies.pocket.idle_words import QUOTES, contentless, idle_rules, idle_sentence, nothing
from studies.pocket.wordings import wordings

_AFAR, _SHUT, _PUT, _ABSENT, _ORDERS, _LEADS, _ENDS, _RULES = wordings("remarks")


def order(dice: Dice, command: str, action: str) -> str:
    """Words that tell a player to send a command, quoted in some way or not at all.

    Most wordings are put together from parts, and many stand among idle words, so that what tells is the command.
    """
    quotes = dice.pick(QUOTES)
    wording = dice.pick(_ORDERS) if dice.chance(0.4) else _put_together(dice)
    text = wording.format(step=quotes.format(command), action=quotes.format(action))
    if dice.chance(0.25):
        text = f"{nothing(dice, action)} {text}"
    if dice.chance(0.2):
        text = f"{text} {nothing(dice, action)}"
    return f"{text[0].upper()}{text[1:]}" if dice.chance(0.9) else text


def _put_together(dice: Dice) -> str:
    lead, tail = dice.pick(_LEADS), dice.pick(_ENDS)
    if dice.chance(0.25):
        lead = f"{idle_sentence(dice).rstrip('.! ')}{dice.pick((':', ',', ' and', ' -', ' so'))}"
    if dice.chance(0.15):
        tail = f"{dice.pick((',', ' and', ' because', ' -'))} {_uncapitalised(idle_sentence(dice))}"
    return f"{lead} {{step}}{tail}".strip()


def _uncapitalised(text: str) -> str:
    return f"{text[0].lower()}{text[1:]}"


def reason(dice: Dice, right: str, action: str, known: frozenset[str]) -> str:
    """Why an action was refused, without the command that helps; "" where the right next action does not tell.

    `known` are the names that were read in the episode so far.
    """
    names = [name for name in _names(action) if name not in known]
    if names:
        return str(dice.pick(_ABSENT).format(name=_spelled(dice, names[0])))
    if right.startswith("open "):
        return _sentence(dice, _SHUT, right.removeprefix("open "))
    if right.startswith("go to ") and not action.startswith("go to "):
        return _sentence(dice, _AFAR, right.removeprefix("go to "))
    return dice.pick(_PUT) if action.startswith("put ") else ""


def _sentence(dice: Dice, wordings: tuple[str, ...], place: str) -> str:
    text = dice.pick(wordings).format(place=_spelled(dice, place))
    return f"{text[0].upper()}{text[1:]}"


def _spelled(dice: Dice, name: str) -> str:
    return dice.pick(("{}", "{}", "the {}", "`{}`", '"{}"')).format(name)


def _names(action: str) -> list[str]:
    """The names in an action: a word and a number each."""
    words = action.split()
    return [f"{word} {number}" for word, number in itertools.pairwise(words) if number.isdigit()]


def misleading(dice: Dice, places: list[str], wanted: str) -> str:
    """A command that does not help: refused, or without use. `wanted` is the kind of thing that is looked for."""
    place = dice.pick(places)
    kind = entity_name(place)
    numbers = [int(name.rsplit(" ", 1)[1]) for name in places if entity_name(name) == kind]
    beyond = f"{kind} {max(numbers) + 1 + dice.below(2)}"
    return dice.pick(
        (
            f"go to {beyond}",
            f"go to {beyond}",
            f"go to {place}",
            f"go to {place}",
            f"open {place}",
            f"examine {place}",
            f"take {wanted} {1 + dice.below(3)} from {place}",
            f"use {dice.pick(('desklamp', 'floorlamp'))} 1",
            f"{dice.pick(sorted(APPLIANCES))} {wanted} 1 with {place}",
            "inventory",
            "look",
        )
    )


def other_rules(dice: Dice) -> str:
    """A sheet of rules in words of its own: some wording of most of the rules that hold, in any order."""
    lines = [dice.pick(wordings) for wordings in dice.shuffled(_RULES) if dice.chance(0.85)]
    bullet = dice.pick(("- ", "- ", "* ", ""))
    heading = dice.pick(("Learned by experiment in this environment:", "Rules:", "What you should know:", ""))
    return "\n".join([*([heading] if heading else []), *(bullet + line for line in lines)])


def shuffled_rules(dice: Dice, rules: str) -> str:
    """Rules with their lines in another order, some left out, sometimes with idle lines among them."""
    heading, *lines = rules.split("\n")
    lines += [f"- {idle_sentence(dice)}" for _ in range(dice.below(4) * dice.below(2))]
    return "\n".join([heading, *(line for line in dice.shuffled(lines) if dice.chance(0.85))])


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
