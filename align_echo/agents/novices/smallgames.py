"""Texts and common knowledge for the novice of TextWorldExpress: rooms, exits, sums, amounts, recipes, homes of items.

Pure functions of text, at a child's level. Texts in other words than the engine's are not understood.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

Exits = dict[str, str]
"""Direction -> the room behind it, empty behind a closed door."""

Things = dict[str, str]
"""Item -> its container, empty if it stands in the room itself."""


_ROOM = re.compile(r"^You are in the ([\w -]+)\.", re.MULTILINE)
_EXIT = re.compile(r"to the (north|south|east|west) you see (a closed|the) (.+)$", re.IGNORECASE)
_SIGHT = re.compile(r"(?:the room you see|There is also|You also see) (.+)$")
_HOLDER = re.compile(r"^(.+?)(?: that is (closed)|, that has nothing on it|, that is empty| that has (.+) on it)$")
_OPEN_HOLDER = re.compile(r"^(.+), that contains (.+)$")
_ARTICLE = re.compile(r"^(?:an? |some |the )?(?:open )?(?:raw )?", re.IGNORECASE)


def room_name(text: str) -> str:
    """Return the room described by a text; empty if there is none."""
    named = _ROOM.search(text)
    return named[1] if named else ""


def read_exits(text: str) -> Exits:
    """Parse the exits of a room and the rooms behind them."""
    ways = [way for sentence in _sentences(text) if (way := _EXIT.search(sentence))]
    return {way[1].lower(): way[3] if way[2] == "the" else "" for way in ways}


def read_things(text: str) -> tuple[Things, dict[str, bool]]:
    """Parse the items in a room, and its containers with whether each is closed."""
    items: Things = {}
    closed: dict[str, bool] = {}
    for sentence in _sentences(text):
        sight = _SIGHT.search(sentence)
        holder = (_HOLDER.match(sight[1]) or _OPEN_HOLDER.match(sight[1])) if sight else None
        if holder:
            name = bare(holder[1])
            closed[name] = "closed" in holder.groups()[1:]
            items |= dict.fromkeys(listed(holder.groups()[-1] or ""), name)
        elif sight:
            items[bare(sight[1])] = ""
    return items, closed


def _sentences(text: str) -> list[str]:
    return re.split(r"\.\s+|\.$", text)


def listed(text: str) -> list[str]:
    """Split "a grape, and some salt" into names."""
    return [bare(part) for part in re.split(r", and |, ", text) if part]


def bare(text: str) -> str:
    """Strip a name's article, and words the engine shows but does not accept."""
    return _ARTICLE.sub("", text.strip())


def way(rooms: Mapping[str, Collection[str]], start: str, goals: Collection[str]) -> list[str]:
    """Find a shortest path from `start` to the nearest of `goals`, without the start; empty if there is none."""
    paths: dict[str, list[str]] = {start: []}
    queue = [start]
    for room in queue:
        if room in goals:
            return paths[room]
        for neighbour in rooms.get(room, ()):
            if neighbour and neighbour not in paths:
                paths[neighbour] = [*paths[room], neighbour]
                queue.append(neighbour)
    return []


def read_map(text: str) -> dict[str, list[str]]:
    """Parse the text of a map into neighbours by room."""
    lines = re.findall(r"^\s*The (.+) connects to the (.+)\.$", text, re.MULTILINE)
    return {room: re.split(r", | and ", neighbours) for room, neighbours in lines}


def read_sum(text: str) -> int | None:
    """Solve the math problem in a text; None without one."""
    problem = re.search(r"(add|subtract|multiply|divide) (\d+) (?:and|by|from) (\d+)", text)
    if not problem:
        return None
    first, second = int(problem[2]), int(problem[3])
    if problem[1] == "divide":
        return first // second if second else None
    return {"add": first + second, "subtract": second - first, "multiply": first * second}[problem[1]]


_UNITS = {"mg": 0.001, "ml": 0.001, "mm": 0.001, "cm": 0.01, "kg": 1000.0}


def amount(item: str, *, units: bool = True) -> float | None:
    """Parse the amount of "18ml of marble" or "6 papayas", with or without its unit; None without a number."""
    much = re.match(r"(\d+)([a-z]*) ", item)
    if not much:
        return None
    return int(much[1]) * (_UNITS.get(much[2], 1.0) if units else 1.0)


def read_recipe(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Parse a recipe into ingredients and steps, e.g. ("dice", "red onion")."""
    _, _, recipe = text.partition("Ingredients:")
    ingredients, _, directions = recipe.partition("Directions:")
    steps = re.findall(r"^\s*(\w+) the (.+?)\s*$", directions, re.MULTILINE)
    return [line.strip() for line in ingredients.splitlines() if line.strip()], steps


_CLOTHES = r"shirt|dress|blazer|pant(ie)?s|skirt|pullover|jumper|sock|knickers|bra\b|top\b|sweater|suit|cardigan|jeans"
_HOMES = (
    (rf"dirty .*({_CLOTHES})", ("laundry basket", "washing machine")),
    (r"dirty", ("dishwasher", "sink")),
    (r"wet", ("clothes drier", "clothes line")),
    (r"rotten|used|wastepaper|empty|broken", ("trash can", "wastepaper basket")),
    (r"\bhat\b|beret|\bcap\b", ("hat rack",)),
    (r"shoe|boot|sneaker|moccasin|sandal|slipper", ("shoe cabinet",)),
    (r"coat\b|jacket|scarf", ("coat hanger", "wardrobe")),
    (r"umbrella", ("umbrella stand",)),
    (r"\bkeys?\b", ("key holder",)),
    (r"sock|panties|knickers|underpants|bra\b|\btie\b", ("chest of drawers", "wardrobe")),
    (r"blanket|duvet|sheet", ("chest of drawers", "bed")),
    (_CLOTHES, ("wardrobe", "chest of drawers")),
    (r"pillow", ("bed", "sofa")),
    (r"cushion", ("sofa",)),
    (r"liner|makeup|lipstick|mascara", ("dressing table",)),
    (r"shav|razor|comb|brush|toothpaste|shampoo|conditioner", ("bathroom cabinet",)),
    (r"soap", ("sink",)),
    (r"toilet paper", ("toilet roll holder",)),
    (r"towel", ("towel rack",)),
    (r"remote", ("TV stand",)),
    (r"lamp|picture|copybook", ("side table", "desk")),
    (r"\bbook|magazine|novel", ("book case",)),
    (r"spoon|fork|shears|cutlery|knife", ("cutlery drawer",)),
    (r"teapot", ("coffee table", "kitchen cupboard")),
    (r"kettle|toaster|board", ("counter",)),
    (r"milk|cold|onion|tomato|cheese|meat|chicken|yogurt|butter|lettuce|fish|tuna|pork", ("fridge", "shelf")),
    (r"", ("kitchen cupboard", "shelf")),
)


def homes(item: str) -> tuple[str, ...]:
    """List where a child would put an item, the best first."""
    return next(holders for pattern, holders in _HOMES if re.search(pattern, item))
