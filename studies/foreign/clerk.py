"""Clerk of tau2's retail shop: knows what is to be done, and writes its tool calls as a careless model does.

What it wants to call are the reference calls of tau2's task, by the names of tau2's schemas. Each task has two habits:
an id without its sign or in capitals, a list in one string, arguments by other names, digits as numbers, a reason in
words of its own, no look-ups. What is refused it sends once more, then it goes on to the next call.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from align_echo.agents.novices.habits import chance
from align_echo.interface.rules.actions import Form
from align_echo.types import AgentView, Turn

HABITS = 2
"""Habits in a task."""

MOST_TURNS, MOST_ALONE = 6, 2
"""Turns that the clerk spends on a call, and refusals without a command to send after which it goes on."""

SHORT = {
    "order_id": "order",
    "item_ids": "items",
    "new_item_ids": "new_items",
    "user_id": "user",
    "product_id": "product",
    "payment_method_id": "payment_method",
}
CAPITAL = {"user_id", "payment_method_id"}
REASON = "the customer changed their mind"
LOOKS = ("find_", "get_", "list_")

_COMMAND = re.compile(r"`(\{[^`\n]+\})`")
_NAMED = re.compile(r'"(\w+)": "([^"\n]{1,60})"')
_IDS = re.compile(r"#W\d+|\b\d{10}\b|\b\w+_\d{4,7}\b")

Arguments = dict[str, Any]


def leave_out_sign(arguments: Arguments) -> Arguments:
    """Leave out the sign before an id."""
    return {name: value.lstrip("#") if isinstance(value, str) else value for name, value in arguments.items()}


def write_capitals(arguments: Arguments) -> Arguments:
    """Write ids of users and of means of payment with capitals."""
    return {name: str(value).title() if name in CAPITAL else value for name, value in arguments.items()}


def join_lists(arguments: Arguments) -> Arguments:
    """Write a list as one string."""
    return {name: ", ".join(map(str, value)) if isinstance(value, list) else value for name, value in arguments.items()}


def shorten_names(arguments: Arguments) -> Arguments:
    """Call arguments by shorter names."""
    return {SHORT.get(name, name): value for name, value in arguments.items()}


def write_numbers(arguments: Arguments) -> Arguments:
    """Write digits as numbers."""
    return {name: _number(value) for name, value in arguments.items()}


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(each) for each in value]
    return int(value) if isinstance(value, str) and value.isdigit() else value


def give_reason(arguments: Arguments) -> Arguments:
    """Give a reason in words of one's own."""
    return {name: REASON if name == "reason" else value for name, value in arguments.items()}


def hurry(arguments: Arguments) -> Arguments:
    """Call as it is wanted: who has this habit looks nothing up."""
    return arguments


Way = Callable[[Arguments], Arguments]
WAYS: tuple[Way, ...] = (
    leave_out_sign,
    write_capitals,
    join_lists,
    shorten_names,
    write_numbers,
    give_reason,
    hurry,
)


@functools.cache
def wanted_calls() -> Mapping[str, tuple[tuple[str, Arguments], ...]]:
    """Return the reference calls of each task."""
    tasks = importlib.import_module("tau2.domains.retail.environment").get_tasks(None)
    return {
        str(task.id): tuple((call.name, dict(call.arguments)) for call in task.evaluation_criteria.actions or ())
        for task in tasks
    }


def serve_customer(view: AgentView, seed: int = 0) -> list[str]:
    """Return the next call, or `done`; the habits are drawn by seed and task."""
    ways = sorted(WAYS, key=lambda way: chance("habit", seed, view.task_id, way.__name__))[:HABITS]
    wanted = [call for call in wanted_calls()[view.task_id] if hurry not in ways or not call[0].startswith(LOOKS)]
    return [next_call([write_call(*call, ways) for call in wanted], view.turns)]


def write_call(tool: str, arguments: Arguments, ways: Sequence[Way]) -> str:
    """Write a call in some ways."""
    for way in ways:
        arguments = way(arguments)
    return json.dumps({"name": tool, "arguments": arguments})


def next_call(calls: Sequence[str], turns: Sequence[Turn]) -> str:
    """Return the call after some turns; `done` at the end."""
    at = spent = alone = 0
    for turn in turns:
        if at == len(calls):
            break
        refused = turn.observation.startswith("Error")
        spent += 1
        alone += refused and not _COMMAND.search(turn.observation)
        worked = not refused and f'"{json.loads(calls[at])["name"]}"' in (turn.action or "")
        if worked or spent >= MOST_TURNS or alone >= MOST_ALONE:
            at, spent, alone = at + 1, 0, 0
    return calls[at] if at < len(calls) else "done"


def stroll_shop(view: AgentView, forms: Sequence[Form]) -> list[str]:
    """Return calls of any tool, in any way, on names that were read."""
    texts = "\n".join([view.initial_observation, *(turn.observation for turn in view.turns)])
    named, ids = _NAMED.findall(texts), _IDS.findall(texts) or ["#W0000000"]
    turn = len(view.turns)
    calls = []
    for form in forms:
        arguments: Arguments = {}
        for name, kind in zip(form.arguments, form.types, strict=True):
            alike = [value for key, value in named if key == name or f"{key}s" in name] or ids
            value = alike[int(chance(name, view.task_id, turn) * len(alike))]
            arguments[name] = [value] if kind == "array" or name.endswith("ids") else value
        way = WAYS[int(chance("way", view.task_id, turn, form.name) * len(WAYS))]
        calls.append(write_call(form.tool, arguments, [way]))
    return calls
