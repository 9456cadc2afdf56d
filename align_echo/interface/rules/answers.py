"""Canonical answers: an environment's text without counters, repeated history and the agent's own words.

Two answers with equal canonical texts say the same. The raw text is never changed for the agent.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise, zip_longest

from pydantic import JsonValue

from align_echo.interface.rules.actions import text_of
from align_echo.types import Frozen

SAME = "{same}"
"""Canonical text of an answer that repeats the page before."""

PART = "{part}"
"""What stands in a canonical answer for the beginning of one of an argument's words."""

NAME = "{name}"
"""What stands in a canonical answer for a tool, or for an argument that it does not have."""

LONGEST = 2_000
"""Maximum characters of a canonical answer."""

MIN_RUN = 3
"""Consecutive answers in which a number must rise to be a counter."""

MIN_EPISODES = 2
MIN_SHARE = 0.9

MIN_REPEATED = 0.5
"""Share of the lines of an answer, and of the answers, that repeat the page before on a board."""

MOST_STOCK, LONGEST_STOCK = 100, 300
"""Maximum stock lines, and characters of each."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_WORDS = re.compile(r"\w+")
_WITH_DIGIT = re.compile(r"(?<![\w{])\w*\d\w*(?![\w}])")
_WORD_BEFORE = re.compile(r"([A-Za-z]*)[^A-Za-z\d]*$")


class AnswerReader(Frozen):
    """Reading of an environment's answers.

    `counters` are the word before and the sign after each number that rises or falls by itself. `history`: an answer
    begins with all text before it. `echo`: a line of an answer is the action. `board`: an answer repeats lines of the
    page before, and only the others are news. `stock` are lines that say the same after different actions, whose
    words they have by chance.
    """

    counters: tuple[tuple[str, str], ...] = ()
    history: bool = False
    echo: bool = False
    board: bool = False
    stock: tuple[str, ...] = ()

    def page(self, raw: str, before: str = "", action: str = "") -> str:
        """Return the page of an answer: without history, echo and counters."""
        text = raw.strip()
        if self.history and before.strip() and text.startswith(before.strip()):
            text = text[len(before.strip()) :].strip()
        if self.echo and action.strip():
            text = "\n".join(line for line in text.splitlines() if not _is_echo(line, action)).strip()
        return _masked(text, self.counters) if self.counters else text

    def news(self, page: str, before: str, known: str) -> str:
        """Return what is new on a page. `known` is the news of the page before."""
        if not self.board:
            return page
        if page == before:
            return known
        old = {line.strip() for line in before.splitlines()}
        return "\n".join(line for line in page.splitlines() if line.strip() not in old)

    def lift(
        self, text: str, action: str, arguments: Sequence[JsonValue] = (), call_names: Sequence[str] = ()
    ) -> str:
        """Replace the action and its parts in a text, as `lift`, except in stock lines."""
        if not self.stock:
            return lift(text, action, arguments, call_names)
        lines = text[:LONGEST].split("\n")
        parts = arguments, call_names
        return "\n".join(line if line.strip() in self.stock else lift(line, action, *parts) for line in lines)


def lift(
    page: str, action: str = "", arguments: Sequence[JsonValue] = (), call_names: Sequence[str] = ()
) -> str:
    """Replace the action and its arguments in a text, in any letter case; and numbers that begin an argument's words.

    An environment that reads a text where it wants a list may name the first sign of the text alone. `call_names` are a
    tool and the arguments that it does not have, which its errors may quote.
    """
    text = page[:LONGEST]
    said = action.strip()
    if len(said) > 1 and not said.startswith("{"):
        text = re.sub(rf"(?<!\w){re.escape(said)}(?!\w)", "{action}", text, flags=re.IGNORECASE)
    for name in call_names if said.startswith("{") else ():
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", NAME, text)
    parts = [(slot, part) for slot, value in enumerate(arguments) for part in _parts(value)]
    named = [(slot, text_of(part)) for slot, part in parts if part not in (None, "", [])]
    for slot, value in sorted(named, key=lambda each: -len(each[1])):
        text = re.sub(rf"(?<![\w{{]){re.escape(value)}(?![\w}}])", f"{{{slot}}}", text, flags=re.IGNORECASE)
    words = [word for _, value in named for word in re.findall(r"\w+", value)]
    return _WITH_DIGIT.sub(lambda word: PART if any(each.startswith(word[0]) for each in words) else word[0], text)


def mask_ids(text: str) -> str:
    """Return a canonical answer with all words that have a digit alike."""
    return _WITH_DIGIT.sub("#", text)


def _parts(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else [value]


@functools.lru_cache(maxsize=20_000)
def _masked(text: str, counters: tuple[tuple[str, str], ...]) -> str:
    return _NUMBER.sub(lambda number: "#" if _around(text, number) in counters else number[0], text)


def _around(text: str, number: re.Match[str]) -> tuple[str, str]:
    before = _WORD_BEFORE.search(text[max(0, number.start() - 40) : number.start()])
    return (before[1].lower() if before else "", text[number.end() : number.end() + 1].strip())


def fit_reader(episodes: Iterable[Sequence[str]], actions: Iterable[Sequence[str]] = ()) -> AnswerReader:
    """Learn a reader from episodes, each the first text and the answers in order; `actions` are those before the
    answers.

    A counter rises, or falls, at every answer that shows it, whatever was done.
    """
    pairs = [([*texts], [*said]) for texts, said in zip_longest(episodes, actions, fillvalue=()) if len(texts) > 1]
    sequences = [texts for texts, _ in pairs]
    begins = [
        after.strip().startswith(before.strip()) and len(after) > len(before)
        for answers in sequences
        for before, after in pairwise(answers)
        if before.strip()
    ]
    history = len(begins) >= MIN_RUN and sum(begins) >= MIN_SHARE * len(begins)
    plain = AnswerReader(history=history)
    paged = [[plain.page(text, last) for last, text in zip(["", *texts], texts, strict=False)] for texts in sequences]
    said = [
        turn for (_, each), pages in zip(pairs, paged, strict=True) for turn in zip(pages[1:], each, strict=False)
    ]
    echoes = [any(_is_echo(line, action) for line in page.splitlines()) for page, action in said]
    runs: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for pages in paged:
        for key, values in _numbers_of(pages).items():
            if len(values) >= MIN_RUN:
                steps = [second - first for first, second in pairwise(values)]
                runs[key].append(all(step > 0 for step in steps) or all(step < 0 for step in steps))
    counters = [key for key, rises in runs.items() if len(rises) >= MIN_EPISODES and all(rises)]
    return AnswerReader(
        counters=tuple(sorted(counters)),
        history=history,
        echo=len(echoes) >= MIN_RUN and sum(echoes) >= MIN_SHARE * len(echoes),
        board=_is_board([pair for pages in paged for pair in pairwise(pages)]),
        stock=_stock_lines(said),
    )


def _is_echo(line: str, action: str) -> bool:
    """Whether a line has no words but the action's."""
    return action.strip() != "" and _WORDS.findall(line.lower()) == _WORDS.findall(action.lower())


def _is_board(pairs: Iterable[tuple[str, str]]) -> bool:
    """Whether most answers of several lines repeat most lines of the page before."""
    shares = [_repeated(before, after) >= MIN_REPEATED for before, after in pairs if before != after]
    return len(shares) >= MIN_RUN and sum(shares) >= MIN_REPEATED * len(shares)


def _repeated(before: str, after: str) -> float:
    old, lines = {line.strip() for line in before.splitlines()}, [line.strip() for line in after.splitlines()]
    return sum(line in old for line in lines) / len(lines) if len(lines) > 1 else 0.0


def _stock_lines(said: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the lines after different actions in which these would be lifted differently."""
    lifted: dict[str, set[str]] = defaultdict(set)
    for page, action in dict.fromkeys(said):
        for line in {line.strip() for line in page.splitlines()}:
            if line and len(line) <= LONGEST_STOCK:
                lifted[line].add(lift(line, action, _WORDS.findall(action)))
    return tuple(sorted(line for line, texts in lifted.items() if len(texts) > 1)[:MOST_STOCK])


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
