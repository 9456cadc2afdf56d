"""Check answers in two ways: by meaning, or with upstream's own check of the text.

By meaning, the notation does not matter: `7`, `7.0` and `"7"`; `[1, 2]`, `(1.0, 2.0)` and `1, 2`; a dictionary in any
order; with or without quotes; `true` for `True`. A whole number is exact. Another number may differ by a millionth of
its size, or be rounded to the number of digits in the task. Text has to be equal apart from quotes, spaces around words
and a full stop at its end. Nothing a model writes is executed: it is parsed as literals, and bounded.

By upstream's check (`is_same_text`) an answer has to be equal, equal as an int or a float, or written as Python writes
it.
"""

from __future__ import annotations

import ast
import re

from align_echo.interface import parse_source
from align_echo.reading import parse_json

LONGEST = 4_000
"""Longest right answer, in characters."""

LARGEST = 1e30
"""Numbers of this size and above are never right."""

ROUNDING = 1e-12
"""Relative error allowed for a whole number from a sum of floats: 11.999999999999998 is 12."""

_NUMBER = re.compile(r"[-+]?[$]?\d{1,30}(?:,\d{3})*(?:\.\d{0,30})?(?:[eE][-+]?\d{1,2})?")
_YES, _NO = ("true", "yes"), ("false", "no")
_NONE = object()


def is_right(answer: str, expected: object, digits: int | None = None) -> bool:
    """Check if an answer means the expected value. `digits` is the number of digits after the point in the task."""
    answer = _strip_quotes(answer)
    if len(answer) > LONGEST:
        return False
    if _equals(answer, expected, digits):
        return True
    value = _literal(answer)
    if value is _NONE and isinstance(expected, list | tuple):
        value = [part.strip() for part in answer.strip("[]()").split(",")]
    return value is not _NONE and _equals(value, expected, digits)


def is_same_text(answer: str, expected: object) -> bool:
    """Apply upstream's check: equal, equal after converting both to int or float, or equal to Python's notation."""
    if len(answer) > LONGEST:
        return False
    if answer == expected:
        return True
    if not isinstance(expected, str | int | float):
        return answer == str(expected)
    if _to_number(answer) == _to_number(expected):
        return True
    value = _literal(answer, json_too=False)
    return str(answer if value is _NONE else value) == str(expected)


def _equals(value: object, expected: object, digits: int | None) -> bool:
    if isinstance(expected, bool):
        text = str(value).casefold()
        return isinstance(value, bool | str) and text in (_YES if expected else _NO)
    if isinstance(expected, int | float):
        number = _number(value)
        return number is not None and _close(number, expected, digits)
    if isinstance(expected, str):
        return isinstance(value, str | int | float) and _strip_quotes(str(value)) == _strip_quotes(expected)
    if isinstance(expected, list | tuple):
        parts = value if isinstance(value, list | tuple) else None
        return (
            parts is not None
            and len(parts) == len(expected)
            and all(_equals(part, wanted, digits) for part, wanted in zip(parts, expected, strict=True))
        )
    if isinstance(expected, dict) and isinstance(value, dict) and len(value) == len(expected):
        by_name = {_strip_quotes(str(key)): part for key, part in value.items()}
        return all(_equals(by_name.get(_strip_quotes(str(key)), _NONE), part, digits) for key, part in expected.items())
    return False


def _close(number: int | float, expected: int | float, digits: int | None) -> bool:
    """Check if a number is the expected one: to a millionth of its size, or to the last digit if it is whole."""
    allowed = (ROUNDING if expected == int(expected) else 1e-6) * abs(expected)
    if digits is not None:
        allowed = max(allowed, 0.5 * 10**-digits * (1 + 1e-9))
    if number == int(number):
        number = int(number)  # exact also for sizes at which neighbouring integers are the same float
        return number == expected or (expected != int(expected) and abs(number - expected) <= allowed)
    return abs(number - expected) <= allowed


def _number(value: object) -> int | float | None:
    """Return a number, or the number a text spells; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = _strip_quotes(value)
        if _NUMBER.fullmatch(text) is None:
            return None
        plain = re.sub(r"[$,]", "", text)
        value = int(plain) if re.fullmatch(r"[-+]?\d+", plain) else float(plain)
    return value if isinstance(value, int | float) and -LARGEST < value < LARGEST else None


def _strip_quotes(text: str) -> str:
    """Strip quotes, backticks and a final full stop from a text, and collapse spaces."""
    text = " ".join(text.split())
    if len(text) > 1 and text[-1] == "." and text[-2] != ".":
        text = text[:-1]
    while len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`":
        text = text[1:-1].strip()
    return text


def _literal(text: str, *, json_too: bool = True) -> object:
    """Parse a Python (or JSON) literal; `_NONE` for anything else, and for a value too long for Python to write."""
    for read in (_python_literal, parse_json) if json_too else (_python_literal,):
        try:
            value = read(text)
            str(value)  # raises ValueError for more digits than Python writes
        except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
            continue
        return value
    return _NONE


def _python_literal(text: str) -> object:
    statements = parse_source(text).body
    if len(statements) != 1 or not isinstance(statements[0], ast.Expr):
        raise ValueError("that is no literal")
    return ast.literal_eval(statements[0].value)


def _to_number(value: str | int | float) -> object:
    """Convert to an int or else a float if possible; otherwise return the value."""
    for kind in (int, float):
        try:
            return kind(value)
        except (ValueError, OverflowError):
            continue
    return value
