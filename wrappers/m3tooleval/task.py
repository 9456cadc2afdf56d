"""Task of M3ToolEval, and invented names for tasks. Each family's generator is in a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from align_echo.dice import Dice
from align_echo.wrappers.m3tooleval.site import Site
from align_echo.wrappers.m3tooleval.tools import ToolCall, Tools, toolbox

_CONSONANTS = {"train": "bdfgkl", "test": "mnprst"}
"""Consonants of invented names. The splits share none, so no name is in both."""


@dataclass(frozen=True)
class ToolTask:
    """Task: the question, the right answer, and the tools for finding it.

    `make_tools` returns the tools in their initial state; with a `site`, they are those of a visit to it. `digits` is
    the number of digits after the point in a numeric answer. `plan` holds the calls of a solution, `facts` the (page,
    line) of the site to see beforehand. `has_plan` is False if no solution is known. `converts`: arguments that read as
    numbers are passed as numbers, as for upstream's tools.
    """

    instruction: str
    expected: object
    make_tools: Callable[[], Tools] = toolbox
    plan: tuple[ToolCall, ...] = ()
    digits: int | None = None
    site: Site | None = None
    facts: tuple[tuple[str, int], ...] = ()
    has_plan: bool = True
    converts: bool = False


def invent_word(dice: Dice, split: str, syllables: int = 3) -> str:
    """Invent a word in small letters; `train` and `test` use different consonants."""
    return "".join(dice.pick(_CONSONANTS[split]) + dice.pick("aeiou") for _ in range(syllables))


def draw_distinct(count: int, make: Callable[[], str]) -> list[str]:
    """Call `make` until `count` different texts have been collected."""
    texts: list[str] = []
    while len(texts) < count:
        if (text := make()) not in texts:
            texts.append(text)
    return texts


def join_words(items: list[str]) -> str:
    """Join words for a sentence: "a, b and c"."""
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else items[0]
