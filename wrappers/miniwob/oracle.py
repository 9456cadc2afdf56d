"""Ground truth about a page: an expert's actions from this state, by the page's own state. For labels and tests.

The plan is made from scratch in every state, so it corrects a slip wherever the page allows it. Pages without an expert
(`tasks.OTHERS`) have no expert action and no distance.
"""

from __future__ import annotations

import functools
from typing import Any

from align_echo.errors import EngineError
from align_echo.wrappers.gui.actions import ClickAction, GuiAction, Point, ScrollAction, TypeAction, write
from align_echo.wrappers.miniwob.page import BrowserPage
from align_echo.wrappers.miniwob.tasks import PageTask


class ScreenOracle:
    """Oracle for one moment of an episode, valid while the page stays the same."""

    def __init__(self, page: BrowserPage, task: PageTask, *, done: bool, won: bool) -> None:
        self._page = page
        self._task = task
        self._done = done
        self._won = won

    def expert_action(self) -> str | None:
        """Return the expert's next action; None after the end, if the task is lost, or without an expert.

        Raises `EngineError`.
        """
        return write(_action(self._plan[0])) if self._plan else None

    def distance(self) -> int | None:
        """Return the expert's number of remaining actions; 0 once won, None without a solution or an expert.

        Raises `EngineError`.
        """
        if self._won:
            return 0
        return len(self._plan) if self._plan else None

    @functools.cached_property
    def _plan(self) -> list[dict[str, Any]] | None:
        if self._done or not self._task.has_expert:
            return None
        return self._page.plan(self._task.subdomain)


def _action(step: dict[str, Any]) -> GuiAction:
    match step:
        case {"act": "click", "at": [int(x), int(y)]}:
            return ClickAction(Point(x, y))
        case {"act": "type", "text": str(text)}:
            return TypeAction(text)
        case {"act": "scroll", "at": [int(x), int(y)], "way": "up" | "down" as way}:
            return ScrollAction(Point(x, y), way)
    raise EngineError(f"the expert's step is not an action: {step}")
