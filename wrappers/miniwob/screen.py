"""Page as text: one line for each visible element, in the order of the page.

    button "Submit" (45, 77) 60x22

A line holds the element's kind, its text as a JSON string, its name, color and states if it has any, the middle of its
visible part, and that part's width and height. `read_screen` parses it. The instruction is not included; it is the
goal.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from align_echo.wrappers.gui.actions import Point
from align_echo.wrappers.miniwob.page import SIZE, PageElement, PageState
from align_echo.wrappers.text_env import TEXT_CHARACTERS

MOST_ELEMENTS = 80
LONGEST_TEXT = 300
LONGEST_NAME = 60
ENDED = "The task has ended."
_LINE = re.compile(r"(?P<what>.+) \((?P<x>-?\d+), (?P<y>-?\d+)\) (?P<width>\d+)x(?P<height>\d+)")

_PRINTABLE = frozenset(TEXT_CHARACTERS)


@dataclass(frozen=True)
class ScreenLine:
    """Line of the screen: the words before the text, the text, and the position."""

    kind: str
    text: str
    rest: str
    center: Point
    width: int
    height: int


def listing(look: PageState) -> str:
    """Render a page as text; at most `MOST_ELEMENTS` lines of elements."""
    if look.done:
        return ENDED
    known = look.elements[:MOST_ELEMENTS]
    lines = [f"Screen {SIZE[0]}x{SIZE[1]}, {len(look.elements)} elements:", *map(line, known)]
    hidden = len(look.elements) - len(known)
    return "\n".join([*lines, f"... and {hidden} more"] if hidden else lines)


def line(element: PageElement) -> str:
    """Render an element in one line."""
    text = None if element.text is None else json.dumps(_cut(element.text, LONGEST_TEXT))
    name, color = _cut(plain(element.name), LONGEST_NAME), element.color
    x, y = element.center
    width, height = element.size
    states = [_cut(plain(state), LONGEST_NAME) for state in element.states]
    words = [element.kind, text, name, color, *states, f"({x}, {y}) {width}x{height}"]
    return " ".join(word for word in words if word)


def plain(text: str) -> str:
    """Restrict a text to the characters of observations; others are escaped as in JSON, so that an action can name
    them."""
    return "".join(line if line in _PRINTABLE else json.dumps(line)[1:-1] for line in text)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."


def read_screen(text: str) -> list[ScreenLine]:
    """Parse the elements of a screen; [] for any other text. Words around it do not matter."""
    return [element for line in text.splitlines() if (element := _read_line(line)) is not None]


def _read_line(line: str) -> ScreenLine | None:
    match = _LINE.fullmatch(line.strip())
    if not match:
        return None
    kind, quote, rest = match["what"].partition(' "')
    text = ""
    if quote:
        try:
            text, end = json.JSONDecoder().raw_decode(f'"{rest}')
        except ValueError:
            return None
        rest = f'"{rest}'[end:]
    else:
        kind, _, rest = kind.partition(" ")
    center = Point(int(match["x"]), int(match["y"]))
    return ScreenLine(kind, str(text), rest.strip(), center, int(match["width"]), int(match["height"]))
