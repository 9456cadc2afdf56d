"""Embedded games: seeded rooms of all six task types in ALFWorld's official layout, from an id alone.

A game depends only on the generator's version and its id: same bytes in every process and on every machine. Ids look
like ALFRED's: `<split>/<type>-<Object>-None-<Target>-<floor plan>/trial_G<version>_<number>`. The manifest
(`data.py`) lists the valid ids, all of games the expert won in the real engine.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from align_echo.base.dice import Dice
from align_echo.errors import EngineError, UsageError
from align_echo.wrappers.alfworld.routes import TaskParameters, shortest_route
from align_echo.wrappers.alfworld.spec import GAME, TASK_TYPES, TRAJECTORY

# ---------------------------------------------------------------- ALFWorld's data in the package

FILE = "tables.json"

Kinds = frozenset[str]


@dataclass(frozen=True)
class GoalTemplate:
    """Goal of a task type in PDDL, and sentences for it."""

    pddl: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class LayoutSpec:
    """Floor plan: the kinds of objects in it, and [x, z, rotation, horizon] of furniture by id."""

    occurring: tuple[str, ...]
    placed: Mapping[str, list[float]]


@dataclass(frozen=True)
class AlfworldTables:
    """ALFWorld's tables.

    `holds`: kinds that fit in or on a kind of furniture; `able`: kinds that can be cleaned, heated etc., by ability;
    `rooms`: rooms where a task type makes sense; `goals` by task type; `layouts` by floor plan number.
    """

    version: str
    domain: str
    grammar: str
    objects: Kinds
    receptacles: Kinds
    movable: Kinds
    openable: Kinds
    holds: Mapping[str, Kinds]
    able: Mapping[str, Kinds]
    rooms: Mapping[str, Kinds]
    goals: Mapping[str, GoalTemplate]
    layouts: Mapping[int, LayoutSpec]


@functools.cache
def tables() -> AlfworldTables:
    """Load the tables. `grammar` has `UNKNOWN GOAL` in place of a game's goal. Raises `EngineError`."""
    try:
        record = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
        return AlfworldTables(
            version=record["version"],
            domain=record["domain"],
            grammar=record["grammar"],
            objects=frozenset(record["objects"]),
            receptacles=frozenset(record["receptacles"]),
            movable=frozenset(record["movable"]),
            openable=frozenset(record["openable"]),
            holds=_by_kind(record["holds"]),
            able=_by_kind(record["able"]),
            rooms=_by_kind(record["rooms"]),
            goals={kind: GoalTemplate(pddl, tuple(sentences)) for kind, (pddl, sentences) in record["goals"].items()},
            layouts={
                int(plan): LayoutSpec(tuple(kinds), placed) for plan, (kinds, placed) in record["layouts"].items()
            },
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"ALFWorld's tables are not readable ({error}): reinstall") from error


def _by_kind(record: Mapping[str, list[str]]) -> dict[str, Kinds]:
    return {name: frozenset(kinds) for name, kinds in record.items()}


# ---------------------------------------------------------------- the 120 AI2-THOR floor plans as ALFWorld lists them

ROOMS = {
    "Kitchen": range(1, 31),
    "LivingRoom": range(201, 231),
    "Bedroom": range(301, 331),
    "Bathroom": range(401, 431),
}

ALFRED_UNSEEN = (10, 219, 308, 424)
"""ALFRED's own valid_unseen rooms."""

MORE_UNSEEN = (9, 29, 215, 226, 315, 325, 404, 425)
"""Two more rooms of each kind for the unseen split, which would otherwise have only four rooms."""

UNSEEN = tuple(sorted(ALFRED_UNSEEN + MORE_UNSEEN))
SEEN = tuple(number for plans in ROOMS.values() for number in plans if number not in UNSEEN)

COPIES = {"StoveBurner": 4, "HandTowelHolder": 2, "Drawer": 2, "Shelf": 2}


@dataclass(frozen=True)
class Receptacle:
    """Piece of furniture. `location` is the agent's place for using it: `loc|x|z|rotation|horizon`."""

    id: str
    kind: str
    location: str


@dataclass(frozen=True)
class FloorPlan:
    """Room: its furniture and the kinds of objects in it."""

    number: int
    room: str
    receptacles: tuple[Receptacle, ...]
    object_kinds: tuple[str, ...]

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of furniture, sorted."""
        return tuple(sorted({receptacle.kind for receptacle in self.receptacles}))


@functools.cache
def floor_plan(number: int) -> FloorPlan:
    """Return the plan of a number (1-30 kitchens, 201-230 living rooms, 301-330 bedrooms, 401-430 bathrooms)."""
    room = next(name for name, numbers in ROOMS.items() if number in numbers)
    layout = tables().layouts[number]
    receptacles = [Receptacle(id_, parse_kind(id_), _location(point)) for id_, point in sorted(layout.placed.items())]
    kinds = {receptacle.kind for receptacle in receptacles}
    fixed = tables().receptacles - tables().movable
    for kind in sorted(set(layout.occurring) & fixed - kinds):
        receptacles += _standing_anywhere(number, kind)
    return FloorPlan(number, room, tuple(receptacles), tuple(sorted(set(layout.occurring))))


def parse_kind(id_: str) -> str:
    """Return the kind in an id: `Sink|...|SinkBasin` is a SinkBasin, `Drawer|...` a Drawer."""
    parts = id_.split("|")
    return parts[-1] if parts[-1].endswith("Basin") else parts[0]


def _standing_anywhere(number: int, kind: str) -> list[Receptacle]:
    dice = Dice(f"floor plan {number} {kind}")
    receptacles: list[Receptacle] = []
    point: list[float] = []
    for copy in range(COPIES.get(kind, 1)):
        if copy % 2 == 0:  # two burners of a stove are used from the same place
            point = [dice.between(-3, 3), dice.between(-3, 3), 90 * dice.below(4), 30]
        # The engine names a sink by its basin, so the id must end in it (as AI2-THOR's does).
        name, end = (kind.removesuffix("Basin"), f"|{kind}") if kind.endswith("Basin") else (kind, "")
        receptacles.append(Receptacle(f"{name}|{coordinates(dice)}{end}", kind, _location(point)))
    return receptacles


def coordinates(dice: Dice) -> str:
    """Draw a position in AI2-THOR's notation: `+00.25|+00.90|-01.50`."""
    return "|".join(f"{dice.between(low, high):+06.2f}" for low, high in ((-4, 4), (0, 2), (-4, 4)))


def _location(point: list[float]) -> str:
    x, z, rotation, horizon = point
    return f"loc|{round(x * 4)}|{round(z * 4)}|{round(rotation) // 90}|{round(horizon)}"


# ---------------------------------------------------------------- a game's problem in PDDL

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


# ---------------------------------------------------------------- embedded games

GENERATOR_VERSION = 1

CAPACITY = {
    "StoveBurner": 1, "TowelHolder": 1, "HandTowelHolder": 1, "ToiletPaperHanger": 1, "CoffeeMachine": 1,
    "Microwave": 1, "Toaster": 1, "Drawer": 3, "Cabinet": 3, "Safe": 2, "Shelf": 4, "Fridge": 8, "SinkBasin": 4,
    "GarbageCan": 3, "Toilet": 3,
}  # fmt: skip
OPEN_CAPACITY = 12
MOST_THINGS = 40

SCENERY = {
    "HousePlant": ("CounterTop", "DiningTable", "CoffeeTable", "SideTable", "Dresser", "Desk", "TVStand"),
    "Television": ("TVStand", "Dresser", "CoffeeTable", "SideTable", "DiningTable"),
    "DeskLamp": ("Desk", "SideTable", "Dresser", "DiningTable", "CoffeeTable", "Shelf", "TVStand"),
}
"""Objects that stand on furniture and cannot be picked up."""

NOT_A_TARGET = {
    "pick_clean_then_place_in_recep": ("SinkBasin",),
    "pick_heat_then_place_in_recep": ("Microwave",),
    "pick_cool_then_place_in_recep": ("Fridge",),
}
ABILITY = {
    "pick_clean_then_place_in_recep": "Cleanable",
    "pick_heat_then_place_in_recep": "Heatable",
    "pick_cool_then_place_in_recep": "Coolable",
}
APPLIANCE = {
    "pick_clean_then_place_in_recep": "SinkBasin",
    "pick_heat_then_place_in_recep": "Microwave",
    "pick_cool_then_place_in_recep": "Fridge",
}

_ID = re.compile(
    r"(?P<split>\w+)/(?P<type>[a-z_]+)-(?P<object>\w+)-None-(?P<target>\w+)-(?P<plan>\d+)"
    r"/trial_G(?P<version>\d+)_(?P<number>\d+)"
)


def game_id(split: str, goal: TaskParameters, plan: int, number: int) -> str:
    """Build the id that `write_game` reads."""
    folder = f"{goal.task_type}-{goal.object_target}-None-{goal.toggle_target or goal.parent_target}-{plan}"
    return f"{split}/{folder}/trial_G{GENERATOR_VERSION}_{number:03d}"


def goals_for(plan: FloorPlan, task_type: str) -> list[TaskParameters]:
    """List every goal of a type that makes sense in a room, in a fixed order."""
    if plan.room not in tables().rooms[task_type]:
        return []
    if APPLIANCE.get(task_type, "") not in ("", *plan.kinds()):
        return []
    kinds = [kind for kind in plan.object_kinds if kind in _placeable(plan)]
    if task_type == "look_at_obj_in_light":
        if "DeskLamp" not in plan.object_kinds or not set(plan.kinds()) & set(SCENERY["DeskLamp"]):
            return []
        return [TaskParameters(task_type, kind, "", "DeskLamp") for kind in kinds]
    if task_type in ABILITY:
        kinds = [kind for kind in kinds if kind in tables().able[ABILITY[task_type]]]
    return [
        TaskParameters(task_type, kind, target, "")
        for kind in kinds
        for target in plan.kinds()
        if kind in tables().holds.get(target, ())
        and target not in NOT_A_TARGET.get(task_type, ())
        and set(_homes(plan, kind)) - {target}
        and not (task_type == "pick_two_obj_and_place" and CAPACITY.get(target) == 1)
    ]


def read_id(id_: str) -> tuple[FloorPlan, TaskParameters, str]:
    """Parse an id into room, goal and number. Raises `UsageError` for another form or another generator version."""
    match = _ID.fullmatch(id_)
    if match is None or match["type"] not in TASK_TYPES or int(match["version"]) != GENERATOR_VERSION:
        raise UsageError(f"{id_!r} is not an embedded game of generator version {GENERATOR_VERSION}")
    light = match["type"] == "look_at_obj_in_light"
    target, lamp = ("", match["target"]) if light else (match["target"], "")
    goal = TaskParameters(match["type"], match["object"], target, lamp)
    return floor_plan(int(match["plan"])), goal, match["number"]


@functools.lru_cache(maxsize=64)
def write_game(id_: str) -> Mapping[str, str]:
    """Generate the game of an id: the texts of its files by name.

    Raises `UsageError` for an id of another form or another generator version.
    """
    plan, goal, number = read_id(id_)
    dice = Dice(f"align-echo alfworld {GENERATOR_VERSION} {id_}")
    room = _furnish(plan, goal, dice)
    stated = sentence(goal, dice)
    game = {
        "pddl_domain": tables().domain,
        "grammar": tables().grammar.replace("UNKNOWN GOAL", stated),
        "pddl_problem": problem_text(f"{plan.number}_{number}", room, goal),
        "solvable": True,
        "walkthrough": walkthrough(room, goal),
    }
    return {GAME: json.dumps(game), TRAJECTORY: json.dumps(_trajectory(id_, plan, goal, stated), indent=1)}


def _trajectory(id_: str, plan: FloorPlan, goal: TaskParameters, stated: str) -> dict[str, object]:
    annotation = {"task_desc": stated, "high_descs": []}
    return {
        "task_id": id_.rsplit("/", 1)[1],
        "task_type": goal.task_type,
        "pddl_params": {
            "object_target": goal.object_target,
            "parent_target": goal.parent_target,
            "toggle_target": goal.toggle_target,
            "mrecep_target": "",
            "object_sliced": False,
        },
        "scene": {"scene_num": plan.number, "floor_plan": f"FloorPlan{plan.number}"},
        "template": annotation,
        "turk_annotations": {"anns": [annotation]},
    }


def sentence(goal: TaskParameters, dice: Dice) -> str:
    """Return the goal in one of ALFWorld's wordings."""
    templates = tables().goals[goal.task_type].sentences
    words = {"obj": goal.object_target, "recep": goal.parent_target, "toggle": goal.toggle_target}
    return dice.pick(templates).format(**{key: word.lower() for key, word in words.items()})


# ---------------------------------------------------------------- furnishing


def _homes(plan: FloorPlan, kind: str) -> list[str]:
    """List the kinds of furniture in this room that can hold a kind of object."""
    if kind in SCENERY:
        return [home for home in plan.kinds() if home in SCENERY[kind]]
    holds = tables().holds
    return [home for home in plan.kinds() if kind in holds.get(home, ())]


def _placeable(plan: FloorPlan) -> frozenset[str]:
    return frozenset(kind for kind in plan.object_kinds if kind in pickupable_kinds() and _homes(plan, kind))


def _furnish(plan: FloorPlan, goal: TaskParameters, dice: Dice) -> RoomSpec:
    """Place the goal objects first (never at their target), then lamps and plants, then the other objects of the room.
    """
    free = {r.id: CAPACITY.get(r.kind, OPEN_CAPACITY) for r in plan.receptacles}
    objects: list[ObjectSpec] = []

    def place(kind: str, avoid: str = "") -> None:
        homes = _homes(plan, kind)
        options = [r for r in plan.receptacles if r.kind in homes and r.kind != avoid and free[r.id] > 0]
        if not options:
            return
        # Draw the kind of furniture first, so that ten drawers do not get everything.
        furniture = dice.pick(sorted({r.kind for r in options}))
        receptacle = dice.pick([r for r in options if r.kind == furniture])
        free[receptacle.id] -= 1
        objects.append(ObjectSpec(f"{kind}|{coordinates(dice)}", kind, receptacle))

    copies = 2 + dice.below(2) if goal.task_type == "pick_two_obj_and_place" else 1 + dice.below(3)
    for _ in range(copies):
        place(goal.object_target, goal.parent_target)
    for kind in sorted(SCENERY):
        if kind in plan.object_kinds or kind == goal.toggle_target:
            place(kind)
    distractors = [kind for kind in sorted(_placeable(plan)) if kind != goal.object_target]
    for kind in dice.shuffled(distractors):
        for _ in range(1 + dice.chance(0.45) + dice.chance(0.2)):
            if len(objects) < MOST_THINGS:
                place(kind)
    return RoomSpec(plan.receptacles, tuple(objects), _start(plan.receptacles, dice))


def _start(receptacles: tuple[Receptacle, ...], dice: Dice) -> str:
    occupied = {r.location for r in receptacles}
    while True:
        location = f"loc|{dice.below(25) - 12}|{dice.below(25) - 12}|{dice.below(4)}|30"
        if location not in occupied:
            return location
