"""Tools and calls: the form of a tool, parsing of arguments, and the tools that need only their arguments.

A built-in tool takes every argument as written (in the JSON form: as its value) and converts it itself, so that a text
that looks like a number is preserved. An error of a tool is its answer to an invalid call. All tools are bounded: no
call takes longer than its text. The travel tools (`travel.py`) and the browser (`site.py`) need a task's world;
`env.py` parses a turn.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import NamedTuple

from align_echo.interface.contract import parse_source

# ---------------------------------------------------------------- calculator for text written by a model

LONGEST = 400
"""Longest expression, in characters."""

LARGEST = 1e30
"""Largest number, intermediate results included."""

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def calculate(expression: str) -> int | float:
    """Compute an expression. Raises `ValueError` with a one-line reason for invalid text, and `ZeroDivisionError`."""
    if len(expression) > LONGEST:
        raise ValueError(f"an expression has at most {LONGEST} characters")
    try:
        statements = parse_source(expression.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        statements = []
    if len(statements) != 1 or not isinstance(statements[0], ast.Expr):
        raise ValueError("that is no arithmetic expression")
    return _value(statements[0].value)


def _value(node: ast.expr) -> int | float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _bounded(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        if (compute := _OPERATORS.get(type(node.op))) is not None:
            return _bounded(compute(left, right))
    raise ValueError("only numbers, + - * / // % ** and brackets can be computed")


def _power(base: float, exponent: float) -> int | float:
    """Compute a power. Raises `ValueError` if the result is not real, or too large; the size is checked beforehand."""
    if base < 0 and exponent != int(exponent):
        raise ValueError("the result is not a real number")
    if base and abs(exponent * math.log10(abs(base))) > math.log10(LARGEST):
        raise ValueError("a number is too large or too small")
    if abs(exponent) > LARGEST:
        raise ValueError("a number is too large or too small")
    return _bounded(base**exponent)


def _bounded(value: int | float) -> int | float:
    if not abs(value) <= LARGEST:
        raise ValueError("a number is too large or too small")
    return value


# ---------------------------------------------------------------- tools and calls

LONGEST_NUMBER = 40
"""Longest number, in characters."""


class Tool(NamedTuple):
    """Tool: its name, its signature, its description and the function."""

    name: str
    signature: str
    about: str
    call: Callable[..., object]


Tools = Mapping[str, Tool]
"""Tools by name, in the order in which they are listed."""

ToolCall = tuple[str, ...]
"""Tool name and arguments, as they are written."""


Use = Callable[..., object]
"""Function that calls a tool by name, with arguments, and returns its answer."""


def toolbox(*tools: Tool) -> Tools:
    """Index tools by name."""
    return {tool.name: tool for tool in tools}


def number(value: object) -> int | float:
    """Parse a number. Raises `ValueError` for anything else, and for a number out of bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("an argument is not a number")
    if isinstance(value, str) and len(value) > LONGEST_NUMBER:
        raise ValueError(f"a number has at most {LONGEST_NUMBER} characters")
    for kind in (int, float):
        try:
            result = kind(value) if isinstance(value, str) else value
        except ValueError:
            continue
        if math.isfinite(result) and abs(result) <= LARGEST:
            return result
        raise ValueError("a number is too large")
    raise ValueError(f"{value!r} is not a number")


def numbers(values: tuple[object, ...]) -> list[int | float]:
    """Parse at least one number. Raises `ValueError`."""
    if not values:
        raise ValueError("at least one number is needed")
    return [number(value) for value in values]


def as_text(value: object) -> str:
    """Return an argument as text. Raises `ValueError` unless it is text or a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("an argument is not a text")
    return str(value)


def smallest(*values: object) -> int | float:
    """Return the smallest number. Raises `ValueError` as `numbers`."""
    return min(numbers(values))


def largest(*values: object) -> int | float:
    """Return the largest number. Raises `ValueError` as `numbers`."""
    return max(numbers(values))


def make_recorder(tools: Tools, calls: list[ToolCall]) -> Use:
    """Make a function that calls a tool by name, as an agent would, and records the call in `calls`."""

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
    lambda expression: calculate(as_text(expression)),
)


def to_number(value: object) -> object:
    """Convert a text to an int or else a float if possible, as upstream reads arguments."""
    if isinstance(value, str) and len(value) <= LONGEST_NUMBER:
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value
