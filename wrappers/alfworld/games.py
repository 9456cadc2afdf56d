"""Embedded games: seeded rooms of all six task types in ALFWorld's official layout, from an id alone.

A game depends only on the generator's version and its id: same bytes in every process and on every machine. Ids look
like ALFRED's: `<split>/<type>-<Object>-None-<Target>-<floor plan>/trial_G<version>_<number>`. The manifest
(`manifest.py`) lists the valid ids, all of games the expert won in the real engine.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping

from align_echo.dice import Dice
from align_echo.errors import UsageError
from align_echo.wrappers.alfworld import problem
from align_echo.wrappers.alfworld.floorplans import FloorPlan, Receptacle, coordinates, floor_plan
from align_echo.wrappers.alfworld.problem import ObjectSpec, RoomSpec
from align_echo.wrappers.alfworld.spec import GAME, TASK_TYPES, TRAJECTORY
from align_echo.wrappers.alfworld.tables import tables
from align_echo.wrappers.alfworld.task import TaskParameters

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
        "pddl_problem": problem.problem_text(f"{plan.number}_{number}", room, goal),
        "solvable": True,
        "walkthrough": problem.walkthrough(room, goal),
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
    return frozenset(kind for kind in plan.object_kinds if kind in problem.pickupable_kinds() and _homes(plan, kind))


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
