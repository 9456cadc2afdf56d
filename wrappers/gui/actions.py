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
class ClickAction:
    """Tap, or single press of the left button."""

    point: Point


@dataclass(frozen=True)
class LongPressAction:
    """Press and hold."""

    point: Point


@dataclass(frozen=True)
class TypeAction:
    """Text entry at the focus."""

    text: str


@dataclass(frozen=True)
class ScrollAction:
    """Scroll at a point, to bring into view the content in this direction."""

    point: Point
    direction: Direction


@dataclass(frozen=True)
class DragAction:
    """Press at the start, move, release at the end."""

    start: Point
    end: Point


@dataclass(frozen=True)
class OpenAppAction:
    """Start of an application by name."""

    name: str


@dataclass(frozen=True)
class PressHomeAction:
    """Return to the home screen."""


@dataclass(frozen=True)
class PressBackAction:
    """Return to the previous screen."""


@dataclass(frozen=True)
class FinishAction:
    """End of the task; `answer` is the user's requested answer, empty otherwise."""

    answer: str = ""


GuiAction = (
    ClickAction
    | LongPressAction
    | TypeAction
    | ScrollAction
    | DragAction
    | OpenAppAction
    | PressHomeAction
    | PressBackAction
    | FinishAction
)

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


def target_point(action: GuiAction) -> Point | None:
    """Return the point of a click or a long press, used to measure grounding; None for other actions."""
    return action.point if isinstance(action, ClickAction | LongPressAction) else None


def parse(text: str) -> GuiAction:
    """Parse an action. Raises `ReplyFormatError` with a one-line reason; nothing is guessed."""
    call = _CALL.fullmatch(text)
    if not call:
        raise ReplyFormatError(f"not an action: {text.strip()[:80]!r}; an action looks like click(12, 34)")
    name, arguments = call[1], _arguments(call[2])
    match name, arguments:
        case "click", [int(x), int(y)]:
            return ClickAction(Point(x, y))
        case "long_press", [int(x), int(y)]:
            return LongPressAction(Point(x, y))
        case "type", [str(text_typed)]:
            return TypeAction(text_typed)
        case "scroll", [int(x), int(y), str(direction)] if direction in get_args(Direction):
            return ScrollAction(Point(x, y), cast(Direction, direction))
        case "drag", [int(x1), int(y1), int(x2), int(y2)]:
            return DragAction(Point(x1, y1), Point(x2, y2))
        case "open_app", [str(app)]:
            return OpenAppAction(app)
        case "press_home", []:
            return PressHomeAction()
        case "press_back", []:
            return PressBackAction()
        case "finished", []:
            return FinishAction()
        case "finished", [str(answer)]:
            return FinishAction(answer)
    if name not in FORMS:
        raise ReplyFormatError(f"unknown action {name[:40]!r}; known: {', '.join(FORMS)}")
    raise ReplyFormatError(f"{name} has other arguments: write {FORMS[name]}")


def write(action: GuiAction) -> str:
    """Write an action in its canonical form."""
    match action:
        case ClickAction(point) | LongPressAction(point):
            arguments: list[int | str] = [*point]
        case TypeAction(text):
            arguments = [text]
        case ScrollAction(point, direction):
            arguments = [*point, direction]
        case DragAction(start, end):
            arguments = [*start, *end]
        case OpenAppAction(name):
            arguments = [name]
        case FinishAction(answer):
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
    ClickAction: "click",
    LongPressAction: "long_press",
    TypeAction: "type",
    ScrollAction: "scroll",
    DragAction: "drag",
    OpenAppAction: "open_app",
    PressHomeAction: "press_home",
    PressBackAction: "press_back",
    FinishAction: "finished",
}

FORMS = {line.split("(")[0]: line.split(": ")[0] for line in ACTION_FORMAT.splitlines()}
"""Text form of each action, by name."""
