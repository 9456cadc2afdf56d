"""What a task is, and invented names for tasks to be about. Left out: how tasks are made (one file a family)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from align_echo.dice import Dice
from align_echo.wrappers.m3tooleval.site import Site
from align_echo.wrappers.m3tooleval.tools import ToolCall, Tools, toolbox

_CONSONANTS = {"train": "bdfgkl", "test": "mnprst"}
"""Names of the two splits are made of other letters, so that no name is in both."""


@dataclass(frozen=True)
class ToolTask:
    """A task: what is asked, what the right answer is, and the tools to find it with.

    `make_tools` gives the tools in their first state; where there is a `site`, they are those of a visit to it.
    `digits` is how many digits after the point a number of the answer needs. `plan` holds the calls that lead to the
    answer, `facts` the (page, line) of the site that have to be seen before. `has_plan` is False where no way is known.
    `converts`: tools are given numbers for arguments that read as numbers, as upstream's are.
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


def invented(dice: Dice, split: str, syllables: int = 3) -> str:
    """A word that means nothing, in small letters: `train` and `test` are written with other consonants."""
    return "".join(dice.pick(_CONSONANTS[split]) + dice.pick("aeiou") for _ in range(syllables))


def several(count: int, make: Callable[[], str]) -> list[str]:
    """So many different texts."""
    texts: list[str] = []
    while len(texts) < count:
        if (text := make()) not in texts:
            texts.append(text)
    return texts


def listed(items: list[str]) -> str:
    """Words in a sentence: "a, b and c"."""
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else items[0]
