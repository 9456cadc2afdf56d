"""A scripted novice for offline use: a stand-in for a small language model, and NOT a language model.

It knows what it wants (find the thing, treat it, put it there) and not how the engine wants it said. Its habits are
those seen in published logs of small models on ALFWorld: it examines, takes and uses things without going there first,
says "put" for "move", leaves out instance numbers, repeats an action that did nothing, and does what feedback tells it
when that names the missing step. It reads rules told up front weakly. Success rates with it are upper bounds for what
the same interface does for a language model of that size. All draws come from a hash: same view, same action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from align_echo.agents.novices.habits import Deed, ScriptedNovice, advised, chance, times_followed
from align_echo.types import AgentView
from align_echo.wrappers.alfworld.household import (
    APPLIANCES,
    ENTITY,
    BeliefState,
    HouseholdGoal,
    entity_name,
    read_goal,
)

_THE = r"(?:the )?"
_COMMAND = re.compile(
    rf"\b(?:go to {_THE}{ENTITY}|open {_THE}{ENTITY}|close {_THE}{ENTITY}|take {_THE}{ENTITY} from {_THE}{ENTITY}"
    rf"|move {_THE}{ENTITY} to {_THE}{ENTITY}|use {_THE}{ENTITY}|examine {_THE}{ENTITY}"
    rf"|(?:heat|cool|clean) {_THE}{ENTITY} with {_THE}{ENTITY})"
)
_LIKELY = ("countertop", "table", "desk", "bed", "shelf", "sofa", "dresser", "stand", "fridge", "cabinet", "drawer")


@dataclass(frozen=True)
class HouseHabits:
    """What this novice does of itself. Numbers are shares of the occasions."""

    goes_first: float = 0.2
    opens_first: float = 0.7
    says_put: bool = True
    drops_numbers: bool = True
    patience: int = 4
    heeds_feedback: bool = True
    heeds_rules: float = 0.5


USUAL = HouseHabits()
STUBBORN = HouseHabits(heeds_feedback=False, heeds_rules=0.0)
"""Never takes a hint: an interface must at least do it no harm."""

CAREFUL = HouseHabits(goes_first=0.95, opens_first=0.0)
"""Goes to places first, so it fails in other ways than the default novice."""


def house_novice(habits: HouseHabits = USUAL, *, seed: int = 0, name: str = "novice") -> ScriptedNovice:
    """The scripted novice of ALFWorld. It acts on ALFWorld's text only."""
    return ScriptedNovice(lambda view: _HouseMind(habits, seed, view).choose(), name)


class _HouseMind:
    """The novice's belief at one moment, rebuilt from the view."""

    def __init__(self, habits: HouseHabits, seed: int, view: AgentView) -> None:
        self.habits = habits
        self.key = f"{seed}/{view.task_id}"
        self.round = 0
        self.goal = read_goal(view.goal)
        self.belief = BeliefState.from_intro(view.initial_observation)
        self.advice = read_rules(view.rules)
        self.turns = view.turns
        self.tries: dict[str, int] = {}
        self.heard: set[tuple[str, str]] = set()
        self.been: list[str] = []
        for turn in view.turns:
            self._live(turn.action or "", turn.observation)

    def _live(self, action: str, observation: str) -> None:
        destination = self.goal.dest if self.goal else ""
        news = self.belief.update(observation, destination)
        known = (action, observation) in self.heard
        self.heard.add((action, observation))
        if news and not known:
            self.tries.pop(action, None)
        else:
            self.tries[action] = self.tries.get(action, 0) + 1
        if action.startswith("go to "):
            self.been.append(action.removeprefix("go to "))

    def draw(self, *parts: object) -> float:
        """A number in [0, 1) that depends on task and occasion only."""
        return chance(self.key, self.round, *parts)

    # -------------------------------------------------------- choosing

    def choose(self) -> str:
        hint = self._hint()
        if hint is not None:
            return hint
        for _ in range(3 * (len(self.belief.places) + 3)):
            intent = self._intent()
            action = self._say(intent)
            if self.tries.get(action, 0) < self._patience(action):
                return action
            self._give_up(intent)
        return "look"

    def _hint(self) -> str | None:
        """The step that the last feedback names, unless it was followed twice already in vain."""
        if not self.habits.heeds_feedback or not self.turns:
            return None
        last = self.turns[-1]
        heard = last.model_copy(update={"observation": last.observation.lower()})
        for phrase in advised(heard, _COMMAND, plain=True):
            command = phrase.replace(" the ", " ")
            if command != last.action and times_followed(self.turns, command) < 2:
                return command
        return None

    def _patience(self, action: str) -> int:
        """How often an action is tried in vain before it is given up, over all rounds so far."""
        return (self.round + 1) * (1 + int(self.draw("patience", action) * self.habits.patience))

    def _give_up(self, intent: Deed) -> None:
        """Nothing came of it: it must have meant that there is nothing to be had there."""
        if intent.verb == "search":
            self.belief.contents.setdefault(intent.place, [])
        elif intent.verb == "take":
            objects = self.belief.contents.get(intent.place, [])
            if intent.thing in objects:
                objects.remove(intent.thing)
        else:
            self.round += 1

    def _intent(self) -> Deed:
        belief, goal = self.belief, self.goal
        if goal is None:
            return self._search()
        if belief.holding is not None:
            if entity_name(belief.holding) != goal.obj:
                return Deed("put", belief.holding, self._place(goal.dest))
            return self._use_held(goal, belief.holding)
        seen = belief.find(goal.obj)
        if seen is not None:
            return Deed("take", *seen)
        return self._search()

    def _use_held(self, goal: HouseholdGoal, thing: str) -> Deed:
        if goal.kind == "light":
            lamp = self.belief.find(goal.tool)
            return Deed("use", lamp[0], lamp[1]) if lamp else self._search()
        if goal.kind in APPLIANCES and goal.kind not in self.belief.done_to.get(thing, ()):
            return Deed(goal.kind, thing, self._place(APPLIANCES[goal.kind]))
        return Deed("put", thing, self._place(goal.dest))

    def _place(self, name: str) -> str:
        return next((place for place in self.belief.places if entity_name(place) == name), f"{name} 1")

    def _search(self) -> Deed:
        unseen = [place for place in self.belief.places if place not in self.belief.contents]
        if not unseen:
            placed = self.belief.placed
            self.belief.contents = {
                place: objects
                for place, objects in self.belief.contents.items()
                if any(obj in placed for obj in objects)
            }
            self.round += 1
            unseen = [place for place in self.belief.places if place not in self.belief.contents]
        if not unseen:
            return Deed("look")
        return Deed("search", place=min(unseen, key=self._reluctance))

    def _reluctance(self, place: str) -> tuple[float, str]:
        rank = next((i for i, word in enumerate(_LIKELY) if word in place), len(_LIKELY))
        return rank + 8 * self.draw("order", place), place

    # -------------------------------------------------------- saying

    def _say(self, intent: Deed) -> str:
        if intent.verb == "look":
            return "look"
        current = self.been[-1] if self.been else ""
        occasion = (intent.verb, intent.thing, intent.place)
        goes = self.draw("go", *occasion) < self._will("go to", intent.verb, self.habits.goes_first)
        if goes and current != intent.place and self.tries.get(f"go to {intent.place}", 0) == 0:
            return f"go to {intent.place}"
        opens = self.draw("open", *occasion) < self._will("open", intent.verb, self.habits.opens_first)
        if opens and intent.place in self.belief.closed and self.tries.get(f"open {intent.place}", 0) == 0:
            return f"open {intent.place}"
        return self._phrase(intent)

    def _phrase(self, intent: Deed) -> str:
        thing, place = intent.thing, intent.place
        if intent.verb == "search":
            return f"examine {place}"
        if intent.verb == "take":
            return f"take {thing} from {place}"
        if intent.verb == "put":
            knows = self.draw("word", thing, place) < self._will("move", "put", 0.0)
            patient = self.tries.get(f"put {thing} in/on {place}", 0) < self._patience(f"put {thing}")
            if self.habits.says_put and patient and not knows:
                return f"put {thing} in/on {place}"
            return f"move {thing} to {place}"
        if intent.verb == "use":
            short = f"use {entity_name(thing)}"
            if self.habits.drops_numbers and self.tries.get(short, 0) < self._patience(short):
                return short
            return f"use {thing}"
        return f"{intent.verb} {thing} with {place}"

    def _will(self, step: str, verb: str, habit: float) -> float:
        """How likely it takes a step first: by habit, or because the rules told it to."""
        verb = {"search": "examine", "put": "move"}.get(verb, verb) if step != "move" else verb
        return max(habit, self.habits.heeds_rules) if (step, verb) in self.advice else habit


def read_rules(rules: str) -> frozenset[tuple[str, str]]:
    """(step, verb) pairs that rules told up front state: do `step` before `verb`, or say `step` instead of it.

    A weak reader: it takes in sentences with "before" (or "instead of") in them and skips every sentence with a no in
    it, and it pays no heed to conditions.
    """
    pairs: set[tuple[str, str]] = set()
    verbs = ("examine", "take", "move", "open", "close", "use", "heat", "cool", "clean", "put")
    for sentence in re.split(r"[\n.;]+", rules.lower()):
        if re.search(r"\b(not|never|no|cannot|can't|don't|without)\b", sentence):
            continue
        named = [verb for verb in verbs if re.search(rf"\b{verb}\b", sentence)]
        if re.search(r"\bbefore\b", sentence):
            pairs |= {("go to", verb) for verb in named if re.search(r"\bgo(ing)? to\b", sentence)}
            pairs |= {("open", verb) for verb in named if "open" in named and verb != "open"}
        if re.search(r"\bmove\b.*\binstead of\b.*\bput\b", sentence):
            pairs.add(("move", "put"))
    return frozenset(pairs)
