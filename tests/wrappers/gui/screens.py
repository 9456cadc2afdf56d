"""Small synthetic screens and steps, drawn with Pillow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from align_echo.wrappers.gui.actions import ClickAction, GuiAction, Point
from align_echo.wrappers.gui.steps import UnsavedStep

if TYPE_CHECKING:
    from PIL.Image import Image

SIZE = (160, 210)


def screen(colour: str = "white", box: tuple[int, int, int, int] | None = None) -> Image:
    """A white screen with one coloured box."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", SIZE, "white")
    if box:
        ImageDraw.Draw(image).rectangle(box, fill=colour)
    return image


def recorded(
    number: int = 0,
    action: GuiAction | None = None,
    *,
    episode: str = "e",
    box: tuple[int, int, int, int] | None = (20, 30, 60, 70),
    colour: str = "blue",
) -> UnsavedStep:
    """A step in which the box is to be clicked, unless another action is given."""
    return UnsavedStep(
        id=f"{episode}-{number}",
        episode=episode,
        number=number,
        instruction=f"Click the {colour} box.",
        screenshot=screen(colour, box),
        action=action or ClickAction(Point(40, 50)),
        box=box,
    )
