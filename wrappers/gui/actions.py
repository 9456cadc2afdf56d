"""Actions on a screen, as text: `click(12, 34)`, `type("hello")`, `scroll(80, 100, "down")`, `press_back()`.

GAIA's action space (section 3.1 and prompt 2): one call, integers for pixels from the upper left corner of the
screenshot, JSON strings for text. `parse` and `write` are inverse to each other. Environments themselves check if a
point lies on the screen and if they know the action.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast, get_args

from align_echo.errors import ReplyFormatError

Direction = Literal["up", "down", "left", "right"]


class Point(NamedTuple):
    """Position in pixels from the upper left corner of the screenshot."""

    x: int
    y: int


@dataclass(frozen=True)
class Click:
    """Tap, or single press of the left button."""

    point: Point


@dataclass(frozen=True)
class LongPress:
    """Press and hold."""

    point: Point


@dataclass(frozen=True)
class Type:
    """Text entry at the focus."""

    text: str


@dataclass(frozen=True)
class Scroll:
    """Scroll at a point, to bring into view the content in this direction."""

    point: Point
    direction: Direction


@dataclass(frozen=True)
class Drag:
    """Press at the start, move, release at the end."""

    start: Point
    end: Point


@dataclass(frozen=True)
class OpenApp:
    """Start of an application by name."""

    name: str


@dataclass(frozen=True)
class PressHome:
    """Return to the home screen."""


@dataclass(frozen=True)
class PressBack:
    """Return to the previous screen."""


@dataclass(frozen=True)
class Finished:
    """End of the task; `answer` is the user's requested answer, empty otherwise."""

    answer: str = ""


GuiAction = Click | LongPress | Type | Scroll | Drag | OpenApp | PressHome | PressBack | Finished

ACTION_FORMAT = """\
click(x, y): click at this point, in pixels from the upper left corner
long_press(x, y): press this point and hold it
type("text"): enter text where the focus is
scroll(x, y, "down"): scroll what is at this point "up", "down", "left" or "right"
drag(x1, y1, x2, y2): drag from the first point to the second
open_app("name"): open an app
press_home(): go to the home screen
press_back(): go back
finished(): say that the task is done; finished("answer") if it asks for an answer"""

_SURROGATE = re.compile("[\ud800-\udfff]")
_CALL = re.compile(r"\s*([a-z_]+)\s*\((.*)\)\s*", re.DOTALL)


def action_type(action: GuiAction) -> str:
    """Return the action's name in text: "click"."""
    return _NAMES[type(action)]


def point_of(action: GuiAction) -> Point | None:
    """Return the point of a click or a long press, used to measure grounding; None for other actions."""
    return action.point if isinstance(action, Click | LongPress) else None


def parse(text: str) -> GuiAction:
    """Parse an action. Raises `ReplyFormatError` with a one-line reason; nothing is guessed."""
    call = _CALL.fullmatch(text)
    if not call:
        raise ReplyFormatError(f"not an action: {text.strip()[:80]!r}; an action looks like click(12, 34)")
    name, arguments = call[1], _arguments(call[2])
    match name, arguments:
        case "click", [int(x), int(y)]:
            return Click(Point(x, y))
        case "long_press", [int(x), int(y)]:
            return LongPress(Point(x, y))
        case "type", [str(text_typed)]:
            return Type(text_typed)
        case "scroll", [int(x), int(y), str(direction)] if direction in get_args(Direction):
            return Scroll(Point(x, y), cast(Direction, direction))
        case "drag", [int(x1), int(y1), int(x2), int(y2)]:
            return Drag(Point(x1, y1), Point(x2, y2))
        case "open_app", [str(app)]:
            return OpenApp(app)
        case "press_home", []:
            return PressHome()
        case "press_back", []:
            return PressBack()
        case "finished", []:
            return Finished()
        case "finished", [str(answer)]:
            return Finished(answer)
    if name not in FORMS:
        raise ReplyFormatError(f"unknown action {name[:40]!r}; known: {', '.join(FORMS)}")
    raise ReplyFormatError(f"{name} has other arguments: write {FORMS[name]}")


def write(action: GuiAction) -> str:
    """Write an action in its canonical form."""
    match action:
        case Click(point) | LongPress(point):
            arguments: list[int | str] = [*point]
        case Type(text):
            arguments = [text]
        case Scroll(point, direction):
            arguments = [*point, direction]
        case Drag(start, end):
            arguments = [*start, *end]
        case OpenApp(name):
            arguments = [name]
        case Finished(answer):
            arguments = [answer] if answer else []
        case _:
            arguments = []
    return f"{action_type(action)}({', '.join(json.dumps(argument, ensure_ascii=False) for argument in arguments)})"


def _arguments(text: str) -> list[int | str]:
    try:
        values = json.loads(f"[{text}]")
    except (ValueError, RecursionError):
        values = [None]
    if any(type(match) not in (int, str) for match in values):
        raise ReplyFormatError(f"arguments are whole numbers and double-quoted strings, not {text.strip()[:80]!r}")
    if any(isinstance(match, str) and _SURROGATE.search(match) for match in values):
        raise ReplyFormatError(f"half a character is no text: {text.strip()[:80]!r}")
    return cast("list[int | str]", values)


_NAMES: dict[type[GuiAction], str] = {
    Click: "click",
    LongPress: "long_press",
    Type: "type",
    Scroll: "scroll",
    Drag: "drag",
    OpenApp: "open_app",
    PressHome: "press_home",
    PressBack: "press_back",
    Finished: "finished",
}

FORMS = {line.split("(")[0]: line.split(": ")[0] for line in ACTION_FORMAT.splitlines()}
"""Text form of each action, by name."""
