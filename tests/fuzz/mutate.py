"""Texts that nobody should write, made of texts that somebody may."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

ODD = (
    *("", "\x00", "\x1b[2J", "\u202e", "\ud800", "\ufeff", "\u2028", "\x85", "\u00a0"),
    *("\U0001f600", "\u0130", "\u017f", "\u212a", "\u0661"),
    *("<think>", "</think>", "<action>", "</action>", "<|im_end|>", "```", "~~~", "**"),
    *("Action:", "Observation:", "none"),
    *("{", "}", "[", "]", "(", ")", '"', "'", "`", "\\", "\\boxed{", "<", ">", "&", "|", ":", ",", "."),
    *("-", "#", "*", "_", "\n", "\r", "\t", " "),
    *("0", "-1", "1e999", "NaN", "Infinity", "9" * 30, "9" * 5000, "null", "true", "{}", "[]"),
)
"""What is put in: signs that end or begin something, and letters that are several, none, or turn into others."""

DEEP = ("[", "{", '{"a":', "(", "<think>", "<misalignment>", "\\boxed{", "- ", "\u201c")
"""What is put in hundreds of times over."""

LONGEST = 20_000


def mutated(seeds: Sequence[str], dice: random.Random) -> str:
    """A text made of one of the seeds by up to eight changes."""
    text = dice.choice(seeds)
    for _ in range(dice.randrange(1, 9)):
        text = _changed(text, seeds, dice)[:LONGEST]
    return text


def _changed(text: str, seeds: Sequence[str], dice: random.Random) -> str:
    start, end = sorted((_somewhere(text, dice), _somewhere(text, dice)))
    piece = text[start:end]
    match dice.randrange(9):
        case 0:
            return text[:start] + dice.choice(ODD) + text[start:]
        case 1:
            return text[:start] + text[end:]
        case 2:
            return text[:end] + piece * dice.choice((1, 2, 50)) + text[end:]
        case 3:
            return text[:start] + dice.choice(ODD) * dice.choice((1, 3, 300)) + text[end:]
        case 4:
            return text[:start] + dice.choice(DEEP) * dice.choice((5, 300, 3000)) + text[start:]
        case 5:
            other = dice.choice(seeds)
            return text[:start] + other[_somewhere(other, dice) :] + text[end:]
        case 6:
            return text[:start] + chr(dice.choice((dice.randrange(128), dice.randrange(0x3000)))) + text[start + 1 :]
        case 7:
            return text[:start] + piece.swapcase() + text[end:]
        case _:
            return text[:start] + piece[::-1] + text[end:]


def _somewhere(text: str, dice: random.Random) -> int:
    """A position, half of the time one where a word or a sign begins."""
    if dice.random() < 0.5:
        edges = [match.start() for match in re.finditer(r"\b|(?=[^\w\s])", text[:2000])]
        return dice.choice(edges) if edges else 0
    return dice.randrange(len(text) + 1)
