"""Single steps on screens in one format for all datasets: a folder of `steps.jsonl` and `screens/*.png`.

A step holds the agent's input and the right output. Steps of AndroidControl and GUI-Odyssey have an action, those of
ScreenSpot only the box to click (`docs/gui.md` maps their fields). Reading is strict: an invalid record, picture or
path is refused by file and line. Downloads and the datasets' own formats are not handled here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from align_echo.base.files import open_file
from align_echo.base.plain_yaml import first_wrong
from align_echo.errors import MissingDataError, MissingExtraError, ReplyFormatError, UsageError, first_line
from align_echo.types import Frozen
from align_echo.wrappers.gui.actions import (
    ClickAction,
    DragAction,
    FinishAction,
    GuiAction,
    LongPressAction,
    OpenAppAction,
    Point,
    ScrollAction,
    TypeAction,
    action_type,
    parse,
    target_point,
    write,
)

if TYPE_CHECKING:
    from PIL.Image import Image

STEPS = "steps.jsonl"
SCREENS = "screens"
MOST_PIXELS = 50_000_000
"""Largest number of pixels of a screenshot: an 8K screen has 33 million."""
LONGEST_SIDE = 16384
"""Longest side in pixels; a larger picture is no screenshot."""

Record = TypeVar("Record", bound=BaseModel)


def _file_name(name: str) -> str:
    if name in (".", "..") or any(character in name for character in "/\\\0") or not name.endswith(".png"):
        raise ValueError(f"{name[:60]!r} is not the name of a .png file in {SCREENS}/")
    return name


class GuiStep(Frozen):
    """Step on a screen: the agent's input, and the right output.

    `instruction` is the full task, `step_instruction` the present step (empty if a dataset has none), `history` the
    earlier actions, in words of any form. `screenshot` is a file in `screens/` of `width` x `height` pixels. `action`
    is the right action in the form of `actions.write`, None if any click into `box` is right. `box` is [x1, y1, x2, y2]
    of the target element, None if unknown; a right click or long press lies in it. `number` counts from 0 within the
    episode.
    """

    id: str = Field(min_length=1)
    episode: str = Field(min_length=1)
    number: int = Field(ge=0)
    instruction: str = Field(min_length=1)
    step_instruction: str = ""
    history: tuple[str, ...] = ()
    screenshot: Annotated[str, AfterValidator(_file_name)]
    width: int = Field(ge=1, le=LONGEST_SIDE)
    height: int = Field(ge=1, le=LONGEST_SIDE)
    action: str | None = None
    box: tuple[int, int, int, int] | None = None

    @property
    def truth(self) -> GuiAction | None:
        """Right action, None if any click into the box is right."""
        return None if self.action is None else parse(self.action)

    @model_validator(mode="after")
    def _consistent(self) -> GuiStep:
        if self.action is None and self.box is None:
            raise ValueError("give the right action, the box to click, or both")
        if self.box is not None:
            x1, y1, x2, y2 = self.box
            if not (0 <= x1 <= x2 <= self.width and 0 <= y1 <= y2 <= self.height):
                raise ValueError(f"the box {list(self.box)} is not [x1, y1, x2, y2] within {self.width}x{self.height}")
        try:
            truth = self.truth
        except ReplyFormatError as error:
            raise ValueError(f"action: {error}") from None
        named = f"the action {self.action}"[:80]
        for point in _points(truth):
            if not (0 <= point.x < self.width and 0 <= point.y < self.height):
                raise ValueError(f"{named} lies outside the screen of {self.width}x{self.height}")
        pressed = None if truth is None else target_point(truth)
        if pressed is not None and self.box is not None and not lies_in(pressed, self.box):
            raise ValueError(f"{named} lies outside the box {list(self.box)}: write [x1, y1, x2, y2]")
        return self


@dataclass(frozen=True)
class UnsavedStep:
    """Step with its screenshot in memory, for `write_steps`; `box` is [x1, y1, x2, y2] in pixels."""

    id: str
    episode: str
    number: int
    instruction: str
    screenshot: Image
    action: GuiAction | None
    history: tuple[str, ...] = ()
    box: tuple[int, int, int, int] | None = None
    step_instruction: str = ""


def read_steps(folder: Path) -> list[GuiStep]:
    """Read the steps of a folder, in the order of its file, and check every screenshot.

    Raises `MissingDataError` for a missing file and `UsageError` for an invalid one, both with file and line;
    `MissingExtraError` without Pillow.
    """
    file = folder / STEPS
    steps: dict[str, GuiStep] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for number, step in records(file, GuiStep):
        where = f"{file} line {number}"
        if step.id in steps:
            raise UsageError(f"{where}: the step {step.id!r} came before: every step has an id of its own")
        if step.screenshot not in sizes:
            sizes[step.screenshot] = _read_size(folder, step.screenshot, where)
        size = sizes[step.screenshot]
        if size != (step.width, step.height):
            actual = f"{size[0]}x{size[1]} pixels, not {step.width}x{step.height}"
            raise UsageError(f"{where}: {step.screenshot} has {actual}")
        steps[step.id] = step
    if not steps:
        raise UsageError(f"{file} holds no step")
    return list(steps.values())


def hash_content(folder: Path, steps: Iterable[GuiStep]) -> dict[str, str]:
    """Identify a folder by its content: the SHA-256 of its file of steps, and one over all screenshots."""
    names = dict.fromkeys(step.screenshot for step in steps)
    pictures = "".join(_digest(folder / SCREENS / name) for name in names)
    return {"steps": _digest(folder / STEPS), "screens": hashlib.sha256(pictures.encode()).hexdigest()}


def load_screenshot(folder: Path, step: GuiStep) -> Image:
    """Load the picture of a step, in RGB. Raises `UsageError` if it cannot be read."""
    from PIL import Image

    try:
        with Image.open(_inside(folder, step.screenshot), formats=["PNG"]) as image:
            return image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UsageError(f"{folder / SCREENS / step.screenshot} cannot be read: {first_line(error)}") from error


def write_steps(steps: Iterable[UnsavedStep], folder: Path) -> list[GuiStep]:
    """Write steps to a new folder, atomically, in the format of `read_steps`.

    Equal pictures are stored once. Raises `UsageError` if the folder exists already, or for an invalid step.
    """
    if folder.exists():
        raise UsageError(f"{folder} is there already: name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / SCREENS).mkdir(parents=True)
    try:
        written = list(_save_steps(steps, partial / SCREENS))
        lines = "".join(record.model_dump_json() + "\n" for record in written)
        (partial / STEPS).write_text(lines, encoding="utf-8")
        read_steps(partial)
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return written


def records(file: Path, kind: type[Record]) -> Iterator[tuple[int, Record]]:
    """Read (line number from 1, record) of a JSONL file. Raises `MissingDataError`, or `UsageError` with file and line.
    """
    if not file.is_file():
        raise MissingDataError(f"there is no {file}")
    with open_file(file) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield number, kind.model_validate_json(line, strict=True)
            except ValidationError as error:
                raise UsageError(f"{file} line {number}: {first_wrong(error)}") from error


def _save_steps(steps: Iterable[UnsavedStep], screens: Path) -> Iterator[GuiStep]:
    names: dict[str, str] = {}
    for step in steps:
        image = step.screenshot.convert("RGB")
        content = hashlib.sha256(f"{image.size} ".encode() + image.tobytes()).hexdigest()
        name = names.setdefault(content, f"{len(names):06d}.png")
        if not (screens / name).exists():
            image.save(screens / name)
        try:
            yield GuiStep(
                id=step.id,
                episode=step.episode,
                number=step.number,
                instruction=step.instruction,
                step_instruction=step.step_instruction,
                history=step.history,
                screenshot=name,
                width=image.width,
                height=image.height,
                action=None if step.action is None else write(step.action),
                box=step.box,
            )
        except ValidationError as error:
            raise UsageError(f"the step {step.id!r} cannot be written: {first_wrong(error)}") from error


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _read_size(folder: Path, name: str, where: str) -> tuple[int, int]:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("screenshots", "gui") from error
    file = _inside(folder, name)
    if not file.is_file():
        raise MissingDataError(f"{where}: there is no {folder / SCREENS / name}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # refused below
            with Image.open(file, formats=["PNG"]) as image:
                size = image.size
                image.verify()
    except Image.DecompressionBombError:
        size = (MOST_PIXELS, MOST_PIXELS)
    except (OSError, ValueError, SyntaxError) as error:
        raise UsageError(f"{where}: {folder / SCREENS / name} is no PNG picture: {first_line(error)}") from error
    if size[0] * size[1] > MOST_PIXELS:
        raise UsageError(f"{where}: {folder / SCREENS / name} has more than {MOST_PIXELS:,} pixels: no screen has")
    return size


def _inside(folder: Path, name: str) -> Path:
    """Return the file of a screenshot. Raises `UsageError` for a link out of the folder."""
    try:
        file, root = (folder / SCREENS / name).resolve(), folder.resolve()
    except (OSError, RuntimeError) as error:
        where = folder / SCREENS / name
        raise UsageError(f"{where} is a link that leads nowhere: put the picture itself there") from error
    if not file.is_relative_to(root):
        raise UsageError(f"{folder / SCREENS / name} leads out of the folder: put the picture itself there")
    return file


def lies_in(point: Point, box: tuple[int, int, int, int]) -> bool:
    """Check if a point lies in a box [x1, y1, x2, y2], edges included."""
    x1, y1, x2, y2 = box
    return x1 <= point.x <= x2 and y1 <= point.y <= y2


def _points(action: GuiAction | None) -> list[Point]:
    match action:
        case ClickAction(point) | LongPressAction(point) | ScrollAction(point, _):
            return [point]
        case DragAction(start, end):
            return [start, end]
    return []


# ---------------------------------------------------------------- test if a predicted action on a screen is right

NEAR = 14
"""Percent of the screen: largest distance of a point from the right one if the target's box is unknown."""

ABOVE_F1 = 0.5
"""Texts are alike if they are equal, or if the F1 of their words is above this."""

CLICK = "click"


def right_type(step: GuiStep) -> str:
    """Return the type of the step's right action."""
    return CLICK if step.truth is None else action_type(step.truth)


def is_grounded(step: GuiStep) -> bool:
    """Check if grounding is measured on the step: its right action is a click or a long press."""
    return step.truth is None or target_point(step.truth) is not None


def type_matches(action: GuiAction, step: GuiStep) -> bool:
    """Check if the action is of the right type."""
    return action_type(action) == right_type(step)


def hits(action: GuiAction, step: GuiStep) -> bool:
    """Check if a click or long press hits the step's target; False if either action is of another type."""
    point = target_point(action)
    if point is None or not is_grounded(step):
        return False
    if step.box is not None:
        return lies_in(point, step.box)
    right = None if step.truth is None else target_point(step.truth)
    return right is not None and near(point, right, (step.width, step.height))


def succeeds(action: GuiAction, step: GuiStep) -> bool:
    """Check if the action is right in type and arguments."""
    if not type_matches(action, step):
        return False
    match step.truth, action:
        case ScrollAction(_, right), ScrollAction(_, direction):
            return direction == right
        case (TypeAction(right), TypeAction(text)) | (OpenAppAction(right), OpenAppAction(text)):
            return alike(text, right)
        case FinishAction(right), FinishAction(text):
            return not right or alike(text, right)
        case DragAction(start, end), DragAction(first, last):
            size = (step.width, step.height)
            return near(first, start, size) and near(last, end, size)
    return not is_grounded(step) or hits(action, step)


def near(point: Point, right: Point, size: tuple[int, int]) -> bool:
    """Check if two points are within `NEAR` of a screen of `size` (width, height) in pixels. Exact for any integers."""
    width, height = size
    across, down = (point.x - right.x) * height, (point.y - right.y) * width
    return (100 * across) ** 2 + (100 * down) ** 2 <= (NEAR * width * height) ** 2


def alike(text: str, right: str) -> bool:
    """Check if two texts are equal but for case and white space, or share enough words (`ABOVE_F1`)."""
    words, wanted = text.lower().split(), right.lower().split()
    return words == wanted or f1(set(words), set(wanted)) > ABOVE_F1


def f1(words: set[str], wanted: set[str]) -> float:
    """Compute the F1 of two sets of words, in [0, 1]; 0 if either set is empty."""
    common = len(words & wanted)
    return 2 * common / (len(words) + len(wanted)) if common else 0.0
