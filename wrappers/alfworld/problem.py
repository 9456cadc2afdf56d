"""A furnished room and a goal, written as the PDDL problem that ALFWorld's domain and engine read.

Facts follow ALFWorld's own generator: which kinds fit where, what can be cleaned, heated, cooled and sliced comes from
its tables; lamps can be switched only where the task needs one; goal objects in the fridge are already cool.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from align_echo.wrappers.alfworld.floorplans import Receptacle
from align_echo.wrappers.alfworld.routes import shortest_route
from align_echo.wrappers.alfworld.tables import tables
from align_echo.wrappers.alfworld.task import TaskParameters

AGENT = "agent1"
_CHARACTERS = str.maketrans({"-": "_minus_", "#": "-", "|": "_bar_", "+": "_plus_", ".": "_dot_", ",": "_comma_"})


@dataclass(frozen=True)
class Thing:
    """An object and the receptacle it starts in."""

    id: str
    kind: str
    place: Receptacle


@dataclass(frozen=True)
class Room:
    """All that a game starts with. `start` is the agent's location, where nothing else is."""

    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]
    start: str


def mangled(text: str) -> str:
    """ALFWorld's way to write an id in PDDL, in lower case as the engine reads it."""
    return text.translate(_CHARACTERS)


def display_names(room: Room) -> dict[str, str]:
    """What the engine calls each receptacle and object ("mug 1"): of n of a kind, the first id in order is number n."""
    kinds = {mangled(r.id).lower(): r.kind for r in room.receptacles}
    kinds |= {mangled(t.id).lower(): t.kind for t in room.things}
    left = Counter(kinds.values())
    names = {}
    for key in sorted(kinds):
        names[key] = f"{kinds[key].lower()} {left[kinds[key]]}"
        left[kinds[key]] -= 1
    return names


def walkthrough(room: Room, goal: TaskParameters) -> list[str] | None:
    """A shortest solution, as the engine's commands; None if there is none."""
    facts = [(name.lower(), tuple(mangled(item).lower() for item in items)) for name, *items in _facts(room, goal)]
    return shortest_route(facts, display_names(room), goal.lower())


def problem_text(name: str, room: Room, goal: TaskParameters) -> str:
    """The PDDL problem, without `:metric`: before `:init` the engine's parser refuses it, and it changes nothing."""
    template = tables().goals[goal.task_type].pddl
    goal_pddl = template.format(obj=goal.object_target, recep=goal.parent_target, toggle=goal.toggle_target)
    text = (
        f"(define (problem plan_{name})\n(:domain alfred)\n(:objects\n{_lines(_objects(room))})\n"
        f"(:init\n{_lines([_written(fact) for fact in _facts(room, goal)])})\n"
    )
    return mangled(text + goal_pddl)


def _written(fact: tuple[str, ...]) -> str:
    return f"({' '.join(fact)})"


def _lines(items: list[str]) -> str:
    return "".join(f"    {item}\n" for item in items)


def _objects(room: Room) -> list[str]:
    receptacle_kinds = sorted({r.kind for r in room.receptacles})
    object_kinds = sorted({t.kind for t in room.things})
    locations = sorted({r.location for r in room.receptacles} | {room.start})
    return [
        f"{AGENT} # agent",
        *(f"{kind}Type # otype" for kind in object_kinds),
        *(f"{kind}Type # rtype" for kind in receptacle_kinds),
        *(f"{t.id} # object" for t in room.things),
        *(f"{r.id} # receptacle" for r in room.receptacles),
        *(f"{location} # location" for location in locations),
    ]


def _facts(room: Room, goal: TaskParameters) -> list[tuple[str, ...]]:
    facts: list[tuple[str, ...]] = [("atLocation", AGENT, room.start)]
    openable = tables().openable
    for r in room.receptacles:
        facts += [("receptacleType", r.id, f"{r.kind}Type"), ("receptacleAtLocation", r.id, r.location)]
        if r.kind in openable:
            facts.append(("openable", r.id))
    for thing in room.things:
        facts += _facts_of(thing, goal)
    return facts + _fits(room)


def _facts_of(thing: Thing, goal: TaskParameters) -> list[tuple[str, ...]]:
    facts: list[tuple[str, ...]] = [
        ("objectType", thing.id, f"{thing.kind}Type"),
        ("inReceptacle", thing.id, thing.place.id),
        ("wasInReceptacle", thing.id, thing.place.id),
        ("objectAtLocation", thing.id, thing.place.location),
    ]
    if thing.kind in pickupable_kinds():
        facts.append(("pickupable", thing.id))
    if thing.kind in tables().movable:
        facts.append(("isReceptacleObject", thing.id))
    for ability in ("Cleanable", "Heatable", "Coolable", "Sliceable"):
        if thing.kind in tables().able[ability]:
            facts.append((ability.lower(), thing.id))
    if thing.kind == goal.toggle_target:
        facts.append(("toggleable", thing.id))
    if thing.kind == goal.object_target and thing.place.kind == "Fridge":
        facts.append(("isCool", thing.id))
    return facts


def _fits(room: Room) -> list[tuple[str, ...]]:
    holds = tables().holds
    object_kinds = sorted({t.kind for t in room.things})
    return [
        ("canContain", f"{kind}Type", f"{thing}Type")
        for kind in sorted({r.kind for r in room.receptacles})
        for thing in object_kinds
        if thing in holds.get(kind, ())
    ]


def pickupable_kinds() -> frozenset[str]:
    """Kinds that can be picked up: those that some furniture can hold."""
    return frozenset(kind for kinds in tables().holds.values() for kind in kinds if not kind.endswith("Sliced"))
