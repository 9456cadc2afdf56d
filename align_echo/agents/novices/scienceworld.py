"""Scripted novice of ScienceWorld: a stand-in for a small language model, and NOT a language model.

It has a child's idea of each experiment but does not know the engine's wording. Its habits are those of small models in
published logs: it acts on items of other rooms without going there, goes to rooms behind no door, says "pick up X from
Y", "use thermometer" or "heat X", and repeats actions without effect, now and then to the end. It follows feedback,
with any kind of quotes, and is a weak reader of rules given up front. It answers the engine's question about an
ambiguous item with a number. Its scores are upper bounds for the effect of the same interface on a language model. All
draws come from a hash: same view, same action.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from align_echo.agents.novices.habits import NoviceStep, ScriptedNovice, advised, chance, times_followed
from align_echo.types import AgentView

# ---------------------------------------------------------------- what the script knows of a laboratory

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


# ---------------------------------------------------------------- scripted novice of ScienceWorld

_COMMAND = re.compile(
    r"(?:open|close|deactivate|activate|disconnect|connect|use|look|inventory|task|move|pick up|put down|pour|dunk|mix"
    r"|go|teleport|reset task|eat|flush|focus|wait|read)\d*(?: [^`\n{}]+)?"
)
_IN_VAIN = re.compile(r"No known action|Unknown action|It's not clear|not moveable|can't|isn't|broken|not sure")
_QUESTION = "Ambiguous request"
_OPTION = re.compile(r"^(\d+):\s*(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class LabHabits:
    """Habits of this novice. Numbers are shares of the occasions.

    `patience` is the most tries in vain, unless it gets stuck.
    """

    goes_first: float = 0.15
    teleports: float = 0.15
    adds_words: float = 0.85
    looks_about: float = 0.45
    gets_stuck: float = 0.4
    patience: int = 4
    heeds_feedback: bool = True
    heeds_rules: float = 0.5


USUAL = LabHabits()
STUBBORN = LabHabits(heeds_feedback=False, heeds_rules=0.0)
"""Ignores all hints: an interface must at least do no harm."""

STUCK = 100
"""Repeats of an action once it is stuck."""


_ENGINES_WORDS = {
    "focus": "focus on {name}",
    "take": "pick up {name}",
    "move": "move {name} to {place}",
    "heat": "move {name} to {place}",
    "cool": "move {name} to {place}",
    "activate": "activate {name}",
    "measure": "use thermometer on {name}",
    "pour": "pour cup containing {name} in cup containing {place}",
    "mix": "mix {name}",
    "connect": "connect {name} to {place}",
    "wait": "wait",
    "read": "read {name}",
}
_OWN_WORDS = {
    "focus": ("focus on the {name} in front of me",),
    "take": ("pick up {name} from {holder}", "take {name} from {holder}"),
    "move": ("place {name} in {place}",),
    "heat": ("heat {name}", "heat {name} on stove"),
    "cool": ("freeze {name}", "cool {name} in freezer"),
    "activate": ("turn on the {name} to high", "use {name}"),
    "measure": ("use thermometer", "measure temperature of {name}"),
    "pour": ("mix {name} with {place}",),
    "mix": ("stir {name}",),
    "connect": ("connect battery to {place}",),
    "wait": ("wait 5",),
    "read": (),
}
"""Verb of a step -> the engine's wording, and the novice's own."""


def lab_novice(habits: LabHabits = USUAL, *, seed: int = 0, name: str = "novice") -> ScriptedNovice:
    """Build the scripted novice of ScienceWorld. It understands ScienceWorld's text only."""
    return ScriptedNovice(lambda view: _LabMind(habits, seed, view).choose(), name)


class _LabMind:
    """The novice's belief at one moment, rebuilt from the view."""

    def __init__(self, habits: LabHabits, seed: int, view: AgentView) -> None:
        self.habits = habits
        self.key = f"{seed}/{view.task_id}"
        self.round = 0
        self.turns = view.turns
        self.advice = read_rules(view.rules)
        self.todo = list(read_goal(view.goal))
        self.belief = LabBelief()
        self.tries: dict[str, int] = {}
        self.heard: set[tuple[str, str]] = set()
        self.belief.update(view.initial_observation)
        for turn in view.turns:
            self._live(turn.action or "", turn.observation)

    def _live(self, action: str, observation: str) -> None:
        self.belief.update(observation)
        known = (action, observation) in self.heard
        self.heard.add((action, observation))
        if known or _IN_VAIN.search(observation):
            self.tries[action] = self.tries.get(action, 0) + 1
        for step in self.todo:
            if re.search(DONE[step.verb], observation) and (step.verb == "wait" or not known):
                self.todo.remove(step)
                break

    def draw(self, *parts: object) -> float:
        """Draw a number in [0, 1) from task and occasion only."""
        return chance(self.key, *parts)

    # -------------------------------------------------------- choosing

    def choose(self) -> str:
        action = self._answer() or self._hint() or self._look_about()
        if action is not None:
            return action
        for _ in range(3):
            for step in self.todo:
                for action in self._ways(step):
                    if self.tries.get(action, 0) < self._patience(action):
                        return action
            for action in self._explore():
                if self.tries.get(action, 0) < self._patience(action):
                    return action
            self.round += 1
        return "wait" if self.draw("idle", len(self.turns)) < 0.3 else "look around"

    def _answer(self) -> str | None:
        """Answer the engine's question about an ambiguous item with the number of the wanted option."""
        if not self.turns or not self.turns[-1].observation.startswith(_QUESTION):
            return None
        options = _OPTION.findall(self.turns[-1].observation)
        wanted = self.todo[0].receptacle or self.todo[0].item if self.todo else ""
        return next((number for number, text in options if wanted and wanted in text), "0")

    def _hint(self) -> str | None:
        """Return the step named by the last feedback, unless it was already followed twice in vain."""
        if not self.habits.heeds_feedback or not self.turns:
            return None
        for command in advised(self.turns[-1], _COMMAND):
            if times_followed(self.turns, command) < 2:
                return command
        return None

    def _look_about(self) -> str | None:
        """Look at an arbitrary object now and then, after an action without effect."""
        if not self.turns or not _IN_VAIN.search(self.turns[-1].observation):
            return None
        if self.draw("look about", len(self.turns)) >= self.habits.looks_about:
            return None
        seen = [name for name, room in self.belief.where.items() if room == self.belief.room]
        looks = ["look around", "inventory", *(f"look at {name}" for name in seen)]
        return looks[int(self.draw("look at", len(self.turns)) * len(looks))]

    def _patience(self, action: str) -> int:
        """Return how often to try an action in vain before giving it up, over all rounds so far."""
        if self.draw("stuck", action) < self.habits.gets_stuck:
            return STUCK
        return (self.round + 1) * (1 + int(self.draw("patience", action) * self.habits.patience))

    # -------------------------------------------------------- wording

    def _ways(self, step: NoviceStep) -> Iterator[str]:
        """Generate the actions to try for a step, in order: habits first, the working form last."""
        name = self.belief.find(step.item)
        room = step.room or self.belief.where.get(name or "", "")
        words = name or step.item
        reachable = room in ("", self.belief.room) and name is not None and self.belief.is_reachable(name)
        if step.verb == "wait" or reachable:
            yield from self._phrases(step, words)
            return
        hurries = self.draw("hurry", step.verb, words) >= self._will("go to", step.verb, self.habits.goes_first)
        if hurries and name is not None:
            yield self._right(step, words)
        if room and room != self.belief.room:
            yield from self._go(room)
        elif room and room not in self.belief.looked:
            yield "look around"
        elif room:
            yield from self._phrases(step, words)
        else:
            yield from self._explore()

    def _explore(self) -> Iterator[str]:
        if self.belief.room not in self.belief.looked:
            yield "look around"
        unseen = [room for room in ROOMS if room not in self.belief.looked]
        for room in sorted(unseen, key=lambda room: ROOMS.index(room) + 4 * self.draw("order", room)):
            yield from self._go(room)

    def _go(self, room: str) -> Iterator[str]:
        if self.draw("teleport", room) >= self._will("teleport", "go to", self.habits.teleports):
            yield f"go to {room}"
        yield f"teleport to {room}"

    def _phrases(self, step: NoviceStep, name: str) -> Iterator[str]:
        if self.draw("word", step.verb, name) < self._wordy(step.verb):
            yield from self._wrong(step, name)
        yield self._right(step, name)

    def _wordy(self, verb: str) -> float:
        """Return the probability of its own wording: by habit, less if the rules advise against it."""
        return self.habits.adds_words * (1 - self.habits.heeds_rules * (("say", verb) in self.advice))

    def _wrong(self, step: NoviceStep, name: str) -> Iterator[str]:
        holder = self.belief.inside.get(name) or self.belief.room
        for form in _OWN_WORDS[step.verb]:
            yield form.format(name=name, place=step.receptacle, holder=holder)

    def _right(self, step: NoviceStep, name: str) -> str:
        return _ENGINES_WORDS[step.verb].format(name=name, place=step.receptacle)

    def _will(self, step: str, verb: str, habit: float) -> float:
        """Return the probability of a first step: by habit, or because the rules ask for it."""
        return max(habit, self.habits.heeds_rules) if (step, verb) in self.advice else habit


_VERBS = {
    "focus": "focus on", "take": "pick up", "move": "move", "activate": "activate", "measure": "use", "pour": "pour",
    "mix": "mix", "connect": "connect", "wait": "wait", "read": "read",
}  # fmt: skip


def read_rules(rules: str) -> frozenset[tuple[str, str]]:
    """Extract pairs from rules given up front: ("go to", verb) to go first, ("teleport", "go to"), ("say", verb) for
    its form.

    A weak reader: it understands sentences with "before" or "instead of", skips every sentence with a negation, and
    ignores conditions.
    """
    pairs: set[tuple[str, str]] = set()
    for sentence in re.split(r"[\n.;]+", rules.lower()):
        if re.search(r"\b(not|never|no|cannot|can't|don't|without)\b", sentence):
            continue
        named = [verb for verb, words in _VERBS.items() if re.search(rf"\b{words}\b", sentence)]
        if re.search(r"\b(before|first)\b", sentence) and re.search(r"\b(go(ing)?|teleport) to\b", sentence):
            pairs |= {("go to", verb) for verb in named}
        if re.search(r"\binstead of\b", sentence):
            pairs |= {("say", verb) for verb in named}
            if re.search(r"\bteleport\b.*\binstead of\b.*\bgo\b", sentence):
                pairs.add(("teleport", "go to"))
    return frozenset(pairs)
