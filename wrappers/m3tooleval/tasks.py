"""Task ids, and generation of a task from its id alone: `<family>/<train or test>-<index>`.

Upstream's own tasks are in `upstream.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from align_echo.base.dice import Dice
from align_echo.errors import UsageError
from align_echo.wrappers.m3tooleval import plants, trade, travel, web
from align_echo.wrappers.m3tooleval.spec import FAMILIES
from align_echo.wrappers.m3tooleval.tools import (
    Tool,
    ToolCall,
    Use,
    as_text,
    largest,
    make_recorder,
    number,
    smallest,
    toolbox,
)
from align_echo.wrappers.m3tooleval.upstream import ToolTask, draw_distinct, invent_word, join_words

# ---------------------------------------------------------------- task family `message_decoder`


def _unhex(text: object) -> str:
    return bytes.fromhex(as_text(text)).decode("ascii")


def shift_letters(text: str, by: int) -> str:
    """Shift each letter of a text by `by` places in the alphabet."""
    moved = []
    for letter in text:
        first = ord("A") if "A" <= letter <= "Z" else ord("a") if "a" <= letter <= "z" else None
        moved.append(letter if first is None else chr((ord(letter) - first + by) % 26 + first))
    return "".join(moved)


TOOLS = toolbox(
    Tool(
        "convert_hex_to_ascii",
        "convert_hex_to_ascii(hex_string: str) -> str",
        "Reads hexadecimal digits as ASCII text.",
        _unhex,
    ),
    Tool("reverse_string", "reverse_string(string: str) -> str", "Turns a text round.", lambda s: as_text(s)[::-1]),
    Tool(
        "caesar_decode",
        "caesar_decode(message: str, shift: int) -> str",
        "Takes back a Caesar cipher: each letter goes back by the shift.",
        lambda message, shift: shift_letters(as_text(message), -int(number(shift))),
    ),
    Tool(
        "string_length",
        "string_length(string: str) -> int",
        "Counts the characters of a text.",
        lambda s: len(as_text(s)),
    ),
    Tool(
        "minimum_value",
        "minimum_value(*args) -> int/float",
        "The smallest of the given numbers.",
        smallest,
    ),
    Tool(
        "maximum_value",
        "maximum_value(*args) -> int/float",
        "The largest of the given numbers.",
        largest,
    ),
)


def _hexed(text: str) -> str:
    return text.encode().hex()


def _message(dice: Dice, split: str) -> str:
    return " ".join(invent_word(dice, split, 2 + dice.below(3)) for _ in range(1 + dice.below(2)))


def _invent_words(dice: Dice, split: str, count: int) -> list[str]:
    """Invent words of different lengths, in a random order."""
    return [invent_word(dice, split, length) for length in dice.shuffled(range(2, 2 + count))]


def _whole_chain(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    shift = 2 + dice.below(20)
    sent = _hexed(shift_letters(_message(dice, split), shift)[::-1])
    text = use("caesar_decode", use("reverse_string", use("convert_hex_to_ascii", sent)), shift)
    return (
        f"A station received {sent}. Its sender shifted every letter by {shift} places (a Caesar cipher), turned "
        "the text round and wrote it in hexadecimal. What did the message say?",
        text,
    )


def _shift_then_hex(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    shift = 2 + dice.below(20)
    sent = _hexed(shift_letters(_message(dice, split), shift))
    text = use("caesar_decode", use("convert_hex_to_ascii", sent), shift)
    return (
        f"The text behind {sent} was encoded with a Caesar cipher with a shift of {shift} and then in "
        "hexadecimal. Decode it.",
        text,
    )


def _length(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    shift = 2 + dice.below(20)
    sent = _hexed(shift_letters(_message(dice, split), shift)[::-1])
    text = use("caesar_decode", use("reverse_string", use("convert_hex_to_ascii", sent)), shift)
    return (
        f"Undo the three steps behind {sent} (a Caesar cipher with a shift of {shift}, turning round, hexadecimal, "
        "in this order). How many characters does the decoded text have, spaces counted?",
        use("string_length", text),
    )


def _shortest(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    sent = [_hexed(word[::-1]) for word in _invent_words(dice, split, 3)]
    texts = [use("convert_hex_to_ascii", part) for part in sent]
    lengths = [use("string_length", text) for text in texts]
    return (
        f"Three words were turned round and written in hexadecimal: {join_words(sent)}. How many letters has the "
        "shortest of them?",
        use("minimum_value", *lengths),
    )


def _longest(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    shift = 2 + dice.below(20)
    sent = [_hexed(shift_letters(word, shift)[::-1]) for word in _invent_words(dice, split, 2)]
    texts = [str(use("convert_hex_to_ascii", part)) for part in sent]
    long = max(texts, key=len)
    text = use("caesar_decode", use("reverse_string", long), shift)
    return (
        f"Of the two words behind {join_words(sent)}, each shifted by {shift} (Caesar), turned round and written in "
        "hexadecimal, decode the longer one and give it as your answer.",
        text,
    )


def _largest(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    values = draw_distinct(3, lambda: "".join(str(1 + dice.below(9)) for _ in range(4)))
    sent = [_hexed(value) for value in values]
    texts = [use("reverse_string", use("convert_hex_to_ascii", part)) for part in sent]
    return (
        f"Each of {join_words(sent)} is a number whose digits were turned round and then written in hexadecimal. Which "
        "is the largest of the three numbers?",
        use("maximum_value", *texts),
    )


def _keyed(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    shift, key, text = 2 + dice.below(20), invent_word(dice, split), _message(dice, split)
    first, second = _hexed(shift_letters(key, shift)), _hexed(shift_letters(text, len(key)))
    word = use("caesar_decode", use("convert_hex_to_ascii", first), shift)
    length = use("string_length", word)
    answer = use("caesar_decode", use("convert_hex_to_ascii", second), length)
    return (
        f"The word {first} (Caesar with a shift of {shift}, then hexadecimal) has as many letters as the shift of the "
        f"second message, {second}, which was encoded in the same two steps. What does the second message say?",
        answer,
    )


def _both(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    shift = 2 + dice.below(20)
    sent = [_hexed(shift_letters(word, shift)) for word in draw_distinct(2, lambda: invent_word(dice, split))]
    texts = [use("caesar_decode", use("convert_hex_to_ascii", part), shift) for part in sent]
    return (
        f"Two words were shifted by {shift} (Caesar) and written in hexadecimal: {join_words(sent)}. Give the decoded "
        "words as a list, in this order, such as ['abc', 'def'].",
        texts,
    )


KINDS = (_whole_chain, _shift_then_hex, _length, _shortest, _longest, _largest, _keyed, _both)


def make(index: int, dice: Dice, split: str) -> ToolTask:
    """Generate the task of an index; kinds alternate."""
    calls: list[ToolCall] = []
    instruction, expected = KINDS[index % len(KINDS)](dice, split, make_recorder(TOOLS, calls))
    return ToolTask(instruction, expected, lambda: TOOLS, tuple(calls))


# ---------------------------------------------------------------- task ids, and generation of a task from its id alone

GENERATOR = 1
"""Version to raise whenever an id becomes another task."""

TRAINING_SETS = 5
"""Number of training sets, each as large as the test set."""

ALIGN_TRAINING = (4, 5)
"""Indices of each family's tasks in ALIGN's training split, as in its public code; the others are its test split."""

_MAKERS: dict[str, Callable[[int, Dice, str], ToolTask]] = dict(
    zip(FAMILIES, (make, plants.make, trade.make, travel.make, web.make), strict=True)
)

_ID = re.compile(rf"({'|'.join(FAMILIES)})/(train|test)-(0|[1-9][0-9]{{0,3}})")


def split_ids(split: str) -> list[str]:
    """Return the task ids of a split, family by family."""
    sets = TRAINING_SETS if split == "train" else 1
    name = "train" if split == "train" else "test"
    ids = [f"{family}/{name}-{index}" for family, count in FAMILIES.items() for index in range(count * sets)]
    return ids if split in ("train", "test") else align_half(ids, split)


def align_half(ids: list[str], split: str) -> list[str]:
    """Select ALIGN's part of test tasks: `align_train` holds two of each family, any other split the rest."""
    of_families = (_in_family(ids, family) for family in FAMILIES)
    training = {own[index] for own in of_families for index in ALIGN_TRAINING if index < len(own)}
    return [task for task in ids if (task in training) == (split == "align_train")]


def _in_family(ids: list[str], family: str) -> list[str]:
    return [task for task in ids if task.startswith(f"{family}/")]


def is_ours(task_id: str) -> bool:
    """Check if an id is that of a generated task, with a known solution."""
    return _ID.fullmatch(task_id) is not None


@lru_cache(maxsize=512)
def make_task(task_id: str) -> ToolTask:
    """Generate the task of an id. Raises `UsageError` for an unknown id."""
    parts = _ID.fullmatch(task_id)
    if parts is None:
        raise UsageError(f"there is no task {task_id[:80]!r}; see tasks() for the ids")
    family, split, index = parts.groups()
    return _MAKERS[family](int(index), Dice(f"m3tooleval {GENERATOR} {task_id}"), split)
