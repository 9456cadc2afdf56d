"""Write a furnished room and a goal as the PDDL problem for ALFWorld's domain and engine.

Facts follow ALFWorld's own generator. Its tables say which kinds fit where and what can be cleaned, heated, cooled and
sliced. Lamps can be switched only if the task needs one; goal objects in the fridge are already cool.
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
class ObjectSpec:
    """Object and the receptacle it starts in."""

    id: str
    kind: str
    receptacle: Receptacle


@dataclass(frozen=True)
class RoomSpec:
    """Initial state of a game. `start` is the agent's location, away from all furniture."""

    receptacles: tuple[Receptacle, ...]
    objects: tuple[ObjectSpec, ...]
    start: str


def mangle(text: str) -> str:
    """Encode an id for PDDL as ALFWorld does, in lower case as the engine reads it."""
    return text.translate(_CHARACTERS)


def display_names(room: RoomSpec) -> dict[str, str]:
    """Name each receptacle and object as the engine does ("mug 1"): among n of a kind, the first id in order is number
    n."""
    kinds = {mangle(r.id).lower(): r.kind for r in room.receptacles}
    kinds |= {mangle(t.id).lower(): t.kind for t in room.objects}
    left = Counter(kinds.values())
    names = {}
    for key in sorted(kinds):
        names[key] = f"{kinds[key].lower()} {left[kinds[key]]}"
        left[kinds[key]] -= 1
    return names


def walkthrough(room: RoomSpec, goal: TaskParameters) -> list[str] | None:
    """Find a shortest solution, as the engine's commands; None if there is none."""
    facts = [(name.lower(), tuple(mangle(item).lower() for item in items)) for name, *items in _facts(room, goal)]
    return shortest_route(facts, display_names(room), goal.lower())


def problem_text(name: str, room: RoomSpec, goal: TaskParameters) -> str:
    """Write the PDDL problem, without `:metric`: before `:init` the engine's parser refuses it, and it changes nothing.
    """
    template = tables().goals[goal.task_type].pddl
    goal_pddl = template.format(obj=goal.object_target, recep=goal.parent_target, toggle=goal.toggle_target)
    text = (
        f"(define (problem plan_{name})\n(:domain alfred)\n(:objects\n{_lines(_objects(room))})\n"
        f"(:init\n{_lines([_format_fact(fact) for fact in _facts(room, goal)])})\n"
    )
    return mangle(text + goal_pddl)


def _format_fact(fact: tuple[str, ...]) -> str:
    return f"({' '.join(fact)})"


def _lines(items: list[str]) -> str:
    return "".join(f"    {item}\n" for item in items)


def _objects(room: RoomSpec) -> list[str]:
    receptacle_kinds = sorted({r.kind for r in room.receptacles})
    object_kinds = sorted({t.kind for t in room.objects})
    locations = sorted({r.location for r in room.receptacles} | {room.start})
    return [
        f"{AGENT} # agent",
        *(f"{kind}Type # otype" for kind in object_kinds),
        *(f"{kind}Type # rtype" for kind in receptacle_kinds),
        *(f"{t.id} # object" for t in room.objects),
        *(f"{r.id} # receptacle" for r in room.receptacles),
        *(f"{location} # location" for location in locations),
    ]


def _facts(room: RoomSpec, goal: TaskParameters) -> list[tuple[str, ...]]:
    facts: list[tuple[str, ...]] = [("atLocation", AGENT, room.start)]
    openable = tables().openable
    for r in room.receptacles:
        facts += [("receptacleType", r.id, f"{r.kind}Type"), ("receptacleAtLocation", r.id, r.location)]
        if r.kind in openable:
            facts.append(("openable", r.id))
    for item in room.objects:
        facts += _object_facts(item, goal)
    return facts + _fits(room)


def _object_facts(item: ObjectSpec, goal: TaskParameters) -> list[tuple[str, ...]]:
    facts: list[tuple[str, ...]] = [
        ("objectType", item.id, f"{item.kind}Type"),
        ("inReceptacle", item.id, item.receptacle.id),
        ("wasInReceptacle", item.id, item.receptacle.id),
        ("objectAtLocation", item.id, item.receptacle.location),
    ]
    if item.kind in pickupable_kinds():
        facts.append(("pickupable", item.id))
    if item.kind in tables().movable:
        facts.append(("isReceptacleObject", item.id))
    for ability in ("Cleanable", "Heatable", "Coolable", "Sliceable"):
        if item.kind in tables().able[ability]:
            facts.append((ability.lower(), item.id))
    if item.kind == goal.toggle_target:
        facts.append(("toggleable", item.id))
    if item.kind == goal.object_target and item.receptacle.kind == "Fridge":
        facts.append(("isCool", item.id))
    return facts


def _fits(room: RoomSpec) -> list[tuple[str, ...]]:
    holds = tables().holds
    object_kinds = sorted({t.kind for t in room.objects})
    return [
        ("canContain", f"{kind}Type", f"{object_kind}Type")
        for kind in sorted({r.kind for r in room.receptacles})
        for object_kind in object_kinds
        if object_kind in holds.get(kind, ())
    ]


def pickupable_kinds() -> frozenset[str]:
    """Return the kinds that can be picked up: those that some furniture can hold."""
    return frozenset(kind for kinds in tables().holds.values() for kind in kinds if not kind.endswith("Sliced"))
