"""Exact shortest route to the goal from any state, in about a millisecond.

The engine's own planner searches for up to ten seconds in a large kitchen, and its plans need not be shortest.
Solutions of ALFWorld's six goals have few shapes (free the hands, take, treat, place), so all of them can be tried:
every object, source, appliance and target. Pieces of furniture that do not differ in anything relevant are tried once.
Tests compare the result with the engine: it wins, and the engine's planner finds no shorter plan.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# ---------------------------------------------------------------- objects and places of a household

ENTITY = r"[a-z]+ \d+"

_GOALS: tuple[tuple[str, str], ...] = (
    (r"(?:look at|examine) (?:an? |the |some )?(?P<obj>\w+) (?:under|with) (?:an? |the )?(?P<tool>\w+)", "light"),
    (r"(?:put|find) two (?P<obj>\w+) (?:and put them )?(?:in|on|in/on) (?:an? |the )?(?P<dest>\w+)", "two"),
    (r"put (?:an? |some |the )?clean (?P<obj>\w+) (?:in|on|in/on) (?:an? |the )?(?P<dest>\w+)", "clean"),
    (r"put (?:an? |some |the )?hot (?P<obj>\w+) (?:in|on|in/on) (?:an? |the )?(?P<dest>\w+)", "heat"),
    (r"put (?:an? |some |the )?(?:cool|cold) (?P<obj>\w+) (?:in|on|in/on) (?:an? |the )?(?P<dest>\w+)", "cool"),
    (
        r"(?P<verb>clean|heat|cool) (?:an? |some |the )?(?P<obj>\w+) and put it (?:in|on|in/on) "
        r"(?:an? |the )?(?P<dest>\w+)",
        "",
    ),
    (r"put (?:an? |some |the )?(?P<obj>\w+) (?:in|on|in/on) (?:an? |the )?(?P<dest>\w+)", "place"),
)

APPLIANCES = {"heat": "microwave", "cool": "fridge", "clean": "sinkbasin"}


@dataclass(frozen=True)
class HouseholdGoal:
    """Goal of a task. `kind` is place, two, clean, heat, cool or light; `tool` is the lamp's name for light."""

    kind: str
    obj: str
    dest: str = ""
    tool: str = ""

    @property
    def copies(self) -> int:
        """Number of objects to place."""
        return 2 if self.kind == "two" else 1


def read_goal(text: str) -> HouseholdGoal | None:
    """Parse a goal in ALFWorld's wording; None for an unknown wording."""
    lowered = text.strip().rstrip(".").lower()
    for pattern, kind in _GOALS:
        match = re.search(pattern, lowered)
        if match:
            named = match.groupdict()
            return HouseholdGoal(
                kind=kind or named["verb"],
                obj=named["obj"],
                dest=named.get("dest") or "",
                tool=named.get("tool") or "",
            )
    return None


def entity_name(entity: str) -> str:
    """Return the name without its number: "mug 1" -> "mug"."""
    return entity.rsplit(" ", 1)[0]


@dataclass
class BeliefState:
    """Agent's belief about the room. `contents` maps each place it has seen to the objects last seen there."""

    places: list[str]
    contents: dict[str, list[str]] = field(default_factory=dict)
    holding: str | None = None
    done_to: dict[str, set[str]] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)

    @classmethod
    def from_intro(cls, text: str) -> BeliefState:
        """Read the places from the opening text."""
        listing = text.lower().split("looking quickly around you, you see", 1)[-1].split("your task is to", 1)[0]
        return cls(places=list(dict.fromkeys(re.findall(rf"\ban? ({ENTITY})", listing))))

    def update(self, observation: str, destination: str) -> bool:
        """Take in one observation; return True if it reported an event or a sight."""
        text = observation.lower()
        news = self._see(text)
        if match := re.search(rf"you pick up the ({ENTITY}) from the ({ENTITY})", text):
            self.holding = match[1]
            self._forget(match[1])
            news = True
        if match := re.search(rf"you (?:move|put) the ({ENTITY}) (?:to|in|on|in/on) the ({ENTITY})", text):
            self.holding = None
            self.contents.setdefault(match[2], []).append(match[1])
            if entity_name(match[2]) == destination:
                self.placed.add(match[1])
            news = True
        if match := re.search(rf"you (heat|cool|clean) the ({ENTITY}) using the", text):
            self.done_to.setdefault(match[2], set()).add(match[1])
            news = True
        return news or bool(re.search(r"you (turn (on|off)|close|sliced|are carrying|are facing)", text))

    def _see(self, text: str) -> bool:
        news = False
        for location in re.findall(rf"the ({ENTITY}) is closed", text):
            self.closed.add(location)
            news = True
        for location, contents in re.findall(rf"on the ({ENTITY}), you see ([^.]*)\.", text):
            self._look_into(location, contents)
            news = True
        for location, contents in re.findall(rf"the ({ENTITY}) is open\. in it, you see ([^.]*)\.", text):
            self._look_into(location, contents)
            news = True
        return news

    def _look_into(self, location: str, contents: str) -> None:
        self.closed.discard(location)
        self.contents[location] = re.findall(rf"\ban? ({ENTITY})", contents)

    def _forget(self, obj: str) -> None:
        for objects in self.contents.values():
            if obj in objects:
                objects.remove(obj)
        self.placed.discard(obj)

    def find(self, name: str) -> tuple[str, str] | None:
        """Find an object of a name and the place where it was seen, except those already placed."""
        for location, objects in self.contents.items():
            for obj in objects:
                if entity_name(obj) == name and obj not in self.placed:
                    return obj, location
        return None


# ---------------------------------------------------------------- task parameters of a game


@dataclass(frozen=True)
class TaskParameters:
    """Type of the task and the kinds it names; empty if the type has none.

    `toggle_target`, a lamp, is only for look_at_obj_in_light, and `parent_target`, a receptacle, for all others.
    """

    task_type: str
    object_target: str
    parent_target: str
    toggle_target: str

    @classmethod
    def read(cls, trajectory: Mapping[str, Any]) -> TaskParameters:
        """Parse the content of traj_data.json, in the engine's lower case. Raises `KeyError` for a missing parameter.
        """
        parameters = trajectory["pddl_params"]
        kinds = (str(parameters[name]) for name in ("object_target", "parent_target", "toggle_target"))
        return cls(str(trajectory["task_type"]), *kinds).lower()

    def lower(self) -> TaskParameters:
        """Return a copy with kinds in lower case, as the engine names them."""
        kinds = (kind.lower() for kind in (self.object_target, self.parent_target, self.toggle_target))
        return TaskParameters(self.task_type, *kinds)


# ---------------------------------------------------------------- routes

Fact = tuple[str, tuple[str, ...]]
"""Predicate and arguments, as the engine names them."""


@dataclass(frozen=True)
class TreatmentRule:
    """Required change of the object: the verb, the resulting fact, the needed ability and the appliance."""

    verb: str
    fact: str
    ability: str
    appliance: str


PROPERTIES = (
    "pickupable", "toggleable", "istoggled", "isclean", "ishot", "iscool", "cleanable", "heatable", "coolable",
)  # fmt: skip

TREATMENTS = {
    "pick_clean_then_place_in_recep": TreatmentRule("clean", "isclean", "cleanable", "sinkbasintype"),
    "pick_heat_then_place_in_recep": TreatmentRule("heat", "ishot", "heatable", "microwavetype"),
    "pick_cool_then_place_in_recep": TreatmentRule("cool", "iscool", "coolable", "fridgetype"),
}


def shortest_route(facts: Iterable[Fact], names: Mapping[str, str], task: TaskParameters) -> list[str] | None:
    """Find the fewest commands from a state to the goal; [] if it holds already, None if it cannot be reached.

    `facts` are all that hold in the state; `names` are the entities' names in commands ("mug 1").
    """
    return min(_routes(_World(facts, names), task), key=lambda route: (len(route), route), default=None)


class _World:
    """Relevant facts by name."""

    def __init__(self, facts: Iterable[Fact], names: Mapping[str, str]) -> None:
        self.name = names
        by_place: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        for predicate, arguments in facts:
            by_place[predicate].append(arguments)
        self.agent_at = by_place["atlocation"][0][1]
        self.held = by_place["holds"][0][1] if by_place["holds"] else None
        self.location = {fact[0]: fact[1] for fact in by_place["receptacleatlocation"]}
        self.kind = {fact[0]: fact[1] for fact in by_place["objecttype"] + by_place["receptacletype"]}
        self.fits = set(by_place["cancontain"])
        self.inside: dict[str, set[str]] = defaultdict(set)
        self.places: dict[str, set[str]] = defaultdict(set)
        for item, receptacle in by_place["inreceptacle"]:
            if receptacle not in self.location:  # nothing can be done there
                continue
            self.inside[receptacle].add(item)
            self.places[item].add(receptacle)
        opened = {name for (name,) in by_place["opened"]}
        self.closed = frozenset(name for (name,) in by_place["openable"] if name not in opened)
        self._properties = {name: {fact[0] for fact in by_place[name]} for name in PROPERTIES}

    def has(self, item: str, fact: str) -> bool:
        return item in self._properties[fact]

    def list_kind(self, kind: str) -> list[str]:
        return sorted(name for name, its_kind in self.kind.items() if its_kind == kind and self.reachable(name))

    def reachable(self, name: str) -> bool:
        return name in self.location or name in self.places or name == self.held

    def takes(self, receptacle: str, item: str) -> bool:
        return (self.kind.get(receptacle, ""), self.kind.get(item, "")) in self.fits


@dataclass(frozen=True)
class _Walk:
    """Progress so far: the agent's place and the furniture it has opened."""

    world: _World
    at: str
    opened: frozenset[str] = frozenset()
    commands: tuple[str, ...] = ()

    def to(self, receptacle: str) -> _Walk:
        if self.world.location[receptacle] == self.at:
            return self
        return self._then(f"go to {self.world.name[receptacle]}", at=self.world.location[receptacle])

    def into(self, receptacle: str) -> _Walk:
        walk = self.to(receptacle)
        if receptacle not in self.world.closed or receptacle in self.opened:
            return walk
        return walk._then(f"open {self.world.name[receptacle]}", opened=walk.opened | {receptacle})

    def take(self, item: str, receptacle: str) -> _Walk:
        return self.into(receptacle)._then(f"take {self.world.name[item]} from {self.world.name[receptacle]}")

    def put(self, item: str, receptacle: str) -> _Walk:
        return self.into(receptacle)._then(f"move {self.world.name[item]} to {self.world.name[receptacle]}")

    def treat(self, verb: str, item: str, receptacle: str) -> _Walk:
        return self.to(receptacle)._then(f"{verb} {self.world.name[item]} with {self.world.name[receptacle]}")

    def use(self, item: str) -> _Walk:
        return self._then(f"use {self.world.name[item]}")

    def _then(self, command: str, at: str | None = None, opened: frozenset[str] | None = None) -> _Walk:
        return _Walk(
            self.world,
            self.at if at is None else at,
            self.opened if opened is None else opened,
            (*self.commands, command),
        )


def _routes(world: _World, task: TaskParameters) -> Iterator[list[str]]:
    targets = [item for item in world.list_kind(f"{task.object_target}type") if world.has(item, "pickupable")]
    start = _Walk(world, world.agent_at)
    if task.task_type == "look_at_obj_in_light":
        walks = _look(world, start, targets, f"{task.toggle_target}type")
    elif task.task_type == "pick_two_obj_and_place":
        walks = _place_two(world, start, targets, f"{task.parent_target}type")
    else:
        treatment = TREATMENTS.get(task.task_type)
        walks = _place_one(world, start, targets, f"{task.parent_target}type", treatment)
    for walk in walks:
        yield list(walk.commands)


def _look(world: _World, start: _Walk, targets: list[str], lamp_kind: str) -> Iterator[_Walk]:
    for lamp in world.list_kind(lamp_kind):
        if not world.has(lamp, "toggleable"):
            continue
        for receptacle in sorted(world.places[lamp]):
            for item in targets:
                for walk in _get(world, start, item, world.held):
                    at_lamp = walk.to(receptacle)
                    yield at_lamp if world.has(lamp, "istoggled") else at_lamp.use(lamp)


def _place_one(
    world: _World, start: _Walk, targets: list[str], target: str, treatment: TreatmentRule | None
) -> Iterator[_Walk]:
    appliances = world.list_kind(treatment.appliance) if treatment else []
    for item in targets:
        if treatment and not world.has(item, treatment.ability):
            continue
        ready = treatment is None or world.has(item, treatment.fact)
        if ready and any(world.kind.get(receptacle) == target for receptacle in world.places[item]):
            yield start
        for walk in _get(world, start, item, world.held):
            if treatment is None or ready:
                treated = [walk]
            else:
                treated = [walk.treat(treatment.verb, item, appliance) for appliance in appliances]
            for prepared in treated:
                for receptacle in _targets(world, target, targets, item, appliances):
                    yield prepared.put(item, receptacle)


def _place_two(world: _World, start: _Walk, targets: list[str], target: str) -> Iterator[_Walk]:
    for receptacle in _targets(world, target, targets, None, []):
        already_placed = [item for item in targets if item in world.inside[receptacle]]
        missing = [item for item in targets if item not in already_placed and world.takes(receptacle, item)]
        if len(already_placed) >= 2:
            yield start
        for first in missing:
            for walk in _get(world, start, first, world.held):
                placed = walk.put(first, receptacle)
                if already_placed:
                    yield placed
                for second in missing:
                    if second not in (first, world.held):
                        for final in _get(world, placed, second, None):
                            yield final.put(second, receptacle)


def _get(world: _World, start: _Walk, item: str, in_hand: str | None) -> Iterator[_Walk]:
    """Yield every way to take an object in hand."""
    if in_hand == item:
        yield start
        return
    sources = sorted(world.places[item])
    drops = [] if in_hand is None else _drops(world, in_hand, sources)
    free = [start] if in_hand is None else [start.put(in_hand, receptacle) for receptacle in drops]
    for walk in free:
        for receptacle in sources:
            yield walk.take(item, receptacle)


def _drops(world: _World, in_hand: str, sources: Iterable[str]) -> list[str]:
    receptacles = [receptacle for receptacle in sorted(world.location) if world.takes(receptacle, in_hand)]
    return _distinct(world, receptacles, {world.agent_at, *(world.location[receptacle] for receptacle in sources)})


def _targets(world: _World, kind: str, targets: list[str], item: str | None, appliances: list[str]) -> list[str]:
    receptacles = [receptacle for receptacle in world.list_kind(kind) if item is None or world.takes(receptacle, item)]
    stops = {world.agent_at, *(world.location[receptacle] for receptacle in appliances)}
    for target in targets:
        stops |= {world.location[receptacle] for receptacle in world.places[target]}
    return _distinct(world, receptacles, stops, targets)


def _distinct(world: _World, receptacles: list[str], stops: set[str], relevant: Iterable[str] = ()) -> list[str]:
    """Keep one piece of each sort of furniture: by its place if the route stops there, by being shut, and by its
    contents."""
    sorts: dict[tuple[str | None, bool, frozenset[str]], str] = {}
    for receptacle in receptacles:
        location = world.location[receptacle]
        inside = frozenset(item for item in relevant if item in world.inside[receptacle])
        sorts.setdefault((location if location in stops else None, receptacle in world.closed, inside), receptacle)
    return list(sorts.values())
