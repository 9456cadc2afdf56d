"""Numbers and articles in messages: "1 task" beside "2 tasks", "an int" beside "a list"."""

from __future__ import annotations

VOWELS = ("a", "e", "i", "o", "nd")
"""How names begin that are spoken with a vowel: "nd" is that of ndarray."""


def quantity(number: int, noun: str) -> str:
    """Write a number with its noun, which is given for one: "1 task", "2 tasks"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def with_article(name: str) -> str:
    """Put "a" or "an" before a name, such as that of a type."""
    return f"{'an' if name.lower().startswith(VOWELS) else 'a'} {name}"
