"""The shortest way to the goal from any state, exactly, in about a millisecond.

The engine's own planner (`Engine.plan`) searches for up to ten seconds in a large kitchen and its plans need not be
shortest. ALFWorld's six goals have so few shapes of solution (free the hands, take, treat, place) that all of them can
be tried: for each, which object, from where, with which appliance, to which furniture. Of furniture that differs in
nothing that matters one piece is tried. Tests compare the result with the engine: it wins, and the engine's planner
finds nothing shorter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from align_echo.wrappers.alfworld.task import TaskParameters

Fact = tuple[str, tuple[str, ...]]
"""Predicate and arguments, as the engine names them."""


@dataclass(frozen=True)
class Treatment:
    """What must be done to the object first: the verb, the fact it leaves, what it needs, and with what."""

    verb: str
    fact: str
    ability: str
    appliance: str


PROPERTIES = (
    "pickupable", "toggleable", "istoggled", "isclean", "ishot", "iscool", "cleanable", "heatable", "coolable",
)  # fmt: skip

TREATMENTS = {
    "pick_clean_then_place_in_recep": Treatment("clean", "isclean", "cleanable", "sinkbasintype"),
    "pick_heat_then_place_in_recep": Treatment("heat", "ishot", "heatable", "microwavetype"),
    "pick_cool_then_place_in_recep": Treatment("cool", "iscool", "coolable", "fridgetype"),
}


def shortest_route(facts: Iterable[Fact], names: Mapping[str, str], task: TaskParameters) -> list[str] | None:
    """Commands from a state to the goal, as few as can be; [] once it holds, None if it cannot be reached.

    `facts` are all that hold in the state; `names` are what commands call the entities ("mug 1").
    """
    return min(_routes(_World(facts, names), task), key=lambda route: (len(route), route), default=None)


class _World:
    """The facts that matter, by name."""

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
        for thing, place in by_place["inreceptacle"]:
            if place not in self.location:  # nothing can be done there
                continue
            self.inside[place].add(thing)
            self.places[thing].add(place)
        opened = {name for (name,) in by_place["opened"]}
        self.closed = frozenset(name for (name,) in by_place["openable"] if name not in opened)
        self._properties = {name: {fact[0] for fact in by_place[name]} for name in PROPERTIES}

    def has(self, thing: str, fact: str) -> bool:
        return thing in self._properties[fact]

    def of_kind(self, kind: str) -> list[str]:
        return sorted(name for name, its_kind in self.kind.items() if its_kind == kind and self.reachable(name))

    def reachable(self, name: str) -> bool:
        return name in self.location or name in self.places or name == self.held

    def takes(self, place: str, thing: str) -> bool:
        return (self.kind.get(place, ""), self.kind.get(thing, "")) in self.fits


@dataclass(frozen=True)
class _Walk:
    """What has been done so far: where the agent stands now, what it has opened."""

    world: _World
    at: str
    opened: frozenset[str] = frozenset()
    commands: tuple[str, ...] = ()

    def to(self, place: str) -> _Walk:
        if self.world.location[place] == self.at:
            return self
        return self._then(f"go to {self.world.name[place]}", at=self.world.location[place])

    def into(self, place: str) -> _Walk:
        walk = self.to(place)
        if place not in self.world.closed or place in self.opened:
            return walk
        return walk._then(f"open {self.world.name[place]}", opened=walk.opened | {place})

    def take(self, thing: str, place: str) -> _Walk:
        return self.into(place)._then(f"take {self.world.name[thing]} from {self.world.name[place]}")

    def put(self, thing: str, place: str) -> _Walk:
        return self.into(place)._then(f"move {self.world.name[thing]} to {self.world.name[place]}")

    def treat(self, verb: str, thing: str, place: str) -> _Walk:
        return self.to(place)._then(f"{verb} {self.world.name[thing]} with {self.world.name[place]}")

    def use(self, thing: str) -> _Walk:
        return self._then(f"use {self.world.name[thing]}")

    def _then(self, command: str, at: str | None = None, opened: frozenset[str] | None = None) -> _Walk:
        return _Walk(
            self.world,
            self.at if at is None else at,
            self.opened if opened is None else opened,
            (*self.commands, command),
        )


def _routes(world: _World, task: TaskParameters) -> Iterator[list[str]]:
    goal_things = [thing for thing in world.of_kind(f"{task.object_target}type") if world.has(thing, "pickupable")]
    start = _Walk(world, world.agent_at)
    if task.task_type == "look_at_obj_in_light":
        walks = _look(world, start, goal_things, f"{task.toggle_target}type")
    elif task.task_type == "pick_two_obj_and_place":
        walks = _place_two(world, start, goal_things, f"{task.parent_target}type")
    else:
        treatment = TREATMENTS.get(task.task_type)
        walks = _place_one(world, start, goal_things, f"{task.parent_target}type", treatment)
    for walk in walks:
        yield list(walk.commands)


def _look(world: _World, start: _Walk, goal_things: list[str], lamp_kind: str) -> Iterator[_Walk]:
    for lamp in world.of_kind(lamp_kind):
        if not world.has(lamp, "toggleable"):
            continue
        for place in sorted(world.places[lamp]):
            for thing in goal_things:
                for walk in _get(world, start, thing, world.held):
                    there = walk.to(place)
                    yield there if world.has(lamp, "istoggled") else there.use(lamp)


def _place_one(
    world: _World, start: _Walk, goal_things: list[str], target: str, treatment: Treatment | None
) -> Iterator[_Walk]:
    appliances = world.of_kind(treatment.appliance) if treatment else []
    for thing in goal_things:
        if treatment and not world.has(thing, treatment.ability):
            continue
        ready = treatment is None or world.has(thing, treatment.fact)
        if ready and any(world.kind.get(place) == target for place in world.places[thing]):
            yield start
        for walk in _get(world, start, thing, world.held):
            if treatment is None or ready:
                treated = [walk]
            else:
                treated = [walk.treat(treatment.verb, thing, appliance) for appliance in appliances]
            for done in treated:
                for place in _targets(world, target, goal_things, thing, appliances):
                    yield done.put(thing, place)


def _place_two(world: _World, start: _Walk, goal_things: list[str], target: str) -> Iterator[_Walk]:
    for place in _targets(world, target, goal_things, None, []):
        there = [thing for thing in goal_things if thing in world.inside[place]]
        missing = [thing for thing in goal_things if thing not in there and world.takes(place, thing)]
        if len(there) >= 2:
            yield start
        for first in missing:
            for walk in _get(world, start, first, world.held):
                placed = walk.put(first, place)
                if there:
                    yield placed
                for second in missing:
                    if second not in (first, world.held):
                        for again in _get(world, placed, second, None):
                            yield again.put(second, place)


def _get(world: _World, start: _Walk, thing: str, held: str | None) -> Iterator[_Walk]:
    """Every way to have a thing in hand."""
    if held == thing:
        yield start
        return
    sources = sorted(world.places[thing])
    free = [start] if held is None else [start.put(held, place) for place in _drops(world, held, sources)]
    for walk in free:
        for place in sources:
            yield walk.take(thing, place)


def _drops(world: _World, held: str, sources: Iterable[str]) -> list[str]:
    places = [place for place in sorted(world.location) if world.takes(place, held)]
    return _distinct(world, places, {world.agent_at, *(world.location[place] for place in sources)})


def _targets(world: _World, kind: str, goal_things: list[str], thing: str | None, appliances: list[str]) -> list[str]:
    places = [place for place in world.of_kind(kind) if thing is None or world.takes(place, thing)]
    stops = {world.agent_at, *(world.location[place] for place in appliances)}
    for other in goal_things:
        stops |= {world.location[place] for place in world.places[other]}
    return _distinct(world, places, stops, goal_things)


def _distinct(world: _World, places: list[str], stops: set[str], things: Iterable[str] = ()) -> list[str]:
    """One of each sort of furniture: by where it stands if the way leads there, whether it is shut, what is in it."""
    sorts: dict[tuple[str | None, bool, frozenset[str]], str] = {}
    for place in places:
        location = world.location[place]
        inside = frozenset(thing for thing in things if thing in world.inside[place])
        sorts.setdefault((location if location in stops else None, place in world.closed, inside), place)
    return list(sorts.values())
