"""Generated problems: twelve kinds, five levels, made by seeds of their own, with answers that are computed.

A task id is `<kind>/<level>/<number>`. Numbers say the split, and no two problems of a kind hold the same numbers with
the same answer, however they are worded: what is met in training is not met in a test. Left out: what a kind is about
(`number_kinds.py`, `story_kinds.py`).
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
"""Another number: other problems. Scores of two versions are not compared."""

LEVELS = range(1, 6)

NUMBERS = {"test": range(10), "dev": range(10, 15), "train": range(15, 95)}
"""The problems of each kind and level, by split."""

MOST_DRAWS = 400
"""Draws for one problem that is unlike all before it."""

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
class Problem:
    """A problem, which may hold LaTeX, and its answer, in LaTeX. `worked_out`: the answer is a number, and has to be
    given as one and not as a sum that has it for its value."""

    task_id: str
    text: str
    answer: str
    kind: str
    level: str
    worked_out: bool


def task_ids(split: str) -> list[str]:
    """The task ids of a split in their order, the kinds in turn."""
    return [f"{kind}/{level}/{number}" for number in NUMBERS[split] for level in LEVELS for kind in KINDS]


@cache
def problems(split: str) -> Mapping[str, Problem]:
    """The problems of a split by task id, in the order of `task_ids`."""
    return {
        problem.task_id: problem
        for number in NUMBERS[split]
        for level in LEVELS
        for problem in (problems_of(kind)[level, number] for kind in KINDS)
    }


@cache
def problems_of(kind: str) -> Mapping[tuple[int, int], Problem]:
    """All problems of a kind, of every split, by level and number."""
    dice = Dice(f"math {VERSION} {kind}")
    seen: set[tuple[object, ...]] = set()
    made = {}
    for number in range(max(numbers.stop for numbers in NUMBERS.values())):
        for level in LEVELS:
            answer, text = _new(kind, level, dice, seen)
            task_id = f"{kind}/{level}/{number}"
            made[level, number] = Problem(task_id, text, latex(answer), kind, str(level), worked_out=True)
    return made


def _new(kind: str, level: int, dice: Dice, seen: set[tuple[object, ...]]) -> tuple[int | Fraction, str]:
    """An answer and its problem, unlike those that were seen, to which it is added."""
    for _ in range(MOST_DRAWS):
        answer, wordings = KINDS[kind](dice, level)
        content = (answer, *sorted(re.findall(r"\d+", wordings[0])))
        if content not in seen:
            seen.add(content)
            return answer, dice.pick(wordings)
    raise AssertionError(f"there are too few different problems of {kind}, level {level}")


def latex(answer: int | Fraction) -> str:
    """A number as LaTeX."""
    if answer.denominator == 1:
        return str(answer.numerator)
    sign = "-" if answer < 0 else ""
    return rf"{sign}\frac{{{abs(answer.numerator)}}}{{{answer.denominator}}}"
