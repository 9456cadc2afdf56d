"""What a player can know of a school experiment from its text alone: the goal as steps, rooms, what was seen where.

Used by the scripted novice only. It reads ScienceWorld's own sentences, with the knowledge of a child who half
remembers the lesson: it knows too few animals, guesses by names, and leaves plants and inclined planes to chance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from align_echo.agents.novices.habits import Deed

ROOMS = (
    *("kitchen", "outside", "hallway", "workshop", "living room", "greenhouse"),
    *("bedroom", "art studio", "bathroom", "foundry"),
)
"""In the order in which they are searched."""

LONG_LIVED = ("tortoise", "turtle", "elephant", "parrot", "crocodile", "bear", "wolf")
SHORT_LIVED = ("fly", "moth", r"\bant\b", r"\bbee\b", "spider", "mouse", "chipmunk", "frog", "rabbit")

_YOUNG = r"\begg$|^baby |^hatchling |^juvenile "
KINDS = {
    "animal": (_YOUNG,),
    "plant": (r"\btree\b",),
    "living thing": (_YOUNG, r"\btree\b"),
    "non-living thing": (r"^(?:axe|shovel|jug|picture|painting|drawing|glass cup|white pillow|stopwatch|lighter)$",),
    "longest": LONG_LIVED,
    "shortest": SHORT_LIVED,
    "seed": (r"\bseed$",),
}
"""How the name of a thing of a kind looks, the likeliest first."""

PAINTS = {
    "green": ("blue", "yellow"), "orange": ("red", "yellow"), "violet": ("red", "blue"), "purple": ("red", "blue"),
    "brown": ("red", "green"),
}  # fmt: skip

_ROOM = rf"(?P<room>{'|'.join(ROOMS)})"


DONE = {
    "focus": r"^You focus on",
    "take": r"^You move the .+ to the inventory",
    "move": r"^You move the .+ to the (?!inventory)",
    "heat": r"^You move the .+ to the (?!inventory)",
    "cool": r"^You move the .+ to the (?!inventory)",
    "activate": r"is now activated|already activated",
    "measure": r"measures a temperature of",
    "pour": r"^You pour",
    "mix": r"react|mixing",
    "connect": r"is now connected",
    "wait": r"^You decide to wait",
    "read": r"reads:",
}
"""Verb -> what the engine says once it is done."""


def read_goal(text: str) -> tuple[Deed, ...]:
    """The goal as steps; () if it is worded in a way this reader does not know."""
    for pattern, steps in _READERS:
        match = re.search(pattern, text)
        if match:
            return tuple(steps(match, text))
    return ()


def _find(match: re.Match[str], text: str) -> list[Deed]:
    return [Deed("focus", match["kind"]), Deed("take", match["kind"]), Deed("move", match["kind"], *_box(match))]


def _box(match: re.Match[str]) -> tuple[str, str]:
    return match["box"], match["room"]


def _change(match: re.Match[str], text: str) -> list[Deed]:
    thing = match["thing"]
    if match["verb"] == "freeze":
        steps = [Deed("cool", thing, "freezer", "kitchen")]
    else:
        steps = [Deed("heat", thing, "stove", "kitchen"), Deed("activate", "stove", room="kitchen")]
    return [Deed("focus", thing), Deed("take", thing), *steps, *[Deed("wait", "")] * 3]


def _life_span(match: re.Match[str], text: str) -> list[Deed]:
    kinds = re.findall(r"(longest|shortest) life span", text.split(".")[0])
    return [Deed("focus", kind, room="outside") for kind in kinds]


def _stages(match: re.Match[str], text: str) -> list[Deed]:
    name = match["name"]
    if "plant" in name:
        tree = name.replace("plant", "tree")
        stages = [name.replace("plant", "seed"), f"{tree} in the seedling stage", f"{tree} in the adult stage"]
    else:
        stages = [f"{name} egg", f"hatchling {name}", f"juvenile {name}", f"adult {name}"]
    return [Deed("focus", stage, room="outside") for stage in stages]


def _thermometer(match: re.Match[str], text: str) -> list[Deed]:
    thing, room = match["thing"], match["room"]
    start = [Deed("take", "thermometer", room="kitchen"), Deed("focus", "thermometer"), Deed("take", thing, room=room)]
    boxes = re.findall(r"(\w+ box)", text)
    end = Deed("move", thing, boxes[0], _boxes_room(text)) if "place it" in text else Deed("focus", boxes[0], room=room)
    return [*start, Deed("focus", thing), Deed("measure", thing), end]


def _boxes_room(text: str) -> str:
    match = re.search(rf"boxes are located around the {_ROOM}", text)
    return match["room"] if match else ""


def _conducts(match: re.Match[str], text: str) -> list[Deed]:
    thing, room = match["thing"], match["room"]
    box = re.findall(r"(\w+ box)", text)[0]
    return [Deed("focus", thing, room=room), Deed("take", thing, room=room), Deed("move", thing, box, room)]


def _power(match: re.Match[str], text: str) -> list[Deed]:
    thing = match["thing"]
    wires = [Deed("connect", "battery anode", f"{thing} cathode"), Deed("connect", "battery cathode", f"{thing} anode")]
    return [Deed("focus", thing, room="workshop"), *wires]


def _paint(match: re.Match[str], text: str) -> list[Deed]:
    wanted = match["color"].split("-")[0]
    first, second = PAINTS.get(wanted, ("red", "blue"))
    pour = Deed("pour", f"{first} paint", f"{second} paint", "art studio")
    return [pour, Deed("mix", "cup", room="art studio"), Deed("focus", f"{wanted} paint", room="art studio")]


def _chemistry(match: re.Match[str], text: str) -> list[Deed]:
    return [Deed("read", "recipe", room=match["room"]), Deed("focus", match["thing"])]


def _genetics(match: re.Match[str], text: str) -> list[Deed]:
    return [Deed("take", "seed", room="greenhouse"), Deed("move", "seed", "flower pot", "greenhouse")]


def _plane(match: re.Match[str], text: str) -> list[Deed]:
    return [Deed("focus", f"inclined plane {match['name']}", room="workshop")]


def _grow(match: re.Match[str], text: str) -> list[Deed]:
    return [Deed("focus", "seed", room=match["room"]), Deed("take", "seed"), Deed("move", "seed", "soil", "greenhouse")]


_READERS = (
    (rf"find a\(n\) (?P<kind>[a-z -]+)\. .*move it to the (?P<box>\w+ box) in the {_ROOM}", _find),
    (r"to (?P<verb>boil|melt|freeze|change the state of matter of) (?P<thing>[a-z ]+)\.", _change),
    (r"(?P<which>longest|shortest) life span", _life_span),
    (r"life stages of the (?P<name>[a-z ]+), starting", _stages),
    (rf"measure the [a-z ]+ of (?P<thing>[\w ]+), which is located around the {_ROOM}", _thermometer),
    (rf"determine if (?P<thing>[\w ]+) is electrically .*around the {_ROOM}\. First", _conducts),
    (r"turn on the (?P<thing>[a-z ]+?)(?: by powering.*)?\. First", _power),
    (r"create (?P<color>[a-z-]+) paint", _paint),
    (rf"create the substance '(?P<thing>[a-z ]+)'.*near the {_ROOM}", _chemistry),
    (r"dominant or recessive", _genetics),
    (r"inclined planes \((?P<name>[\w ]+),", _plane),
    (rf"grow a .*Seeds can be found in the {_ROOM}", _grow),
)


@dataclass
class LabBelief:
    """What the player believes. `where` maps a thing to the room where it was seen, `inside` to what it was in."""

    room: str = ""
    looked: set[str] = field(default_factory=set)
    where: dict[str, str] = field(default_factory=dict)
    inside: dict[str, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)

    def update(self, text: str) -> None:
        """Take in one observation."""
        if match := re.match(r"You (?:move|teleport) to the ([a-z ]+)\.", text):
            self.room = match[1]
        elif match := re.match(r"This (?:room|outside location) is called the ([a-z ]+)\.", text):
            self.room = match[1]
            self.looked.add(self.room)
            for line in text.partition("You also see:")[0].split("\n")[1:]:
                self._see(line.strip())
        elif match := re.match(r"You move the (.+) to the (.+)\.", text):
            self._moved(match[1], match[2])

    def _see(self, line: str) -> None:
        holder = ""
        for phrase in re.split(r"[,.(:]\s*", line):
            match = re.match(r"(?:In|On) the ([a-z ]+) is$", phrase)
            if match:
                holder = match[1]
                continue
            match = re.match(r"(?:containing )?(?:an?|the) (?:substance called )?([\w -]+?)\s*\)*$", phrase)
            if match and match[1] not in ("agent", "air"):
                self.where[match[1]] = self.room
                self.inside[match[1]] = holder
                holder = holder or match[1]

    def _moved(self, thing: str, target: str) -> None:
        if target == "inventory":
            self.held.add(thing)
            return
        self.held.discard(thing)
        self.where[thing] = self.room

    def named(self, thing: str) -> str | None:
        """What was seen (or is held) that a step means: by its name or by its kind; None if nothing was."""
        known = [*sorted(self.held), *self.where]
        patterns = KINDS.get(thing)
        if patterns is None:
            return next((name for name in known if name == thing or name.endswith(f" {thing}")), None)
        return next((name for pattern in patterns for name in known if re.search(pattern, name)), None)

    def here(self, name: str) -> bool:
        """It is in this room or in the player's hands."""
        return name in self.held or self.where.get(name) == self.room
