"""A page as text: one line for each element that can be seen, in the order of the page.

    button "Submit" (45, 77) 60x22

reads: what it is, its text as a JSON string, then where they apply its name, its color and its states, the middle of
what can be seen of it, and that part's width and height. Left out: the instruction, which is the goal.
"""

from __future__ import annotations

import json

from align_echo.wrappers.miniwob.page import SIZE, Element, Look
from align_echo.wrappers.text_env import TEXT_CHARACTERS

MOST_ELEMENTS = 80
LONGEST_TEXT = 300
LONGEST_NAME = 60
ENDED = "The task has ended."

_PRINTABLE = frozenset(TEXT_CHARACTERS)


def listing(look: Look) -> str:
    """What a page shows; at most `MOST_ELEMENTS` lines of elements."""
    if look.done:
        return ENDED
    known = look.elements[:MOST_ELEMENTS]
    lines = [f"Screen {SIZE[0]}x{SIZE[1]}, {len(look.elements)} elements:", *map(line, known)]
    hidden = len(look.elements) - len(known)
    return "\n".join([*lines, f"... and {hidden} more"] if hidden else lines)


def line(element: Element) -> str:
    """An element in one line."""
    text = None if element.text is None else json.dumps(_cut(element.text, LONGEST_TEXT))
    name, color = _cut(plain(element.name), LONGEST_NAME), element.color
    x, y = element.center
    width, height = element.size
    states = [_cut(plain(state), LONGEST_NAME) for state in element.states]
    words = [element.kind, text, name, color, *states, f"({x}, {y}) {width}x{height}"]
    return " ".join(word for word in words if word)


def plain(text: str) -> str:
    """A text in the characters of observations; others as JSON escapes them, which an action can say."""
    return "".join(one if one in _PRINTABLE else json.dumps(one)[1:-1] for one in text)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."
