"""Demonstrations in ALFWorld for the pocket model, on games of the training floor plans that no split lists.

The teacher sees what a player sees: it searches furniture of the kinds that can hold the thing in the order in which
the room was described, what stands open first, stops at the first hit, then does the task. A fixed order matters: a
small model learns to read the next place off the description, and learns little from a shuffled one. A careless teacher
has habits that ALIGN reports of language models: it acts at a distance, says "put" for "move", repeats what was
refused (some to the end), and forgets a treatment that was refused to it. Shown the feedback of an interface, either
kind does at once what that names. Either now and then looks for a place or takes a thing that is not there, which is
marked as not to be imitated, and goes on. Left out: the other environments.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from align_echo.base.dice import Dice
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.alfworld.games import tables
from align_echo.wrappers.alfworld.routes import APPLIANCES, BeliefState, entity_name, read_goal

REFUSAL = "Nothing happens."
GIVES_UP = "look"
CLOSED_AT_FIRST = ("cabinet", "drawer", "fridge", "microwave", "safe")
ASTRAY = 0.05
"""How likely a turn of a search goes to furniture that does not exist, or takes a thing that is not there."""
ASTRAY_AGAIN = 0.3
"""How likely it then does the same again."""


@dataclass(frozen=True)
class Habits:
    """How likely an episode has each habit; `repeats` is drawn anew after each refusal without a reason.

    Who `sticks` repeats what was refused without a reason to the end; who `forgets` passes over a refused treatment.
    """

    treats_afar: float = 0.0
    takes_afar: float = 0.0
    examines_afar: float = 0.0
    says_put: float = 0.0
    skips_opening: float = 0.0
    repeats: float = 0.0
    forgets: float = 0.0
    sticks: float = 0.0


CAREFUL = Habits()
CARELESS = Habits(
    treats_afar=0.9, takes_afar=0.35, examines_afar=0.2, says_put=0.45, skips_opening=0.3, repeats=0.3, forgets=0.7,
    sticks=0.35,
)  # fmt: skip
TOLD = Habits(treats_afar=0.3, takes_afar=0.15, examines_afar=0.1, says_put=0.25, skips_opening=0.15)
"""A careless player who was told the rules, or is told the reason of each refusal."""


@dataclass(frozen=True)
class Intent:
    """The right action now, and the one that it prepares (itself where it prepares none)."""

    action: str
    aim: str


class Teacher:
    """One episode's player, an `Agent`: new for each episode. It wins, unless its habits or the turn limit forbid it.

    `lost_at` is the turn, counted from 0, on which a habit lost it the task; None if none did.
    `astray` are the turns not to be imitated; `idle` are those, set from outside, whose refusal came with words that
    say nothing and count as no words; `done` says whether the task is done, by what it read.
    """

    name = "teacher"

    def __init__(self, dice: Dice, habits: Habits = CAREFUL, *, search_first: tuple[str, ...] = ()) -> None:
        self._dice = dice
        self._has = {name: dice.chance(getattr(habits, name)) for name in Habits.__dataclass_fields__}
        self._repeats = habits.repeats
        self._search_first = search_first
        self._refused: Counter[str] = Counter()
        self._slipped: set[str] = set()
        self._slipped_to = ""
        self._seen = 0
        self._at = ""
        self.lost_at: int | None = None
        self.astray: set[int] = set()
        self.idle: set[int] = set()
        self._commanded = ""
        self._delivered = 0

    @property
    def done(self) -> bool:
        """Whether what the goal asks for has happened."""
        return self.lost_at is None and self._delivered >= self._goal.copies

    def follow(self, view: AgentView) -> None:
        """Take in what happened since it was asked last."""
        for turn in view.turns[self._seen :]:
            self._live(turn.action or "", turn.observation)
        self._seen = len(view.turns)

    def act(self, view: AgentView) -> AgentReply:
        """The next action. Views must come in order, one turn at a time."""
        if not view.turns:
            goal = read_goal(view.goal)
            if goal is None:
                raise ValueError(f"the teacher cannot read the goal {view.goal!r}")
            self._goal = goal
            self._belief = BeliefState.from_intro(view.initial_observation)
        self.follow(view)
        action = self._choose(view)
        return AgentReply(text=action, action=action)

    def obey(self, command: str) -> None:
        """Send this next, whatever it is; after that, what is right."""
        self._commanded = command

    @property
    def right(self) -> str:
        """The right action now, by what it knows."""
        return self._intent().action

    @property
    def wanted(self) -> str:
        """The kind of thing that the task is about."""
        return self._goal.obj

    @property
    def belief(self) -> BeliefState:
        """What it read."""
        return self._belief

    # ------------------------------------------------------------ what it knows

    def _live(self, action: str, observation: str) -> None:
        if observation.startswith(REFUSAL):
            self._refused[action] += 1
            return
        held = self._belief.holding
        self._belief.update(observation, self._goal.dest)
        if held is not None and entity_name(held) == self._goal.obj:
            put = action == f"move {held} to {self._goal.dest} 1"
            used = self._goal.kind == "light" and entity_name(action.removeprefix("use ")) == self._goal.tool
            treated = self._goal.kind not in APPLIANCES or self._goal.kind in self._belief.done_to.get(held, ())
            self._delivered += (put and treated) or used
        for verb in ("go to ", "examine "):
            place = action.removeprefix(verb)
            if place != action and place in self._belief.places:
                self._at = place

    # ------------------------------------------------------------ what it wants

    def _choose(self, view: AgentView) -> str:
        command, self._commanded = self._commanded, ""
        if command:
            self.lost_at = None if self._has["sticks"] else self.lost_at
            return command
        last = view.turns[-1] if view.turns else None
        in_vain = last is not None and (last.observation == REFUSAL or len(view.turns) - 1 in self.idle)
        if last is not None and in_vain and last.action == self._slipped_to:
            if self._has["sticks"]:
                self.lost_at = len(view.turns) if self.lost_at is None else self.lost_at
                return last.action
            if self._refused[last.action] < 4 and self._dice.chance(self._repeats):
                return last.action
            if last.action.split()[0] in APPLIANCES and self._has["forgets"]:
                self._belief.done_to.setdefault(self._belief.holding or "", set()).add(self._goal.kind)
                self.lost_at = len(view.turns)
        elif self._has["sticks"]:
            self.lost_at = None
        intent = self._intent()
        wrong = self._stray(intent, view)
        if wrong is not None:
            self.astray.add(len(view.turns))
            return wrong
        self._slipped_to = self._slip(intent) or ""
        return self._slipped_to or intent.action

    def _intent(self) -> Intent:
        goal, belief = self._goal, self._belief
        held = belief.holding
        if held is None or entity_name(held) != goal.obj:
            seen_at = belief.find(goal.obj)
            return self._near(seen_at[1], f"take {seen_at[0]} from {seen_at[1]}") if seen_at else self._search(goal.obj)
        if goal.kind == "light":
            lamp = belief.find(goal.tool)
            return self._near(lamp[1], f"use {lamp[0]}") if lamp else self._search(goal.tool)
        if goal.kind in APPLIANCES and goal.kind not in belief.done_to.get(held, ()):
            appliance = f"{APPLIANCES[goal.kind]} 1"
            return self._near(appliance, f"{goal.kind} {held} with {appliance}", inside=False)
        target = f"{goal.dest} 1"
        return self._near(target, f"move {held} to {target}")

    def _near(self, place: str, aim: str, *, inside: bool = True) -> Intent:
        """Go there (look at it if it is within reach and cannot be gone to), open it if need be, then the aim."""
        go = f"go to {place}"
        if self._at != place:
            return Intent(f"examine {place}" if self._refused[go] else go, aim)
        if inside and place in self._belief.closed and not self._refused[f"open {place}"]:
            return Intent(f"open {place}", aim)
        return Intent(aim, aim)

    def _search(self, name: str) -> Intent:
        for place in self._order(name):
            if place in self._belief.contents or self._refused[f"examine {place}"] > 1:
                continue
            if self._at == place and place not in self._belief.closed:
                continue
            return self._near(place, f"examine {place}")
        return Intent(GIVES_UP, GIVES_UP)

    def _order(self, name: str) -> list[str]:
        """Furniture in the order of the search: what it was advised, what can hold the thing, then the rest."""
        places = self._belief.places
        can = [index for index in places if name in holdable(entity_name(index))]
        open_first = sorted(can, key=lambda place: entity_name(place) in CLOSED_AT_FIRST)
        return list(
            dict.fromkeys(
                [*(receptacle for receptacle in self._search_first if receptacle in places), *open_first, *places]
            )
        )

    # ------------------------------------------------------------ what it gets wrong

    def _stray(self, intent: Intent, view: AgentView) -> str | None:
        """Now and then in a search: furniture that is not there, or the thing where it is not; None otherwise."""
        last = len(view.turns) - 1
        if last in self.astray and self._dice.chance(ASTRAY_AGAIN):
            return view.turns[last].action
        if not intent.aim.startswith("examine ") or not self._dice.chance(ASTRAY):
            return None
        if self._at and self._at not in self._belief.closed and self._dice.chance(0.4):
            return f"take {self._goal.obj} 1 from {self._at}"
        kinds = {entity_name(place) for place in self._belief.places}
        kind = self._dice.pick(sorted(kinds if self._dice.chance(0.7) else furniture() - kinds))
        numbers = [int(place.rsplit(" ", 1)[1]) for place in self._belief.places if entity_name(place) == kind]
        return f"go to {kind} {max(numbers, default=0) + 1}"

    def _slip(self, intent: Intent) -> str | None:
        """What it sends instead of the right action, once for each habit of the episode; None for no slip."""
        for habit, action in self._temptations(intent):
            if self._has[habit] and habit not in self._slipped and self._refused[action] == 0:
                self._slipped.add(habit)
                return action
        return None

    def _temptations(self, intent: Intent) -> Iterator[tuple[str, str]]:
        verb = intent.aim.split()[0]
        if intent.action.startswith("go to "):
            if verb in APPLIANCES:
                yield "treats_afar", intent.aim
            if verb == "take":
                yield "takes_afar", intent.aim
            if verb == "examine":
                yield "examines_afar", intent.aim
        if intent.action.startswith("open "):
            place = intent.action.removeprefix("open ")
            held = self._belief.holding
            yield "skips_opening", f"move {held} to {place}" if held else f"take {self._goal.obj} 1 from {place}"
        if intent.action.startswith("move "):
            thing, place = intent.action.removeprefix("move ").split(" to ")
            yield "says_put", f"put {thing} in/on {place}"


@functools.cache
def furniture() -> frozenset[str]:
    """Kinds of furniture, in lower case."""
    return frozenset(name.lower() for name in tables().holds)


@functools.cache
def holdable(kind: str) -> frozenset[str]:
    """Kinds of things, in lower case, that furniture of a kind can hold."""
    table = {name.lower(): things for name, things in tables().holds.items()}
    lamps = {"desklamp"} if kind in ("desk", "sidetable", "dresser", "diningtable", "coffeetable", "shelf") else set()
    return frozenset(thing.lower() for thing in table.get(kind, ())) | frozenset(lamps)
