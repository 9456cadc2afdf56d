"""Calculator for text written by a model: numbers and + - * / // % ** ( ) only. Nothing is executed.

The text is parsed, and only listed kinds of syntax are computed. Expressions, numbers and results are bounded, so that
`9**9**9` is refused before it is computed. Names, functions, comparisons and complex numbers are not supported.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable

from align_echo.interface import parse_source

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
