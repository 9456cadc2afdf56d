"""The 120 AI2-THOR floor plans as ALFWorld lists them: positions of receptacles, and kinds of objects.

ALFWorld gives positions for furniture that can be opened or stood at, and the kinds of all other objects. Furniture
without a position (stove burners, coffee machine, towel holder, ...) gets one here, fixed by the plan's number.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from align_echo.dice import Dice
from align_echo.wrappers.alfworld.tables import tables

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
