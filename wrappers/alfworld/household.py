"""Knowledge an agent can draw from a household task's text alone: the goal, the places, the objects seen, its hands.

It reads ALFWorld's own sentences and never asks the engine. The scripted novice plays by it, and action labels use it
to decide if a look was worth its turn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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
