"""Turn collections into training and test examples of a critic: deduplicated, split by task, balanced.

Not here: examples themselves (`examples.py`), and training (`fit`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from align_echo.critic.drawn import SamplingSettings
from align_echo.critic.labels import Rule
from align_echo.errors import UsageError
from align_echo.gaia.collection import read_sampling_settings
from align_echo.gaia.examples import (
    ActionExample,
    Balance,
    balance_examples,
    deduplicate,
    examples_file,
    read_examples,
    rule_for,
    split_held_out,
)
from align_echo.regular_files import read_bytes


@dataclass(frozen=True)
class TrainingData:
    """Training and test examples of a critic with their label rule; `collections` by the SHA-256 of their examples, and
    the recorded sampling settings of their candidates (`drawn`).

    Counts of examples left out: `duplicates`, equal actions in the same conversation; `unlabelled`, undecided by the
    rule; and `unbalanced`, dropped from the larger class.
    """

    rule: Rule
    learned: list[ActionExample]
    tested: list[ActionExample]
    collections: dict[str, Path]
    drawn: tuple[SamplingSettings, ...] = ()
    duplicates: int = 0
    unlabelled: int = 0
    unbalanced: int = 0

    @property
    def left_out(self) -> dict[str, int]:
        """Return how many actions were left out, by reason."""
        return {
            "duplicates": self.duplicates,
            f"that the rule {self.rule!r} cannot tell": self.unlabelled,
            "so that as many are right as wrong": self.unbalanced,
        }


def prepare_training_data(
    collections: Sequence[Path], share: float, rule: Rule | None, *, seed: int, balance: Balance = "dropped"
) -> TrainingData:
    """Prepare examples from all collections; a `share` of the tasks is for tests. Without a `rule`, use the
    environments' default.

    With `balance` "weighed", all training examples stay; their weights are computed later. Raises `UsageError` for
    unusable examples, `MissingDataError` for a collection without any.
    """
    folders = index_by_content(collections)
    all_examples = [example for folder in folders.values() for example in read_examples(folder)]
    examples = deduplicate(all_examples)
    chosen = rule or rule_for((example.environment, example) for example in examples)
    learned, tested = split_examples(examples, share, chosen, seed=seed, balance=balance)
    drawn = [read_sampling_settings(folder) for folder in folders.values()]
    labelled, retained = (
        sum(example.label(chosen) is not None for example in some) for some in (examples, [*learned, *tested])
    )
    return TrainingData(
        rule=chosen,
        learned=learned,
        tested=tested,
        collections=folders,
        drawn=tuple(way for way in drawn if way is not None),
        duplicates=len(all_examples) - len(examples),
        unlabelled=len(examples) - labelled,
        unbalanced=labelled - retained,
    )


def index_by_content(collections: Sequence[Path]) -> dict[str, Path]:
    """Index the collections by the SHA-256 of their examples, so that a collection named twice counts once.

    Raises `MissingDataError` for a collection without examples.
    """
    files: dict[str, Path] = {}
    for folder in collections:
        files.setdefault(hashlib.sha256(read_bytes(examples_file(folder))).hexdigest(), folder)
    return files


def split_examples(
    examples: Sequence[ActionExample], share: float, rule: Rule, *, seed: int, balance: Balance = "dropped"
) -> tuple[list[ActionExample], list[ActionExample]]:
    """Split into (training, test), each balanced; the training part stays complete if it is "weighed".

    Raises `UsageError` for a side without correct or wrong actions.
    """
    balance_examples(examples, rule, seed=seed)
    learned, tested = split_held_out(examples, share, seed=seed)
    try:
        dropped = balance_examples(learned, rule, seed=seed)
        return dropped if balance == "dropped" else learned, balance_examples(tested, rule, seed=seed) if share else []
    except UsageError as error:
        hint = "choose another --held-out, or 0 to learn from all and leave the critic uncalibrated"
        raise UsageError(f"the tasks are too few to hold {share} of them out: collect more, {hint}") from error
