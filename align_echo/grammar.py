"""Numbers and articles in messages: "1 task" and "2 tasks", "an int" and "a list"."""

from __future__ import annotations

VOWELS = ("a", "e", "i", "o", "nd")
"""Beginnings of names pronounced with a vowel: "nd" as in ndarray."""


def quantity(number: int, noun: str) -> str:
    """Write a number with its noun, given in the singular: "1 task", "2 tasks", "2 batches"."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def with_article(name: str) -> str:
    """Put "a" or "an" before a name, such as a type's."""
    return f"{'an' if name.lower().startswith(VOWELS) else 'a'} {name}"
