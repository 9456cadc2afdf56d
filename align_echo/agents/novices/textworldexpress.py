"""Scripted novice of TextWorldExpress: a stand-in for a small language model, and NOT a language model.

It has a child's idea of each of the eight games but does not know the engine's wording. Its habits are those of small
models in published logs of other text benchmarks: it writes "go north", "pick up the X", "open the X" or "put X on Y",
walks into closed doors, repeats refused actions, now and then to the end, acts before it has read, believes that 18 ml
is more than 16 l, and looks around. It follows feedback, with any kind of quotes, and is a weak reader of rules given
up front. It does not understand rephrased observations or carrying limits, and knows the right place of few items. Its
scores are upper bounds for the effect of the same interface on a language model. All draws come from a hash: same view,
same action.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from align_echo.agents.novices import smallgames as child
from align_echo.agents.novices.habits import ScriptedNovice, advised, chance, names_form, times_followed
from align_echo.types import AgentView

_COMMAND = re.compile(
    r"(?:look around|inventory|(?:look|examine|move|open|close|take|put|cook|slice|dice|chop|eat|drink|read|use|prepare"
    r"|clean|touch|sleep|walk|go|dust|kick)(?: [^`\n]+)?)"
)
_FORM = re.compile(r"[{}<>\[\]]|\b[XY]\b|\.\.\.")
_DID = re.compile(
    r"^(You are in the|You (?!need|must|should|can)\w+ the|Simon says,|The map reads|The current task|Your task is|"
    r"Gather all|Inventory|Adding the meal)"
)
_CUTS = ("slice", "dice", "chop")
_APPLIANCES = {"fry": "stove", "roast": "oven", "grill": "barbeque"}
_OWN_WORDS = {
    "move": ("go {0}", "go to the {0}"),
    "take": ("pick up the {0}", "get {0}"),
    "put": ("put {0} on {1}", "place {0} in {1}"),
    "cook": ("cook the {0} with the {1}", "use {1} on {0}"),
    "slice": ("slice {0} with knife",),
    "dice": ("dice {0} with knife",),
    "chop": ("chop {0} with knife",),
    "look": ("look",),
    "inventory": ("check inventory",),
    "examine": ("look at the {0}",),
    "open": ("open the {0}",),
    "read": ("read the {0}",),
    "eat": ("eat the {0}",),
    "prepare": ("cook the {0}",),
}
"""Verb of the engine -> the novice's own wording."""


@dataclass(frozen=True)
class GameHabits:
    """Habits of this novice. Numbers are shares of the occasions."""

    own_words: float = 0.6
    repeats: float = 0.5
    gets_stuck: float = 0.15
    walks_into_doors: float = 0.4
    hurries: float = 0.2
    wanders: float = 0.1
    heeds_feedback: bool = True
    heeds_rules: float = 0.5


USUAL = GameHabits()
STUBBORN = GameHabits(heeds_feedback=False, heeds_rules=0.0)
"""Ignores all hints: an interface must at least do no harm."""


def game_novice(habits: GameHabits = USUAL, *, seed: int = 0, name: str = "novice") -> ScriptedNovice:
    """Build the scripted novice of TextWorldExpress. It understands the games' text only."""
    return ScriptedNovice(lambda view: _GameMind(habits, seed, view).choose(), name)


class _GameMind:
    """The novice's belief at one moment, rebuilt from the view."""

    def __init__(self, habits: GameHabits, seed: int, view: AgentView) -> None:
        self.habits = habits
        self.key = f"{seed}/{view.task_id}"
        self.goal = view.goal
        self.initial = view.initial_observation
        self.turns = view.turns
        self.advice = read_rules(view.rules)
        self.room = ""
        self.exits: dict[str, child.Exits] = {}
        self.things: dict[str, child.Things] = {}
        self.closed: dict[str, dict[str, bool]] = {}
        self.inventory: list[str] = []
        self.done: set[tuple[str, str]] = set()
        self.read: dict[str, str] = {}
        self.in_vain: Counter[str] = Counter()
        self._live("", view.initial_observation)
        for turn in view.turns:
            self._live(turn.action or "", turn.observation)

    # -------------------------------------------------------- reading

    def _live(self, action: str, observation: str) -> None:
        if not _DID.search(observation):
            self.in_vain[action] += 1
            return
        room = child.room_name(observation)
        if room:
            self.room = room
            self.exits[room] = child.read_exits(observation)
            self.things[room], self.closed[room] = child.read_things(observation)
        if action.startswith("read "):
            self.read[action.removeprefix("read ")] = observation
        deed = re.match(r"You (\w+) the (.+?)(?: (?:in|with) the (.+?))?(?:\.|, revealing the (.+)\.)", observation)
        if deed and not room:
            self._change(action, deed, observation)

    def _change(self, action: str, deed: re.Match[str], observation: str) -> None:
        """Update the belief with the effect of an action."""
        verb, item, holder, revealed = deed.groups()
        items = self.things.setdefault(self.room, {})
        self.done.add((verb, item))
        if verb == "take":
            items.pop(item, None)
            self.inventory.append(item)
        elif verb == "put" and item in self.inventory:
            self.inventory.remove(item)
            items[item] = holder or ""
        elif verb == "open" and revealed:
            self.exits.setdefault(self.room, {})[action.rpartition(" ")[2]] = revealed
        elif verb == "open":
            self.closed.setdefault(self.room, {})[item] = False
            inside = re.search(r"contains (.+)\.", observation)
            items.update(dict.fromkeys(child.listed(inside[1]) if inside else [], item))
        if verb == "take" and "instructions book" in self.read:
            del self.read["instructions book"]  # its text has changed

    def draw(self, *parts: object) -> float:
        """Draw a number in [0, 1) from task and occasion only."""
        return chance(self.key, *parts)

    def hurries(self, *parts: object) -> bool:
        """Return whether it acts before reading or thinking, this time."""
        return self.draw("hurry", *parts) < self.habits.hurries

    # -------------------------------------------------------- choosing

    def choose(self) -> str:
        return self._hint() or self._wander() or self._written(self._meant() or "look around")

    def _hint(self) -> str | None:
        """Return the action named by the last feedback, unless it was already followed twice in vain."""
        if not self.habits.heeds_feedback or not self.turns:
            return None
        for command in advised(self.turns[-1], _COMMAND, cued=False):
            if not _FORM.search(command) and times_followed(self.turns, command) < 2:
                return command
        return None

    def _wander(self) -> str | None:
        """Look at an arbitrary object now and then, without progress."""
        if self.draw("wander", len(self.turns)) >= self.habits.wanders:
            return None
        looks = ["look around", "inventory", *(f"examine {item}" for item in self._here())]
        return self._written(looks[int(self.draw("look at", len(self.turns)) * len(looks))])

    def _meant(self) -> str | None:
        """Choose the next action, in the engine's words; None without an idea."""
        games = (
            ("Simon", self._simon), ("instructions book", self._book), ("math problem", self._sum),
            ("sort objects", self._sort), ("the box", self._fetch), ("coin", self._coin),
            ("usual locations", self._tidy), ("cook", self._meal),
        )  # fmt: skip
        return next((plan() for word, plan in games if word in self.goal), None)

    def _here(self) -> child.Things:
        return self.things.get(self.room, {})

    def _simon(self) -> str | None:
        texts = [turn.observation for turn in reversed(self.turns)]
        lines = [line for text in (*texts, self.initial) for line in re.findall(r"Simon says, '(.+?)'", text)]
        return lines[0] if lines else None

    def _book(self) -> str | None:
        loose = [item for item in self._here() if self._here()[item]]
        if "instructions book" not in self.read:
            if self.inventory and loose and self.hurries("book", len(self.inventory)):
                return f"take {loose[0]}"
            return "read instructions book"
        task = re.search(r"task is to (.+?)\.", self.read["instructions book"])
        return task[1].replace("the ", "") if task else None

    def _sum(self) -> str | None:
        items = [*self.inventory, *(item for item, holder in self._here().items() if holder != "box")]
        amounts = {item: child.amount(item) for item in items}
        answer: float | None = child.read_sum(self.read.get("math problem", ""))
        if answer is None and self.hurries("sum"):
            answer = max((number for number in amounts.values() if number), default=None)
        if answer is None:
            return "read math problem" if "math problem" in self.inventory else "take math problem"
        return self._box(next((item for item in items if amounts[item] == answer), ""))

    def _sort(self) -> str | None:
        units = not self.hurries("units")
        items = [*self.inventory, *(item for item, holder in self._here().items() if holder != "box")]
        amounts = {item: size for item in items if (size := child.amount(item, units=units)) is not None}
        return self._box(min(amounts, key=lambda item: amounts[item], default=""))

    def _box(self, item: str) -> str | None:
        """Take an item, or put it in the box if it is carried."""
        if not item:
            return None
        return f"put {item} in box" if item in self.inventory else f"take {item}"

    def _coin(self) -> str | None:
        return "take coin" if "coin" in self._here() else self._explore()

    def _fetch(self) -> str | None:
        if "map" not in self.read and self.in_vain["read map"] < 2 and not self.hurries("map"):
            return "read map"
        rooms = re.search(r"located in the (.+?),.* found in the (.+?)\.", self.goal)
        if "coin" in self.inventory:
            return "put coin in box" if "box" in self.closed.get(self.room, {}) else self._go(rooms[2] if rooms else "")
        return "take coin" if "coin" in self._here() else self._go(rooms[1] if rooms else "")

    def _tidy(self) -> str | None:
        for item, holder in self._here().items():
            if not holder and item not in _FIXTURES and self.in_vain[f"take {item}"] < 2:
                return f"take {item}"
        for item in self.inventory:
            for home in child.homes(item):
                if home in self.closed.get(self.room, {}) and self.in_vain[f"put {item} in {home}"] < 3:
                    return self._put(item, home)
        return self._explore() or self._carry()

    def _carry(self) -> str | None:
        """Walk to where a carried item belongs; else put it down anywhere."""
        for item in self.inventory:
            rooms = [room for home in child.homes(item) for room in self.closed if home in self.closed[room]]
            if rooms and self.room not in rooms:
                return self._go(*rooms)
        open_here = [name for name, closed in self.closed.get(self.room, {}).items() if not closed]
        return f"put {self.inventory[0]} in {open_here[0]}" if self.inventory and open_here else None

    def _put(self, item: str, holder: str) -> str:
        """Put an item where it belongs; open the holder first, or after a refusal."""
        put = f"put {item} in {holder}"
        if self.closed[self.room][holder] and (self.in_vain[put] or self._opens_first("put", self.room, holder)):
            return f"open {holder}"
        return put

    # -------------------------------------------------------- cooking

    def _meal(self) -> str | None:
        if "cookbook" not in self.read:
            return "read cookbook"
        if any(turn.observation.startswith("Adding the meal") for turn in self.turns):
            return "eat meal"
        ingredients, steps = child.read_recipe(self.read["cookbook"])
        cuts = [step for step in steps if step[0] in _CUTS]
        wanted = [item for item in (*ingredients, *(["knife"] if cuts else [])) if item not in self.inventory]
        for item in wanted:
            if item in self._here():
                return f"take {item}"
        if wanted:
            return self._open_holder() or self._go(*self._rooms_with(wanted)) or self._explore()
        left = [step for step in (*cuts, *steps) if step not in self.done]
        return self._treat(*left[0]) if left else self._serve()

    def _open_holder(self) -> str | None:
        closed = [name for name, shut in self.closed.get(self.room, {}).items() if shut and name in _LARDER]
        return next((f"open {name}" for name in closed if self.in_vain[f"open {name}"] < 2), None)

    def _treat(self, verb: str, food: str) -> str | None:
        if verb in _CUTS:
            return f"{verb} {food}"
        appliance = "stove" if self.hurries("stove", food) else _APPLIANCES.get(verb, "stove")
        if appliance in self._here():
            return f"cook {food} in {appliance}"
        return self._go(*self._rooms_with([appliance])) or self._explore()

    def _serve(self) -> str | None:
        return "prepare meal" if self.room == "kitchen" else self._go("kitchen")

    def _rooms_with(self, names: Collection[str]) -> list[str]:
        return [room for room, items in self.things.items() if any(name in items for name in names)]

    # -------------------------------------------------------- walking

    def _explore(self) -> str | None:
        """Walk towards the nearest unvisited room or closed door."""
        for direction, room in self._exits_here():
            if room not in self.exits:
                return self._step(direction)
        edge = [room for room, exits in self.exits.items() if any(to not in self.exits for to in exits.values())]
        return self._go(*(room for room in edge if room != self.room))

    def _go(self, *rooms: str) -> str | None:
        """Take a step towards the nearest of some rooms; None without a path or at the goal."""
        ways = {room: list(exits.values()) for room, exits in self.exits.items()}
        path = child.way(child.read_map(self.read.get("map", "")) | ways, self.room, rooms)
        if path:
            return next((self._step(to) for to, room in self._exits_here() if room == path[0]), None)
        return None if self.room in rooms or not rooms or rooms[0] in self.exits else self._explore()

    def _exits_here(self) -> list[tuple[str, str]]:
        exits = self.exits.get(self.room, {})
        return sorted(exits.items(), key=lambda way: self.draw("order", self.room, way[0]))

    def _step(self, direction: str) -> str:
        hidden = not self.exits[self.room][direction]
        if hidden and (self._walked_into() or self._opens_first("move", self.room, direction)):
            return f"open door to {direction}"
        return f"move {direction}"

    def _walked_into(self) -> bool:
        """Return whether it just ran into a closed door and does not repeat the same action."""
        blocked = (
            bool(self.turns) and "closed" in self.turns[-1].observation and not _DID.search(self.turns[-1].observation)
        )
        return blocked and self.draw("door", len(self.turns)) >= self.habits.repeats

    def _opens_first(self, verb: str, *occasion: str) -> bool:
        share = self.habits.walks_into_doors * (1 - self.habits.heeds_rules * (("open", verb) in self.advice))
        return self.draw("open", *occasion) >= share

    # -------------------------------------------------------- wording

    def _written(self, action: str) -> str:
        """Write the action, with this turn's habits of form."""
        verb, _, rest = action.partition(" ")
        item, _, holder = rest.partition(" in ") if verb in ("put", "cook") else (rest, "", "")
        forms = _OWN_WORDS.get(verb, (verb + " the {0}",))
        own = forms[int(self.draw("form", verb) * len(forms))].format(item, holder)
        return own if self.draw("word", verb, len(self.turns)) < self._share(verb, own) else action

    def _share(self, verb: str, own: str) -> float:
        """Return the probability of its own wording now, from habit, the last observation and the rules."""
        last = self.turns[-1] if self.turns else None
        if last and self.habits.heeds_feedback and names_form(last.observation, verb):
            return 0.0
        if self.in_vain[own] and self.draw("stuck", own) < self.habits.gets_stuck:
            return 1.0
        if last and last.action == own:  # it was not understood
            return self.habits.repeats
        return self.habits.own_words * (1 - self.habits.heeds_rules * (("say", verb) in self.advice))


_FIXTURES = ("stove", "oven", "barbeque", "toilet", "bath mat", "shower", "bath tub")
_LARDER = ("fridge", "kitchen cupboard", "cutlery drawer")


def read_rules(rules: str) -> frozenset[tuple[str, str]]:
    """Extract pairs from rules given up front: ("say", verb) for the engine's form, ("open", verb) to open before it.

    A weak reader: it understands sentences with a quoted verb, or with "instead of", "before" or "first", skips every
    sentence with a negation, and ignores conditions.
    """
    pairs: set[tuple[str, str]] = set()
    for sentence in re.split(r"[\n.;]+", rules.lower()):
        if re.search(r"\b(not|never|no|cannot|can't|don't|without)\b", sentence):
            continue
        named = [verb for verb in _OWN_WORDS if re.search(rf"\b{verb}\b", sentence)]
        if re.search(r"\binstead of\b", sentence):
            pairs |= {("say", verb) for verb in named}
        pairs |= {("say", verb) for verb in named if names_form(sentence, verb)}
        if re.search(r"\b(before|first)\b", sentence) and re.search(r"\bopen", sentence):
            pairs |= {("open", verb) for verb in named if verb != "open"}
    return frozenset(pairs)
