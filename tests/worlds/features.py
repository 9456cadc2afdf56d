"""What a made-up world is like (`Features`), drawn from a seed, and the made-up words that it speaks in.

Left out: the forms of its actions (`grammar.py`) and what these do (`worlds.py`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

Spelling = Literal["numbers", "words", "several", "capitals", "codes"]
Refusal = Literal["one", "several", "quoted", "silent"]
Travel = Literal["none", "holders", "rooms"]

SPELLINGS: tuple[Spelling, ...] = ("numbers", "words", "several", "capitals", "codes")
REFUSALS: tuple[Refusal, ...] = ("one", "several", "quoted", "silent")
KINDS = {"room": 6, "holder": 8, "thing": 12}
"""The kinds of names, and how many of each a world knows; a task has some of them."""

MAX_DEPTH = 4


@dataclass(frozen=True)
class Features:
    """What may differ from world to world.

    `depth` counts the steps that a holder needs before something can be taken out of it: going there, where there is
    any going (`travel`: to the holder itself, or to its room), and the others done to it. `shown`: a text tells what
    was done to a holder. `listed`: admissible actions are listed. `offers`: forms and names are offered. `looks`: there
    are read-only actions. `undo`: the last step can be taken back. `goal`: a thing is put into a holder, or used on
    one. `whence`: taking names the holder too. `wrong_words` and `skipped` count an agent's habits: forms that it words
    wrongly, and needed steps that it leaves out.
    """

    spelling: Spelling = "numbers"
    refusal: Refusal = "one"
    depth: int = 2
    travel: Travel = "holders"
    shown: bool = True
    listed: bool = True
    offers: bool = False
    looks: bool = True
    undo: bool = True
    goal: Literal["stow", "use"] = "stow"
    whence: bool = True
    wrong_words: int = 1
    skipped: int = 1

    @property
    def preparations(self) -> int:
        """The steps that are done to a holder, going there left out."""
        return self.depth - (self.travel != "none")

    @property
    def misaligned(self) -> bool:
        """Whether an agent has any habit to err."""
        return self.wrong_words + self.skipped > 0


def draw_features(rng: random.Random) -> Features:
    """Features of one world. One world in six has no misalignment; three in four list their actions."""
    listed = rng.random() < 0.75
    wrong_words, skipped = rng.choice(((0, 0), (1, 1), (1, 1), (2, 1), (1, 0), (0, 2)))
    return Features(
        spelling=rng.choice(SPELLINGS),
        refusal=rng.choice(REFUSALS),
        depth=rng.randint(1, MAX_DEPTH),
        travel=rng.choice(("none", "holders", "rooms")),
        shown=rng.random() < 0.6,
        listed=listed,
        offers=rng.random() < (0.25 if listed else 0.75),
        looks=rng.random() < 0.6,
        undo=rng.random() < 0.6,
        goal="stow" if rng.random() < 0.6 else "use",
        whence=rng.random() < 0.7,
        wrong_words=wrong_words,
        skipped=skipped,
    )


class Words:
    """Made-up words, none of them twice."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._known: set[str] = set()

    def new(self, syllables: int = 2) -> str:
        """A word that was not given before."""
        while True:
            parts = [self._rng.choice("bdfgklmnprstvz") + self._rng.choice("aeiou") for _ in range(syllables)]
            word = "".join(parts) + self._rng.choice(("", "k", "l", "m", "n", "x"))
            if word not in self._known:
                self._known.add(word)
                return word


def draw_names(spelling: Spelling, words: Words, rng: random.Random) -> dict[str, tuple[str, ...]]:
    """All names of a world, by kind."""
    return {kind: tuple(_names(spelling, count, words, rng)) for kind, count in KINDS.items()}


def _names(spelling: Spelling, count: int, words: Words, rng: random.Random) -> list[str]:
    if spelling == "words":
        return [words.new() for _ in range(count)]
    if spelling == "capitals":
        return [" ".join(words.new().title() for _ in range(rng.randint(1, 2))) for _ in range(count)]
    if spelling == "several":
        heads = [words.new(), words.new()]
        return [" ".join([*(words.new() for _ in range(rng.randint(1, 2))), rng.choice(heads)]) for _ in range(count)]
    if spelling == "codes":
        letter = words.new(1)[0].upper() + words.new(1)[0].upper()
        return [f"{letter}-{number}" for number in rng.sample(range(2, 99), count)]
    heads = [words.new() for _ in range(2 if count < 12 else 3)]
    return [f"{heads[index % len(heads)]} {index // len(heads) + 1}" for index in range(count)]
