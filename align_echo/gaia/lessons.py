"""Collections become what a critic learns from and is tested on: no example twice, divided by task, balanced.

Left out: examples themselves (`examples.py`), and learning from them (`fit`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from align_echo.critic.drawn import Drawn
from align_echo.critic.labels import Rule
from align_echo.errors import UsageError
from align_echo.gaia.collection import drawn_of
from align_echo.gaia.examples import (
    Balance,
    Example,
    balanced,
    deduplicated,
    examples_file,
    held_out,
    read_examples,
    rule_for,
)
from align_echo.regular_files import read_bytes


@dataclass(frozen=True)
class Lessons:
    """What a critic learns from and is tested on, and by which rule; `collections` by the SHA-256 of their examples,
    and how their candidates were `drawn`, where they say so.

    Left out were `duplicates`, the same actions in the same conversations; `unlabelled` ones, which the rule cannot
    tell; and `unbalanced` ones, of the label of which there were more.
    """

    rule: Rule
    learned: list[Example]
    tested: list[Example]
    collections: dict[str, Path]
    drawn: tuple[Drawn, ...] = ()
    duplicates: int = 0
    unlabelled: int = 0
    unbalanced: int = 0

    @property
    def left_out(self) -> dict[str, int]:
        """How many actions were left out, by why, in words."""
        return {
            "duplicates": self.duplicates,
            f"that the rule {self.rule!r} cannot tell": self.unlabelled,
            "so that as many are right as wrong": self.unbalanced,
        }


def lessons_of(
    collections: Sequence[Path], share: float, rule: Rule | None, *, seed: int, balance: Balance = "dropped"
) -> Lessons:
    """Of all collections together; a `share` of the tasks is tested on, and without a `rule` it is the environments'
    default. What is to be "weighed" is all there, its weights are to come.

    Raises `UsageError` for examples that cannot be learned from, `MissingDataError` for a collection without.
    """
    named = contents(collections)
    read = [example for folder in named.values() for example in read_examples(folder)]
    examples = deduplicated(read)
    chosen = rule or rule_for((example.environment, example) for example in examples)
    learned, tested = divided(examples, share, chosen, seed=seed, balance=balance)
    drawn = [drawn_of(folder) for folder in named.values()]
    labelled, kept = (
        sum(example.label(chosen) is not None for example in some) for some in (examples, [*learned, *tested])
    )
    return Lessons(
        rule=chosen,
        learned=learned,
        tested=tested,
        collections=named,
        drawn=tuple(way for way in drawn if way is not None),
        duplicates=len(read) - len(examples),
        unlabelled=len(examples) - labelled,
        unbalanced=labelled - kept,
    )


def contents(collections: Sequence[Path]) -> dict[str, Path]:
    """The collections by the SHA-256 of their examples: one that is named twice, by whatever path, is there once.

    Raises `MissingDataError` for one without examples.
    """
    files: dict[str, Path] = {}
    for folder in collections:
        files.setdefault(hashlib.sha256(read_bytes(examples_file(folder))).hexdigest(), folder)
    return files


def divided(
    examples: Sequence[Example], share: float, rule: Rule, *, seed: int, balance: Balance = "dropped"
) -> tuple[list[Example], list[Example]]:
    """(to learn from, to test on), each balanced, but for what is to be learned from where that is "weighed".

    Raises `UsageError` for a side without correct or wrong actions.
    """
    balanced(examples, rule, seed=seed)
    learned, tested = held_out(examples, share, seed=seed)
    try:
        dropped = balanced(learned, rule, seed=seed)
        return dropped if balance == "dropped" else learned, balanced(tested, rule, seed=seed) if share else []
    except UsageError as error:
        few = "choose another --held-out, or 0 to learn from all and leave the critic uncalibrated"
        raise UsageError(f"the tasks are too few to hold {share} of them out: collect more, {few}") from error
