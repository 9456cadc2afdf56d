"""Page of a task in a browser: opened from its seed, acted on by real input events, read as text and as a picture.

The page's clock runs for one second after every action and stands still otherwise (`clock.js`), so the same actions
give the same page at any speed. `env.py` handles turns and refuses actions without meaning for a page.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from align_echo.errors import EngineError
from align_echo.wrappers.gui.actions import (
    ClickAction,
    DragAction,
    GuiAction,
    LongPressAction,
    Point,
    ScrollAction,
    TypeAction,
)
from align_echo.wrappers.miniwob.chromium import BrowserProcess
from align_echo.wrappers.miniwob.spec import PageTask
from align_echo.wrappers.text_env import TEXT_CHARACTERS

# ---------------------------------------------------------------- text as typed on a keyboard

CONTROL = {"\n": ("Enter", 13, "\r"), "\t": ("Tab", 9, ""), "\b": ("Backspace", 8, "")}
"""Character -> name of the key, its code, the text it writes."""

SHIFTED = dict(zip(')!@#$%^&*(:+<_>?~{|}"', "0123456789;=,-./`[\\]'", strict=True))
MARKS = dict(zip(";=,-./`[\\]'", (186, 187, 188, 189, 190, 191, 192, 219, 220, 221, 222), strict=True))
SHIFT = 8
"""Bit of the shift key among an event's modifiers."""


def key_events(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the commands of the DevTools protocol that type a text: (name, parameters)."""
    for character in text:
        if character in CONTROL:
            name, code, written = CONTROL[character]
            yield from _stroke(name, code, written, 0)
        elif " " <= character <= "~":
            plain = SHIFTED.get(character, character.lower())
            yield from _stroke(character, MARKS.get(plain, ord(plain.upper())), character, SHIFT * (plain != character))
        else:
            yield "Input.insertText", {"text": character}


def _stroke(key: str, code: int, text: str, modifiers: int) -> Iterator[tuple[str, dict[str, Any]]]:
    event = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
    down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
    yield "Input.dispatchKeyEvent", {**event, **down}
    yield "Input.dispatchKeyEvent", {**event, "type": "keyUp"}


# ---------------------------------------------------------------- page of a task in a browser

SIZE = (160, 210)
"""Width and height of a page, in pixels."""

TURN_MS = 1000
"""Time that passes on the page's clock after an action; a long press holds for as long."""

OPENINGS = 3
"""Largest number of attempts to open a page: a busy browser now and then drops a script of it."""

SCROLL_PIXELS = 100
DRAG_STEPS = 8
WHEEL = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}

_AFTER = """
const done = arguments[arguments.length - 1], ms = arguments[0];
alignEcho.settle(() => { alignEcho.advance(ms); alignEcho.settle(() => done(alignEcho.told())); });
"""
_BEGIN = """
const done = arguments[arguments.length - 1];
alignEcho.begin(arguments[0], arguments[1]).then(done, (error) => done({error: String(error)}));
"""


@dataclass(frozen=True)
class PageElement:
    """Visible element. `text` is None if it holds none; `color` is "" or as "#ff0000"."""

    kind: str
    text: str | None
    name: str
    color: str
    states: tuple[str, ...]
    center: Point
    size: tuple[int, int]


@dataclass(frozen=True)
class PageState:
    """State of a page: its visible elements, whether the task has ended, and the reward (-1 to 1, 0 before the end)."""

    elements: tuple[PageElement, ...]
    done: bool
    reward: float


class BrowserPage:
    """Page of one task in a browser."""

    def __init__(self, browser: BrowserProcess, task: PageTask) -> None:
        """Open the page. Raises `EngineError`."""
        self._browser = browser
        self._mouse("mouseMoved", Point(0, 0))  # else the element under the last task's pointer looks hovered
        goal: Any = None
        for _ in range(OPENINGS):
            browser.open(address(task))
            goal = browser.run_async(_BEGIN, str(task.seed), task.mode)
            if isinstance(goal, str):
                break
        if not isinstance(goal, str):
            raise EngineError(f"the page of {task.subdomain} does not begin: {goal}")
        self.goal = goal
        self.look = self._pass(TURN_MS)

    def act(self, action: GuiAction) -> None:
        """Click, press, drag, scroll or type, by input events as from mouse and keyboard. Raises `EngineError`."""
        match action:
            case ClickAction(point):
                self._press(point)
                self._release(point)
            case LongPressAction(point):
                self._press(point)
                self._pass(TURN_MS)
                self._release(point)
            case DragAction(start, end):
                self._press(start)
                for point in between(start, end):
                    self._mouse("mouseMoved", point, buttons=1)
                self._release(end)
            case ScrollAction(point, direction):
                right, down = (SCROLL_PIXELS * way for way in WHEEL[direction])
                self._mouse("mouseMoved", point)
                self._mouse("mouseWheel", point, deltaX=right, deltaY=down)
            case TypeAction(text):
                for name, event in key_events(text):
                    self._browser.command(name, event)
        self.look = self._pass(TURN_MS)

    def screenshot(self) -> bytes:
        """Return the page as a PNG. Raises `EngineError`."""
        picture = self._browser.command("Page.captureScreenshot", {"format": "png"})
        return base64.b64decode(picture["data"])

    def target(self, point: Point) -> str | None:
        """Return the element a click at a point is for; None if the exact point counts. Raises `EngineError`."""
        target = self._browser.run("return alignEcho.target(arguments[0], arguments[1]);", *point)
        return None if target is None else str(target)

    def plan(self, subdomain: str) -> list[dict[str, Any]] | None:
        """Return an expert's plan from the page's present state; None without an expert."""
        steps = self._browser.run("return alignEcho.plan(arguments[0]);", subdomain)
        return None if steps is None else list(steps)

    def _pass(self, milliseconds: int) -> PageState:
        """Advance the page's clock and read the page."""
        answer = self._browser.run_async(_AFTER, milliseconds)
        elements = tuple(
            PageElement(
                kind=element["kind"],
                text=element["text"],
                name=element["name"],
                color=element["color"],
                states=tuple(element["states"]),
                center=Point(*element["center"]),
                size=(element["size"][0], element["size"][1]),
            )
            for element in answer["elements"]
        )
        return PageState(elements, bool(answer["done"]), float(answer["reward"]))

    def _press(self, point: Point) -> None:
        self._mouse("mouseMoved", point)
        self._mouse("mousePressed", point, button="left", buttons=1, clickCount=1)

    def _release(self, point: Point) -> None:
        self._mouse("mouseReleased", point, button="left", clickCount=1)

    def _mouse(self, kind: str, point: Point, **more: Any) -> None:
        self._browser.command("Input.dispatchMouseEvent", {"type": kind, "x": point.x, "y": point.y, **more})


def start_browser() -> BrowserProcess:
    """Start a browser for pages of tasks. Raises `MissingExtraError`, `MissingDataError`, `EngineError`."""
    return BrowserProcess(SIZE, at_start=_scripts())


def address(task: PageTask) -> str:
    """Return the address of a task's page. A different query makes it another page for the browser."""
    spec = find_spec("miniwob")
    if spec is None or spec.origin is None:
        raise EngineError("the package miniwob is gone")
    page = Path(spec.origin).parent / "html" / "miniwob" / f"{task.subdomain}.html"
    return f"{page.as_uri()}?{task.seed}"


def between(start: Point, end: Point) -> list[Point]:
    """Return the points on the way of a drag, the end last."""
    ways = [
        Point(
            start.x + round((end.x - start.x) * step / DRAG_STEPS),
            start.y + round((end.y - start.y) * step / DRAG_STEPS),
        )
        for step in range(DRAG_STEPS + 1)
    ]
    return [after for before, after in pairwise(ways) if after != before] or [end]


@functools.cache
def _scripts() -> str:
    folder = files("align_echo.wrappers.miniwob")
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in ("clock.js", "look.js", "experts.js"))


# ---------------------------------------------------------------- page as text

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
