"""Generated problems: twelve kinds, five levels, from fixed seeds, with computed answers.

A task id is `<kind>/<level>/<number>`. The number decides the split. No two problems of a kind have the same numbers
with the same answer, whatever their wording, so no training problem is in a test. The kinds themselves are in
`number_kinds.py` and `story_kinds.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from align_echo.dice import Dice
from align_echo.wrappers.mathematics import number_kinds, story_kinds

VERSION = 1
"""Version of the problems. Scores of different versions are not comparable."""

LEVELS = range(1, 6)

NUMBERS = {"test": range(10), "dev": range(10, 15), "train": range(15, 95)}
"""Numbers of each kind and level's problems, by split."""

MOST_DRAWS = 400
"""Largest number of draws for a problem unlike all before it."""

KINDS: dict[str, Callable[[Dice, int], tuple[int | Fraction, tuple[str, ...]]]] = {
    "arithmetic": number_kinds.arithmetic,
    "fractions": number_kinds.fractions,
    "equations": number_kinds.equations,
    "systems": number_kinds.systems,
    "sequences": number_kinds.sequences,
    "divisibility": number_kinds.divisibility,
    "modular": number_kinds.modular,
    "combinatorics": story_kinds.combinatorics,
    "probability": story_kinds.probability,
    "percentages": story_kinds.percentages,
    "rates": story_kinds.rates,
    "geometry": story_kinds.geometry,
}
"""Kind -> a function of dice and a level: the answer, and the problem in several wordings."""


@dataclass(frozen=True)
class MathProblem:
    """Problem, which may hold LaTeX, and its answer in LaTeX. `worked_out`: the answer has to be written as a number,
    not as a sum with that value."""

    task_id: str
    text: str
    answer: str
    kind: str
    level: str
    worked_out: bool


def task_ids(split: str) -> list[str]:
    """Return the task ids of a split in order, the kinds in turn."""
    return [f"{kind}/{level}/{number}" for number in NUMBERS[split] for level in LEVELS for kind in KINDS]


@cache
def problems(split: str) -> Mapping[str, MathProblem]:
    """Return the problems of a split by task id, in the order of `task_ids`."""
    return {
        problem.task_id: problem
        for number in NUMBERS[split]
        for level in LEVELS
        for problem in (generate_kind(kind)[level, number] for kind in KINDS)
    }


@cache
def generate_kind(kind: str) -> Mapping[tuple[int, int], MathProblem]:
    """Generate all problems of a kind, of every split, by level and number."""
    dice = Dice(f"math {VERSION} {kind}")
    seen: set[tuple[object, ...]] = set()
    generated = {}
    for number in range(max(numbers.stop for numbers in NUMBERS.values())):
        for level in LEVELS:
            answer, text = _new(kind, level, dice, seen)
            task_id = f"{kind}/{level}/{number}"
            generated[level, number] = MathProblem(task_id, text, latex(answer), kind, str(level), worked_out=True)
    return generated


def _new(kind: str, level: int, dice: Dice, seen: set[tuple[object, ...]]) -> tuple[int | Fraction, str]:
    """Draw an answer and a problem unlike those in `seen`, and add it there."""
    for _ in range(MOST_DRAWS):
        answer, wordings = KINDS[kind](dice, level)
        content = (answer, *sorted(re.findall(r"\d+", wordings[0])))
        if content not in seen:
            seen.add(content)
            return answer, dice.pick(wordings)
    raise AssertionError(f"there are too few different problems of {kind}, level {level}")


def latex(answer: int | Fraction) -> str:
    """Write a number as LaTeX."""
    if answer.denominator == 1:
        return str(answer.numerator)
    sign = "-" if answer < 0 else ""
    return rf"{sign}\frac{{{abs(answer.numerator)}}}{{{answer.denominator}}}"
