"""Verifier process: `python -P checking.py` reads questions, one JSON object a line, and answers each with one.

A question holds `gold` and `answer` as LaTeX, and `seconds`. The answer is `{"right": true or false}`, or `{"error":
why}` if the verifier raised an error or cannot read the gold answer. A question that takes longer than its seconds ends
the process, even without a parent. It imports math-verify and nothing of align-echo. `verifier.py` starts, awaits and
ends the process.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
import warnings
from functools import lru_cache
from typing import Any

MOST_MEMORY = 4 << 30
"""Limit of address space in bytes; allocations beyond it raise errors inside the process."""


def main() -> None:
    """Answer questions until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep output of libraries apart from answers
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")  # PYTHONWARNINGS=error would change what is read
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    read("1")
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, question["seconds"])
        answer = judge(question["gold"], question["answer"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(answer), file=answers, flush=True)


def judge(gold: str, answer: str) -> dict[str, Any]:
    """Judge an answer; return an error message if that is not possible."""
    from math_verify import verify

    try:
        wanted = read_gold(gold)
        if not wanted:
            return {"error": f"the task's own answer cannot be read: {gold[:80]!r}"}
        parsed = read(answer)
        right = verify(wanted, parsed, allow_set_relation_comp=True, timeout_seconds=None, raise_on_error=True)
        right = right and not values_differ(wanted, parsed)
    except (Exception, RecursionError, MemoryError) as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        return {"error": f"{type(error).__name__}: {reason}"}
    return {"right": bool(right)}


def read(answer: str) -> list[Any]:
    """Parse an answer with math-verify: an expression, then its text; [] if it cannot be parsed."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse

    ways = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
    parsed: list[Any] = parse(rf"\boxed{{{answer}}}", ways, parsing_timeout=None, raise_on_error=True)
    return parsed


def values_differ(gold: list[Any], answer: list[Any]) -> bool:
    """Check if two readings that math-verify takes for equal have different values.

    math-verify rounds to 6 digits after the point and cuts off small differences, so all tiny numbers are equal to it.
    """
    if not (gold and answer) or gold[-1] == answer[-1]:  # the last of a reading is its text
        return False
    return _differ(gold[0], answer[0])


def _differ(gold: Any, answer: Any) -> bool:
    from sympy import Basic, Expr, FiniteSet, Interval, MatrixBase, Tuple, Union
    from sympy.core.relational import Relational

    gold, answer = _side(gold), _side(answer)
    if isinstance(gold, MatrixBase) and isinstance(answer, MatrixBase):
        return any(map(_differ, gold.flat(), answer.flat()))
    if isinstance(gold, Interval) and isinstance(answer, Interval):
        return _differ(gold.start, answer.start) or _differ(gold.end, answer.end)
    if isinstance(gold, FiniteSet | Tuple | Union) or isinstance(answer, FiniteSet | Tuple | Union):
        left, right = (
            list(value.args) if isinstance(value, FiniteSet | Tuple | Union) else [value] for value in (gold, answer)
        )
        unmatched = (all(_differ(first, second) for second in right) for first in left)
        return any(unmatched) or any(all(_differ(first, second) for first in left) for second in right)
    if isinstance(gold, Relational) or isinstance(answer, Relational):
        return False
    both = isinstance(gold, Expr) and isinstance(answer, Expr) and isinstance(gold, Basic)
    return both and all(_values_differ(wanted, answer) for wanted in _percentages(gold))


def _side(value: Any) -> Any:
    """Return the right side of `name = value`; any other value as it is."""
    from sympy import Eq, Symbol

    return value.rhs if isinstance(value, Eq) and isinstance(value.lhs, Symbol) else value


def _percentages(gold: Any) -> list[Any]:
    """Return the values of the task's own answer: for a percentage also its number, since problems ask for percent."""
    from math_verify.grader import get_pct_val

    number = get_pct_val(gold)
    return [gold] if number is None else [gold, number]


def _values_differ(gold: Any, answer: Any) -> bool:
    """Check if two expressions differ by more than rounding, with a value for each name."""
    from sympy import Float, N, Rational

    if gold.free_symbols != answer.free_symbols:  # math-verify compared them as texts
        return False
    names = sorted(gold.free_symbols, key=str)
    values = {name: Rational(17 + 6 * row, 11 + 2 * row) for row, name in enumerate(names)}
    left, right = (value.subs(values).doit() for value in (gold, answer))
    if left.is_Rational and right.is_Rational:
        return bool(left != right)
    rounded = gold.has(Float) or answer.has(Float)
    sizes = [abs(N(value, 30, maxn=300)) for value in (left, right)]
    difference = abs(N(left - right, 30, maxn=300))
    if not all(value.is_number and value.is_finite for value in (difference, *sizes)):
        return False
    return bool(difference > max(sizes) * Rational(1, 10 ** (12 if rounded else 40)))


@lru_cache(maxsize=8192)
def read_gold(gold: str) -> list[Any]:
    """Parse a gold answer as `read` does, cached."""
    return read(gold)


if __name__ == "__main__":
    main()
