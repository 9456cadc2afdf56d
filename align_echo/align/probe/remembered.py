"""Answers of pure functions on texts, remembered: the trials read the same sentences thousands of times.

Left out: what depends on more of a spec than on the pattern of its names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

MOST = 100_000
"""Answers that are remembered of each function; those that were not asked for longest go first."""

Answer = TypeVar("Answer")


def by_name(function: Callable[..., Answer]) -> Callable[..., Answer]:
    """A function of a spec and texts that reads nothing of the spec but "name", with its answers remembered. They are
    shared: whoever asks leaves them as they are."""

    @lru_cache(maxsize=MOST)
    def remembered(name: str, *texts: str) -> Answer:
        return function({"name": name}, *texts)

    @wraps(function)
    def asked(spec: dict[str, Any], *texts: str) -> Answer:
        return remembered(spec["name"], *texts)

    return asked


Parsed = tuple[str, list[str], bool]


class _AskedWords(dict[str, str]):
    """Knows no word, and keeps which it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.words: set[str] = set()

    def __contains__(self, word: object) -> bool:
        self.words.add(str(word))
        return False


def by_unknown_words(
    function: Callable[[dict[str, Any], dict[str, Any], str], Parsed],
) -> Callable[[dict[str, Any], dict[str, Any], str], Parsed]:
    """A function of a spec, a history and a text that reads nothing but "name" of the one and whether words are among
    the "stems" of the other, with its answers remembered for histories that know none of the words it asks for."""

    @lru_cache(maxsize=MOST)
    def remembered(name: str, text: str) -> tuple[Parsed, frozenset[str]]:
        stems = _AskedWords()
        return function({"name": name}, {"stems": stems}, text), frozenset(stems.words)

    @wraps(function)
    def asked(spec: dict[str, Any], history: dict[str, Any], text: str) -> Parsed:
        (skeleton, names, exact), words = remembered(spec["name"], text)
        if history["stems"].keys().isdisjoint(words):
            return skeleton, [*names], exact
        return function(spec, history, text)

    return asked


by_text = lru_cache(maxsize=MOST)
"""The same of a function of one text."""
