"""Test if a predicted action on a screen is right: Type, grounding and step success of GAIA and OS-Atlas.

    type       the actions are of the same type
    grounding  the point of a click or long press hits: it lies in the target's box or, if the box is unknown, within
               14% of the screen of the right point
    success    the type is right and so are the arguments: the point hits, a scroll goes the same way, both ends of a
               drag are near, texts are alike. Going home or back and the end of a task have no arguments

GAIA (paper 3, section 4.1) measures as OS-Atlas (Wu et al., ICLR 2025) does; the details are from OS-Atlas's scripts:
the distance is Euclidean, x and y each as a share of the screen; texts are alike by the F1 of their sets of words. The
scripts know no boxes, and on AndroidControl they compare only the first word of a text; here it is the full text.
Figures over steps are in `align_echo.gui.screens`.
"""

from __future__ import annotations

from align_echo.wrappers.gui.actions import (
    DragAction,
    FinishAction,
    GuiAction,
    OpenAppAction,
    Point,
    ScrollAction,
    TypeAction,
    action_type,
    target_point,
)
from align_echo.wrappers.gui.steps import GuiStep, lies_in

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
