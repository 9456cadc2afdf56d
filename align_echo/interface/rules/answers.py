"""Canonical answers: an environment's text without counters, repeated history and the agent's own words.

Two answers with equal canonical texts say the same. The raw text is never changed for the agent.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from pydantic import JsonValue

from align_echo.interface.rules.actions import text_of
from align_echo.types import Frozen

SAME = "{same}"
"""Canonical text of an answer that repeats the page before."""

LONGEST = 2_000
"""Maximum characters of a canonical answer."""

MIN_RUN = 3
"""Consecutive answers in which a number must rise to be a counter."""

MIN_EPISODES = 2
MIN_SHARE = 0.9

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_WORD_BEFORE = re.compile(r"([A-Za-z]*)[^A-Za-z\d]*$")


class AnswerReader(Frozen):
    """Reading of an environment's answers.

    `counters` are the word before and the sign after each number that rises or falls by itself.

    `history`: an answer begins with all text before it.
    """

    counters: tuple[tuple[str, str], ...] = ()
    history: bool = False

    def page(self, raw: str, before: str = "") -> str:
        """Return the page of an answer: without history and counters."""
        text = raw.strip()
        if self.history and before.strip() and text.startswith(before.strip()):
            text = text[len(before.strip()) :].strip()
        return _masked(text, self.counters) if self.counters else text


def lift(page: str, action: str = "", arguments: Sequence[JsonValue] = ()) -> str:
    """Replace the action and its arguments in a text, in any letter case."""
    text = page[:LONGEST]
    said = action.strip()
    if len(said) > 1 and not said.startswith("{"):
        text = re.sub(rf"(?<!\w){re.escape(said)}(?!\w)", "{action}", text, flags=re.IGNORECASE)
    named = [(slot, text_of(value)) for slot, value in enumerate(arguments) if value not in (None, "", [])]
    for slot, value in sorted(named, key=lambda each: -len(each[1])):
        text = re.sub(rf"(?<![\w{{]){re.escape(value)}(?![\w}}])", f"{{{slot}}}", text, flags=re.IGNORECASE)
    return text


@functools.lru_cache(maxsize=20_000)
def _masked(text: str, counters: tuple[tuple[str, str], ...]) -> str:
    return _NUMBER.sub(lambda number: "#" if _around(text, number) in counters else number[0], text)


def _around(text: str, number: re.Match[str]) -> tuple[str, str]:
    before = _WORD_BEFORE.search(text[max(0, number.start() - 40) : number.start()])
    return (before[1].lower() if before else "", text[number.end() : number.end() + 1].strip())


def fit_reader(episodes: Iterable[Sequence[str]]) -> AnswerReader:
    """Learn a reader from episodes, each the first text and the answers in order.

    A counter rises, or falls, at every answer that shows it, whatever was done.
    """
    sequences = [[*episode] for episode in episodes if len(episode) > 1]
    begins = [
        after.strip().startswith(before.strip()) and len(after) > len(before)
        for answers in sequences
        for before, after in pairwise(answers)
        if before.strip()
    ]
    history = len(begins) >= MIN_RUN and sum(begins) >= MIN_SHARE * len(begins)
    plain = AnswerReader(history=history)
    runs: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for answers in sequences:
        pages = [plain.page(text, before) for before, text in zip(["", *answers], answers, strict=False)]
        for key, values in _numbers_of(pages).items():
            if len(values) >= MIN_RUN:
                steps = [second - first for first, second in pairwise(values)]
                runs[key].append(all(step > 0 for step in steps) or all(step < 0 for step in steps))
    counters = [key for key, rises in runs.items() if len(rises) >= MIN_EPISODES and all(rises)]
    return AnswerReader(counters=tuple(sorted(counters)), history=history)


def _numbers_of(pages: Sequence[str]) -> dict[tuple[str, str], list[float]]:
    """Return the numbers of consecutive pages by the words around them; without those that a page shows twice."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    twice: set[tuple[str, str]] = set()
    for page in pages:
        shown: dict[tuple[str, str], float] = {}
        for number in _NUMBER.finditer(page[:LONGEST]):
            key = _around(page, number)
            if key in shown:
                twice.add(key)
            shown[key] = float(number[0])
        for key, value in shown.items():
            values[key].append(value)
    return {key: listed for key, listed in values.items() if key not in twice and key != ("", "")}
