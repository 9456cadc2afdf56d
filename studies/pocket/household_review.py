"""What a failed attempt at a household task shows, and what would have helped: the scripted critic of ALFWorld.

It reads what the player read and nothing else. Which furniture can hold what is common knowledge of the benchmark (the
table that the teacher of the player uses, too).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from align_echo.base.dice import Dice
from align_echo.errors import UsageError
from align_echo.types import Step, Trajectory
from align_echo.wrappers.alfworld.routes import APPLIANCES, BeliefState, HouseholdGoal, entity_name, read_goal
from studies.pocket.household import REFUSAL, holdable
from studies.pocket.wordings import Finding, Review, listed, then, wordings

MOST_PLACES = 4
OPENED = frozenset(("cabinet", "drawer", "fridge", "microwave", "safe"))
"""Furniture that is closed at first."""

REASONS, SEARCH, FETCH, FINISH, INSTEAD = wordings("household_review")


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
