"""The verifier's process: `python -P checking.py` reads questions, one JSON object a line, and answers each with one.

A question holds `gold` and `answer` as LaTeX, and `seconds`. The answer is `{"right": true or false}`, or
`{"error": why}` where the verifier raised or cannot read the gold answer. A question that takes longer than its seconds
ends the process, also where nobody is left to end it. It imports math-verify and nothing of align-echo. Left out:
starting, waiting and ending (`verifier.py`).
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
"""Bytes of address space: what takes more raises within."""


def main() -> None:
    """Answer questions until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")  # PYTHONWARNINGS=error would change what is read
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    read("1")
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, question["seconds"])
        answer = judged(question["gold"], question["answer"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(answer), file=answers, flush=True)


def judged(gold: str, answer: str) -> dict[str, Any]:
    """Whether an answer is right; the error in words where that cannot be said."""
    from math_verify import verify

    try:
        wanted = read_gold(gold)
        if not wanted:
            return {"error": f"the task's own answer cannot be read: {gold[:80]!r}"}
        given = read(answer)
        right = verify(wanted, given, allow_set_relation_comp=True, timeout_seconds=None, raise_on_error=True)
        right = right and not apart(wanted, given)
    except (Exception, RecursionError, MemoryError) as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        return {"error": f"{type(error).__name__}: {reason}"}
    return {"right": bool(right)}


def read(answer: str) -> list[Any]:
    """What math-verify makes of an answer: an expression, then its text; [] where it makes nothing of it."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse

    ways = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
    parsed: list[Any] = parse(rf"\boxed{{{answer}}}", ways, parsing_timeout=None, raise_on_error=True)
    return parsed


def apart(gold: list[Any], answer: list[Any]) -> bool:
    """Return whether two readings that math-verify takes for equal have different values.

    It rounds to 6 digits after the point, and cuts small differences off, so that all tiny numbers are equal to it.
    """
    if not (gold and answer) or gold[-1] == answer[-1]:  # the last of a reading is its text
        return False
    return _apart(gold[0], answer[0])


def _apart(gold: Any, answer: Any) -> bool:
    from sympy import Basic, Expr, FiniteSet, Interval, MatrixBase, Tuple, Union
    from sympy.core.relational import Relational

    gold, answer = _side(gold), _side(answer)
    if isinstance(gold, MatrixBase) and isinstance(answer, MatrixBase):
        return any(map(_apart, gold.flat(), answer.flat()))
    if isinstance(gold, Interval) and isinstance(answer, Interval):
        return _apart(gold.start, answer.start) or _apart(gold.end, answer.end)
    if isinstance(gold, FiniteSet | Tuple | Union) or isinstance(answer, FiniteSet | Tuple | Union):
        left, right = (
            list(value.args) if isinstance(value, FiniteSet | Tuple | Union) else [value] for value in (gold, answer)
        )
        unmatched = (all(_apart(one, other) for other in right) for one in left)
        return any(unmatched) or any(all(_apart(one, other) for one in left) for other in right)
    if isinstance(gold, Relational) or isinstance(answer, Relational):
        return False
    both = isinstance(gold, Expr) and isinstance(answer, Expr) and isinstance(gold, Basic)
    return both and all(_values_differ(wanted, answer) for wanted in _percentages(gold))


def _side(value: Any) -> Any:
    """What `name = value` says of the name; any other value as it is."""
    from sympy import Eq, Symbol

    return value.rhs if isinstance(value, Eq) and isinstance(value.lhs, Symbol) else value


def _percentages(gold: Any) -> list[Any]:
    """The values of the task's own answer: of a percentage its number, too, since problems ask for percent."""
    from math_verify.grader import get_pct_val

    number = get_pct_val(gold)
    return [gold] if number is None else [gold, number]


def _values_differ(gold: Any, answer: Any) -> bool:
    """Whether two expressions differ by more than rounding, where each name has a value."""
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
    """As `read`, once for each gold answer."""
    return read(gold)


if __name__ == "__main__":
    main()
