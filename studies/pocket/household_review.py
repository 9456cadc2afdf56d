"""What a failed attempt at a household task shows, and what would have helped: the scripted critic of ALFWorld.

It reads what the player read and nothing else. Which furniture can hold what is common knowledge of the benchmark (the
table that the teacher of the player uses, too).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from align_echo.dice import Dice
from align_echo.errors import UsageError
from align_echo.types import Step, Trajectory
from align_echo.wrappers.alfworld.routes import APPLIANCES, BeliefState, HouseholdGoal, entity_name, read_goal
from studies.pocket.household import REFUSAL, holdable
from studies.pocket.review import Finding, Review, listed, then

MOST_PLACES = 4
OPENED = frozenset(("cabinet", "drawer", "fridge", "microwave", "safe"))
"""Furniture that is closed at first."""

REASONS = {
    "unseen": (
        "You never found a {thing}.",
        "No {thing} was in any place that you looked into.",
        "You looked into {searched} and saw no {thing}.",
        "The {thing} was never found, and much of the room was left unsearched.",
        "You ran out of turns before you saw a {thing}.",
        "You searched too little of the room to find a {thing}.",
    ),
    "unopened": (
        "You stood at {place} and never opened it, and you found no {thing}.",
        "You never found a {thing}: {place} stayed closed in front of you.",
        "No {thing} was found, for you left {place} closed.",
        "You did not look inside {place}, and you saw no {thing} elsewhere.",
        "You went to {place} but not into it, and never saw a {thing}.",
    ),
    "untaken": (
        "You saw {object} at {place} and did not take it.",
        "You never took {object}, though it was at {place}.",
        "{object} was in sight at {place} and you left it there.",
        "The {thing} was found at {place} and never picked up.",
        "You passed {object} at {place} without taking it.",
    ),
    "untreated": (
        "You had {object} and did not {treat} it.",
        "You never managed to {treat} {object}.",
        "You carried {object} but forgot to {treat} it.",
        "{object} was never ready: you did not {treat} it.",
        "The task asks you to {treat} the {thing}, and that was not done.",
    ),
    "unplaced": (
        "You had {object} ready and did not put it where it belongs.",
        "The last step is missing: {object} never reached a {dest}.",
        "You never moved {object} to a {dest}.",
        "You had what you needed, but {object} was not put on a {dest}.",
        "Everything was done but the end: {object} belongs at a {dest}.",
    ),
    "half": (
        "You placed one {thing} and not the second.",
        "Only one {thing} was put there; the task asks for two.",
        "One {thing} is not enough: the second was left at {place}.",
        "You stopped after one {thing}, though {object} was at {place}.",
        "The second one, {object}, was never brought.",
    ),
    "unlit": (
        "You held {object} and did not turn on the {tool}.",
        "You never used the {tool} while you held {object}.",
        "The light was missing: {tool} was not turned on with {object} in your hands.",
        "You had {object}, but you did not look at it under the {tool}.",
        "You knew where the {tool} was and did not use it.",
    ),
    "afar": (
        "You sent {action} without standing at {place}.",
        "You were not at {place}, so {action} was refused.",
        "You have to be at {place} for {action}, and you were not.",
        "From where you stood, {action} could not work: go to {place} for it.",
        "You did not go to {place} before you sent {action}.",
    ),
    "put": (
        "The command put is not known here, so {object} stayed in your hands.",
        "You said {action}; the word is move, not put.",
        "Your {action} was not understood: to put a thing down is called move.",
        "You tried to put {object} down in words that do nothing.",
        "Nothing came of {action}, for you must say move.",
    ),
    "vain": (
        "You repeated {action} {times} times in vain.",
        "You wasted {times} turns on {action}, which did nothing.",
        "{times} times you sent {action} and nothing came of it.",
        "You kept sending {action} though it was refused.",
        "Saying {action} again and again cost you your turns.",
    ),
}

SEARCH = (
    "Look for the {thing} in other places. Search {places} first.",
    "You have not looked everywhere for the {thing}. Search {places} first.",
    "Do not go back to places you have seen. Search {places} first.",
    "The {thing} must be where you did not look. Search {places} first.",
    "Begin with the places you left out, and open what is closed. Search {places} first.",
    "You still have to find the {thing}. Search {places} first.",
)
FETCH = (
    "You know where the {thing} is. First {commands}.",
    "Do not search again: {object} is at {place}. First {commands}.",
    "Get {object} at once. First {commands}.",
    "Begin where you saw {object}. First {commands}.",
    "Lose no turns on other places. First {commands}.",
)
FINISH = (
    "With {object} in your hands, {commands}.",
    "As soon as you have {object}, {commands}.",
    "Then {commands}.",
    "Once you hold {object}, you should {commands}.",
    "After you took {object}, {commands}.",
)
INSTEAD = (
    "Do not send {action} again. You should {commands}.",
    "Never repeat a command that did nothing. In place of {action}, {commands}.",
    "When {action} does nothing, {commands}.",
    "Drop {action}; you should {commands}.",
    "Where you said {action}, you should {commands}.",
)


@dataclass
class Attempt:
    """What the player could know at the end. `homes` says where each thing was seen first."""

    goal: HouseholdGoal
    belief: BeliefState
    homes: dict[str, str] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    searched: set[str] = field(default_factory=set)
    visited: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    at: str = ""
    vain: Counter[str] = field(default_factory=Counter)
    afar: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, trajectory: Trajectory) -> Attempt:
        """Read from its first to its last turn. Raises `UsageError` for a goal in other words than ALFWorld's."""
        goal = read_goal(trajectory.goal)
        if goal is None:
            raise UsageError(f"the goal {trajectory.goal!r} is not worded as ALFWorld words its goals")
        attempt = cls(goal, BeliefState.from_intro(trajectory.initial_observation))
        attempt._notice()
        before: Step | None = None
        for step in trajectory.steps:
            attempt._live(step, before)
            before = step
        return attempt

    def _live(self, step: Step, before: Step | None) -> None:
        action = step.action or ""
        again = before is not None and (before.action, before.observation) == (step.action, step.observation)
        if action and (again or step.observation.startswith(REFUSAL)):
            self.vain[action] += 1
        if step.observation.startswith(REFUSAL):
            if not (self.at and action.endswith(self.at)):
                self.afar.add(action)
            return
        self.belief.update(step.observation, self.goal.dest)
        self._notice()
        place = action.removeprefix("go to ")
        if place != action and place in self.belief.places:
            self.at = place
            self.visited += [place] if place not in self.visited else []

    def _notice(self) -> None:
        self.closed |= self.belief.closed
        self.searched |= set(self.belief.contents)
        if self.belief.holding is not None:
            self.held.add(self.belief.holding)
        for place, things in self.belief.contents.items():
            for thing in things:
                self.homes.setdefault(thing, place)

    # ------------------------------------------------------------ what follows from it

    def copies(self) -> list[str]:
        """The things of the wanted kind that were seen, as many as are needed, those that were held first."""
        copies = [thing for thing in self.homes if entity_name(thing) == self.goal.obj]
        if self.goal.kind == "two":
            copies = [thing for thing in copies if entity_name(self.homes[thing]) != self.goal.dest] or copies
        return sorted(copies, key=lambda thing: thing not in self.held)[: self.goal.copies]

    def lamp(self) -> str | None:
        """The lamp that the task names, if it was seen."""
        return next((thing for thing in self.homes if entity_name(thing) == self.goal.tool), None)

    def unsearched(self, name: str, dice: Dice) -> list[str]:
        """Furniture that was never seen into: first where the player stood, then the kinds that can hold the thing."""
        left = [index for index in self.belief.places if index not in self.searched]
        kinds = dice.shuffled(sorted({entity_name(place) for place in left}))

        def rank(place: str) -> tuple[bool, bool, int, int]:
            kind, number = place.rsplit(" ", 1)
            return name not in holdable(kind), place not in self.visited, kinds.index(kind), int(number)

        return sorted(left, key=rank)

    def into(self, place: str) -> list[str]:
        """The commands that bring one from afar to where the contents of furniture can be had."""
        shut = place in self.closed or (entity_name(place) in OPENED and place not in self.searched)
        return [f"go to {place}", *([f"open {place}"] if shut else [])]

    def fetch(self, thing: str) -> list[str]:
        """The commands that bring a thing into the hands, from a fresh start."""
        return [*self.into(self.homes[thing]), f"take {thing} from {self.homes[thing]}"]

    def finish(self, thing: str) -> list[str]:
        """The commands that are left once the thing is in the hands."""
        lamp = self.lamp()
        if self.goal.kind == "light":
            return [f"go to {self.homes[lamp]}", f"use {lamp}"] if lamp else []
        dest = self.first(self.goal.dest)
        return [*self.treat(thing), *self.into(dest), f"move {thing} to {dest}"]

    def treat(self, thing: str) -> list[str]:
        """The commands of the treatment, none where the task asks for none."""
        if self.goal.kind not in APPLIANCES:
            return []
        appliance = self.first(APPLIANCES[self.goal.kind])
        return [f"go to {appliance}", f"{self.goal.kind} {thing} with {appliance}"]

    def first(self, kind: str) -> str:
        """The furniture of a kind with the lowest number that the room has."""
        numbers = [int(place.rsplit(" ", 1)[1]) for place in self.belief.places if entity_name(place) == kind]
        return f"{kind} {min(numbers, default=1)}"


def review_household(trajectory: Trajectory, dice: Dice) -> Review:
    """What went wrong and at most two suggestions. Raises `UsageError` for a goal in other words than ALFWorld's."""
    attempt = Attempt.of(trajectory)
    copies = attempt.copies()
    goal = attempt.goal
    if len(copies) < goal.copies:
        return _not_found(attempt, goal.obj, copies, dice)
    if goal.kind == "light" and attempt.lamp() is None:
        return _not_found(attempt, goal.tool, copies, dice)
    return _not_finished(attempt, copies, dice)


def _not_found(attempt: Attempt, name: str, copies: Sequence[str], dice: Dice) -> Review:
    """Something was never seen: where to look, and where what was seen is (or a command that was in vain)."""
    order = attempt.unsearched(name, dice)
    places = tuple(order[: 2 + dice.below(MOST_PLACES - 1)])
    shut = [place for place in attempt.visited if place in order]
    searched = f"{len(attempt.searched)} place{'' if len(attempt.searched) == 1 else 's'}"
    values = {"thing": name, "searched": searched, "place": shut[0] if shut else ""}
    reason = dice.pick(REASONS["unopened" if shut else "unseen"]).format_map(values)
    findings = [Finding(SEARCH, {"thing": name, "places": listed(places)}, search=places)] if places else []
    if copies:
        findings.insert(0, _fetch(attempt, copies[0]))
    elif (instead := _instead(attempt)) is not None:
        findings.append(instead)
    if not findings:
        everything = tuple(attempt.belief.places[:MOST_PLACES])
        findings.append(Finding(SEARCH, {"thing": name, "places": listed(everything)}, search=everything))
    return Review.of(reason, findings, dice)


def _not_finished(attempt: Attempt, copies: Sequence[str], dice: Dice) -> Review:
    """All was seen: fetch it from where it was, and the steps that were left out."""
    left = [thing for thing in copies if thing not in attempt.belief.placed]
    thing = left[-1] if left else copies[0]
    fault, values = _fault(attempt, thing, half=len(left) < len(copies))
    reason = dice.pick(REASONS[fault]).format_map(values)
    action, times = max(attempt.vain.items(), key=lambda pair: pair[1], default=("", 0))
    if times > 2 and action not in reason:
        reason += " " + dice.pick(REASONS["vain"]).format_map({"action": action, "times": str(times)})
    finish = attempt.finish(thing)
    findings = [_fetch(attempt, thing), Finding(FINISH, values | {"commands": then(finish)}, commands=tuple(finish))]
    return Review.of(reason, findings, dice)


def _fault(attempt: Attempt, thing: str, *, half: bool) -> tuple[str, dict[str, str]]:
    """What kept a thing that was seen from its place, and the words of it; `half`: another one is there already."""
    goal, values = attempt.goal, _words(attempt, thing)
    if thing not in attempt.held:
        return ("half" if half else "untaken"), values
    if goal.kind == "light":
        return "unlit", values
    treated = goal.kind in attempt.belief.done_to.get(thing, ())
    if goal.kind in APPLIANCES and not treated:
        go, treat = attempt.treat(thing)
        afar = treat in attempt.afar
        return ("afar" if afar else "untreated"), values | {"action": treat, "place": go.removeprefix("go to ")}
    put = next((action for action in attempt.vain if action.startswith(f"put {thing} ")), "")
    return ("put" if put else "unplaced"), values | {"action": put}


def _fetch(attempt: Attempt, thing: str) -> Finding:
    commands = attempt.fetch(thing)
    values = _words(attempt, thing) | {"commands": then(commands)}
    return Finding(FETCH, values, search=(attempt.homes[thing],), commands=tuple(commands))


def _instead(attempt: Attempt) -> Finding | None:
    """What to send in place of the command most often in vain, if that was about furniture never looked into."""
    for action, times in attempt.vain.most_common():
        place = " ".join(action.split()[-2:])
        if times > 1 and place in attempt.belief.places and place not in attempt.searched:
            return Finding(INSTEAD, {"action": action, "commands": then(attempt.into(place))})
    return None


def _words(attempt: Attempt, thing: str) -> dict[str, str]:
    goal = attempt.goal
    return {
        "thing": goal.obj, "object": thing, "place": attempt.homes[thing], "dest": goal.dest, "tool": goal.tool,
        "treat": goal.kind,
    }  # fmt: skip
