"""Tools and calls of them: what a tool is, how it reads its arguments, and the tools that need nothing but those.

A tool of ours takes every argument as it was written (in the JSON form: as its value) and reads it as what it needs, so
that no text that looks like a number is lost. What it raises is its answer to a call that it cannot take. All are
bounded: no call takes longer than its text. Left out: the travel tools (`travel.py`) and the browser (`site.py`), which
need the world of a task, and how a turn is read (`turns.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from align_echo.wrappers.m3tooleval.arithmetic import LARGEST, calculate

LONGEST_NUMBER = 40
"""Characters of a number."""


class Tool(NamedTuple):
    """A tool: its name, how it is called, what it does in words, and the function."""

    name: str
    signature: str
    about: str
    call: Callable[..., object]


Tools = Mapping[str, Tool]
"""Tools by name, in the order in which they are listed."""

ToolCall = tuple[str, ...]
"""A tool's name and its arguments, as they are written."""


Use = Callable[..., object]
"""Calls a tool by its name, with arguments, and gives what it answers."""


def toolbox(*tools: Tool) -> Tools:
    """Tools by name."""
    return {tool.name: tool for tool in tools}


def number(value: object) -> int | float:
    """A number from what was written. Raises `ValueError` for anything else, and for one that is not bounded."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("an argument is not a number")
    if isinstance(value, str) and len(value) > LONGEST_NUMBER:
        raise ValueError(f"a number has at most {LONGEST_NUMBER} characters")
    for kind in (int, float):
        try:
            converted = kind(value) if isinstance(value, str) else value
        except ValueError:
            continue
        if math.isfinite(converted) and abs(converted) <= LARGEST:
            return converted
        raise ValueError("a number is too large")
    raise ValueError(f"{value!r} is not a number")


def numbers(values: tuple[object, ...]) -> list[int | float]:
    """At least one number. Raises `ValueError`."""
    if not values:
        raise ValueError("at least one number is needed")
    return [number(value) for value in values]


def written(value: object) -> str:
    """A text from what was written. Raises `ValueError` for what is no text and no number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("an argument is not a text")
    return str(value)


def smallest(*values: object) -> int | float:
    """The smallest of the given numbers. Raises `ValueError` as `numbers`."""
    return min(numbers(values))


def largest(*values: object) -> int | float:
    """The largest of the given numbers. Raises `ValueError` as `numbers`."""
    return max(numbers(values))


def recorder(tools: Tools, calls: list[ToolCall]) -> Use:
    """A function that calls a tool by name, as an agent would, and writes the call down in `calls`."""

    def use(name: str, *arguments: object) -> object:
        call = (name, *map(str, arguments))
        calls.append(call)
        return tools[name].call(*call[1:])

    return use


# ---------------------------------------------------------------- arithmetic, for several families

CALCULATOR = Tool(
    "calculator",
    "calculator(expression: str) -> float",
    'Computes an arithmetic expression, such as "3 * (4 + 5)".',
    lambda expression: calculate(written(expression)),
)


def converted(value: object) -> object:
    """An int if a text can be one, else a float, else the text as it is: upstream's reading of arguments."""
    if isinstance(value, str) and len(value) <= LONGEST_NUMBER:
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value
