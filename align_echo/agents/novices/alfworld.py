"""Scripted novice of ALFWorld for offline use: a stand-in for a small language model, and NOT a language model.

It knows its goal (find the object, treat it, put it there) but not the engine's wording. Its habits are those in
published logs of small models on ALFWorld: it examines, takes and uses objects without going there first, says "put"
for "move", leaves out instance numbers, repeats actions without effect, and follows feedback that names the missing
step. It is a weak reader of rules given up front. Its success rates are upper bounds for the effect of the same
interface on a language model of that size. All draws come from a hash: same view, same action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from align_echo.agents.novices.habits import NoviceStep, ScriptedNovice, advised, chance, times_followed
from align_echo.types import AgentView
from align_echo.wrappers.alfworld.routes import (
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
    """Habits of this novice. Numbers are shares of the occasions."""

    goes_first: float = 0.2
    opens_first: float = 0.7
    says_put: bool = True
    drops_numbers: bool = True
    patience: int = 4
    heeds_feedback: bool = True
    heeds_rules: float = 0.5


USUAL = HouseHabits()
STUBBORN = HouseHabits(heeds_feedback=False, heeds_rules=0.0)
"""Ignores all hints: an interface must at least do no harm."""

CAREFUL = HouseHabits(goes_first=0.95, opens_first=0.0)
"""Goes to receptacles first, so it fails in other ways than the default novice."""


def house_novice(habits: HouseHabits = USUAL, *, seed: int = 0, name: str = "novice") -> ScriptedNovice:
    """Build the scripted novice of ALFWorld. It understands ALFWorld's text only."""
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
        """Draw a number in [0, 1) from task and occasion only."""
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
        """Return the step named by the last feedback, unless it was already followed twice in vain."""
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
        """Return how often to try an action in vain before giving it up, over all rounds so far."""
        return (self.round + 1) * (1 + int(self.draw("patience", action) * self.habits.patience))

    def _give_up(self, intent: NoviceStep) -> None:
        """Treat the location as empty after a failed attempt, or start a new round."""
        if intent.verb == "search":
            self.belief.contents.setdefault(intent.receptacle, [])
        elif intent.verb == "take":
            objects = self.belief.contents.get(intent.receptacle, [])
            if intent.item in objects:
                objects.remove(intent.item)
        else:
            self.round += 1

    def _intent(self) -> NoviceStep:
        belief, goal = self.belief, self.goal
        if goal is None:
            return self._search()
        if belief.holding is not None:
            if entity_name(belief.holding) != goal.obj:
                return NoviceStep("put", belief.holding, self._place(goal.dest))
            return self._use_held(goal, belief.holding)
        seen = belief.find(goal.obj)
        if seen is not None:
            return NoviceStep("take", *seen)
        return self._search()

    def _use_held(self, goal: HouseholdGoal, item: str) -> NoviceStep:
        if goal.kind == "light":
            lamp = self.belief.find(goal.tool)
            return NoviceStep("use", lamp[0], lamp[1]) if lamp else self._search()
        if goal.kind in APPLIANCES and goal.kind not in self.belief.done_to.get(item, ()):
            return NoviceStep(goal.kind, item, self._place(APPLIANCES[goal.kind]))
        return NoviceStep("put", item, self._place(goal.dest))

    def _place(self, name: str) -> str:
        return next((receptacle for receptacle in self.belief.places if entity_name(receptacle) == name), f"{name} 1")

    def _search(self) -> NoviceStep:
        unseen = [receptacle for receptacle in self.belief.places if receptacle not in self.belief.contents]
        if not unseen:
            placed = self.belief.placed
            self.belief.contents = {
                receptacle: objects
                for receptacle, objects in self.belief.contents.items()
                if any(obj in placed for obj in objects)
            }
            self.round += 1
            unseen = [receptacle for receptacle in self.belief.places if receptacle not in self.belief.contents]
        if not unseen:
            return NoviceStep("look")
        return NoviceStep("search", receptacle=min(unseen, key=self._reluctance))

    def _reluctance(self, receptacle: str) -> tuple[float, str]:
        rank = next((i for i, word in enumerate(_LIKELY) if word in receptacle), len(_LIKELY))
        return rank + 8 * self.draw("order", receptacle), receptacle

    # -------------------------------------------------------- wording

    def _say(self, intent: NoviceStep) -> str:
        if intent.verb == "look":
            return "look"
        current = self.been[-1] if self.been else ""
        occasion = (intent.verb, intent.item, intent.receptacle)
        goes = self.draw("go", *occasion) < self._will("go to", intent.verb, self.habits.goes_first)
        if goes and current != intent.receptacle and self.tries.get(f"go to {intent.receptacle}", 0) == 0:
            return f"go to {intent.receptacle}"
        opens = self.draw("open", *occasion) < self._will("open", intent.verb, self.habits.opens_first)
        if opens and intent.receptacle in self.belief.closed and self.tries.get(f"open {intent.receptacle}", 0) == 0:
            return f"open {intent.receptacle}"
        return self._phrase(intent)

    def _phrase(self, intent: NoviceStep) -> str:
        item, receptacle = intent.item, intent.receptacle
        if intent.verb == "search":
            return f"examine {receptacle}"
        if intent.verb == "take":
            return f"take {item} from {receptacle}"
        if intent.verb == "put":
            knows = self.draw("word", item, receptacle) < self._will("move", "put", 0.0)
            patient = self.tries.get(f"put {item} in/on {receptacle}", 0) < self._patience(f"put {item}")
            if self.habits.says_put and patient and not knows:
                return f"put {item} in/on {receptacle}"
            return f"move {item} to {receptacle}"
        if intent.verb == "use":
            short = f"use {entity_name(item)}"
            if self.habits.drops_numbers and self.tries.get(short, 0) < self._patience(short):
                return short
            return f"use {item}"
        return f"{intent.verb} {item} with {receptacle}"

    def _will(self, step: str, verb: str, habit: float) -> float:
        """Return the probability of a first step: by habit, or because the rules ask for it."""
        verb = {"search": "examine", "put": "move"}.get(verb, verb) if step != "move" else verb
        return max(habit, self.habits.heeds_rules) if (step, verb) in self.advice else habit


def read_rules(rules: str) -> frozenset[tuple[str, str]]:
    """Extract (step, verb) pairs from rules given up front: do `step` before `verb`, or say `step` instead of it.

    A weak reader: it understands sentences with "before" (or "instead of"), skips every sentence with a negation, and
    ignores conditions.
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
