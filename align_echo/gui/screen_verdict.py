"""Input of an intuitive critic on screens (GAIA, appendix B.3): a screenshot, and one question in text.

If the proposed action is a click or a long press on the screen, a red circle is drawn around its point; otherwise the
screenshot is unchanged. The critic sees the whole task and the earlier actions, not the instruction for the single
step. Not here: models (`vision.py`), and other marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from align_echo.critic.transcript import clipped, one_line
from align_echo.prompts import render
from align_echo.types import Message
from align_echo.wrappers.gui.actions import GuiAction, Point, target_point, write

if TYPE_CHECKING:
    from PIL.Image import Image

RED = (255, 0, 0)
SIDES_PER_RADIUS = 40
LEAST_RADIUS = 9
"""Minimum radius of the circle in pixels; otherwise a fortieth of the screen's longer side."""

LONGEST_LINE = 400
"""Maximum characters of each earlier action and of the proposed one."""

LONGEST_TASK = 4000

MOST_EARLIER = 30
"""Maximum number of earlier actions, the last ones; of those before, only the count is given."""


@dataclass(frozen=True)
class ScreenState:
    """A moment of an episode: the screenshot, the instruction, and the earlier actions, one line each."""

    screenshot: Image
    instruction: str
    history: Sequence[str] = ()


def marked(screenshot: Image, action: GuiAction) -> Image:
    """Copy the screenshot in RGB, with the circle if the action has a grounding point on the screen."""
    from PIL import ImageDraw

    image = screenshot.convert("RGB")
    point = _circled(screenshot, action)
    if point is not None:
        radius = max(LEAST_RADIUS, round(max(image.size) / SIDES_PER_RADIUS))
        corners = (point.x - radius, point.y - radius, point.x + radius, point.y + radius)
        image = image.copy()
        ImageDraw.Draw(image).ellipse(corners, outline=RED, width=max(2, radius // 4 + 1))
    return image


def question(screen: ScreenState, action: GuiAction) -> Message:
    """Write the question about the action, to go with the picture: at most about 18,000 characters."""
    values = {
        "instruction": clipped(one_line(screen.instruction), LONGEST_TASK),
        "history": [clipped(one_line(earlier), LONGEST_LINE) for earlier in screen.history[-MOST_EARLIER:]],
        "before": max(len(screen.history) - MOST_EARLIER, 0),
        "action": clipped(one_line(write(action)), LONGEST_LINE),
        "marked": _circled(screen.screenshot, action) is not None,
    }
    return Message(role="user", content=render("critic/screen_verdict", values))


def _circled(screenshot: Image, action: GuiAction) -> Point | None:
    point = target_point(action)
    width, height = screenshot.size
    return point if point and 0 <= point.x < width and 0 <= point.y < height else None
