"""Reader of ScienceWorld's texts for the scripted novice: the goal as steps, rooms, and where items are.

It has the knowledge of a child who half remembers the lesson: it knows too few animals, guesses by names, and leaves
plants and inclined planes to chance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from align_echo.agents.novices.habits import NoviceStep

ROOMS = (
    *("kitchen", "outside", "hallway", "workshop", "living room", "greenhouse"),
    *("bedroom", "art studio", "bathroom", "foundry"),
)
"""In search order."""

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
"""Patterns of the names of each kind, the likeliest first."""

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
"""Verb -> pattern of the engine's confirmation."""


def read_goal(text: str) -> tuple[NoviceStep, ...]:
    """Parse the goal into steps; () for an unknown wording."""
    for pattern, steps in _READERS:
        match = re.search(pattern, text)
        if match:
            return tuple(steps(match, text))
    return ()


def _find(match: re.Match[str], text: str) -> list[NoviceStep]:
    return [
        NoviceStep("focus", match["kind"]),
        NoviceStep("take", match["kind"]),
        NoviceStep("move", match["kind"], *_box(match)),
    ]


def _box(match: re.Match[str]) -> tuple[str, str]:
    return match["box"], match["room"]


def _change(match: re.Match[str], text: str) -> list[NoviceStep]:
    item = match["thing"]
    if match["verb"] == "freeze":
        steps = [NoviceStep("cool", item, "freezer", "kitchen")]
    else:
        steps = [NoviceStep("heat", item, "stove", "kitchen"), NoviceStep("activate", "stove", room="kitchen")]
    return [NoviceStep("focus", item), NoviceStep("take", item), *steps, *[NoviceStep("wait", "")] * 3]


def _life_span(match: re.Match[str], text: str) -> list[NoviceStep]:
    kinds = re.findall(r"(longest|shortest) life span", text.split(".")[0])
    return [NoviceStep("focus", kind, room="outside") for kind in kinds]


def _stages(match: re.Match[str], text: str) -> list[NoviceStep]:
    name = match["name"]
    if "plant" in name:
        tree = name.replace("plant", "tree")
        stages = [name.replace("plant", "seed"), f"{tree} in the seedling stage", f"{tree} in the adult stage"]
    else:
        stages = [f"{name} egg", f"hatchling {name}", f"juvenile {name}", f"adult {name}"]
    return [NoviceStep("focus", stage, room="outside") for stage in stages]


def _thermometer(match: re.Match[str], text: str) -> list[NoviceStep]:
    item, room = match["thing"], match["room"]
    start = [
        NoviceStep("take", "thermometer", room="kitchen"),
        NoviceStep("focus", "thermometer"),
        NoviceStep("take", item, room=room),
    ]
    boxes = re.findall(r"(\w+ box)", text)
    end = (
        NoviceStep("move", item, boxes[0], _boxes_room(text))
        if "place it" in text
        else NoviceStep("focus", boxes[0], room=room)
    )
    return [*start, NoviceStep("focus", item), NoviceStep("measure", item), end]


def _boxes_room(text: str) -> str:
    match = re.search(rf"boxes are located around the {_ROOM}", text)
    return match["room"] if match else ""


def _conducts(match: re.Match[str], text: str) -> list[NoviceStep]:
    item, room = match["thing"], match["room"]
    box = re.findall(r"(\w+ box)", text)[0]
    return [
        NoviceStep("focus", item, room=room),
        NoviceStep("take", item, room=room),
        NoviceStep("move", item, box, room),
    ]


def _power(match: re.Match[str], text: str) -> list[NoviceStep]:
    item = match["thing"]
    wires = [
        NoviceStep("connect", "battery anode", f"{item} cathode"),
        NoviceStep("connect", "battery cathode", f"{item} anode"),
    ]
    return [NoviceStep("focus", item, room="workshop"), *wires]


def _paint(match: re.Match[str], text: str) -> list[NoviceStep]:
    wanted = match["color"].split("-")[0]
    first, second = PAINTS.get(wanted, ("red", "blue"))
    pour = NoviceStep("pour", f"{first} paint", f"{second} paint", "art studio")
    return [
        pour,
        NoviceStep("mix", "cup", room="art studio"),
        NoviceStep("focus", f"{wanted} paint", room="art studio"),
    ]


def _chemistry(match: re.Match[str], text: str) -> list[NoviceStep]:
    return [NoviceStep("read", "recipe", room=match["room"]), NoviceStep("focus", match["thing"])]


def _genetics(match: re.Match[str], text: str) -> list[NoviceStep]:
    return [NoviceStep("take", "seed", room="greenhouse"), NoviceStep("move", "seed", "flower pot", "greenhouse")]


def _plane(match: re.Match[str], text: str) -> list[NoviceStep]:
    return [NoviceStep("focus", f"inclined plane {match['name']}", room="workshop")]


def _grow(match: re.Match[str], text: str) -> list[NoviceStep]:
    return [
        NoviceStep("focus", "seed", room=match["room"]),
        NoviceStep("take", "seed"),
        NoviceStep("move", "seed", "soil", "greenhouse"),
    ]


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
    """The novice's belief. `where` maps an item to the room it was in, `inside` to its container."""

    room: str = ""
    looked: set[str] = field(default_factory=set)
    where: dict[str, str] = field(default_factory=dict)
    inside: dict[str, str] = field(default_factory=dict)
    inventory: set[str] = field(default_factory=set)

    def update(self, text: str) -> None:
        """Update from an observation."""
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

    def _moved(self, item: str, target: str) -> None:
        if target == "inventory":
            self.inventory.add(item)
            return
        self.inventory.discard(item)
        self.where[item] = self.room

    def find(self, item: str) -> str | None:
        """Find the known or carried item of a step, by its name or by its kind; None without a match."""
        known = [*sorted(self.inventory), *self.where]
        patterns = KINDS.get(item)
        if patterns is None:
            return next((name for name in known if name == item or name.endswith(f" {item}")), None)
        return next((name for pattern in patterns for name in known if re.search(pattern, name)), None)

    def is_reachable(self, name: str) -> bool:
        """Return whether an item is in this room or in the inventory."""
        return name in self.inventory or self.where.get(name) == self.room
