"""MiniWoB as a `TextEnv`: a page as text and as a picture, actions on a screen, the page's own reward, an oracle.

The score is the page's raw reward if that is above 0; `raw_score` keeps the raw value (-1 to 1). A page cannot be
copied, so `restore` reopens it and repeats the actions.
"""

from __future__ import annotations

import dataclasses
import functools
import io
from typing import TYPE_CHECKING, Any

from align_echo.errors import EngineError, MissingExtraError, ReplyFormatError, UsageError
from align_echo.wrappers.gui.actions import (
    ClickAction,
    DragAction,
    FinishAction,
    GuiAction,
    LongPressAction,
    OpenAppAction,
    Point,
    PressBackAction,
    PressHomeAction,
    ScrollAction,
    TypeAction,
    action_type,
    parse,
    target_point,
    write,
)
from align_echo.wrappers.miniwob.chromium import BrowserProcess
from align_echo.wrappers.miniwob.page import CONTROL, ENDED, SIZE, BrowserPage, listing, plain, start_browser
from align_echo.wrappers.miniwob.spec import CONTRACT, REFUSAL, STEP_LIMIT, PageTask, read_task, task_ids
from align_echo.wrappers.pool import EnginePool, make_process_pool
from align_echo.wrappers.text_env import EngineState, TextEnv

if TYPE_CHECKING:
    from PIL.Image import Image

# ---------------------------------------------------------------- browsers of this process


@functools.cache
def pool() -> EnginePool[BrowserProcess]:
    """Return this process's pool."""
    return make_process_pool(start_browser, pool.cache_clear)


# ---------------------------------------------------------------- ground truth about a page


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


# ---------------------------------------------------------------- MiniWoB as a `TextEnv`

LONGEST_TYPED = 200
"""Longest text of one `type` action, in characters."""


class MiniWoBEnv(TextEnv):
    """Environment over one split of MiniWoB. Holds a browser from the first reset until `close`. Not shared between
    threads."""

    def __init__(self, split: str, step_limit: int | None = None) -> None:
        """Open a split. Raises `UsageError` for a step limit below 1."""
        super().__init__(task_ids(split), CONTRACT, STEP_LIMIT if step_limit is None else step_limit)
        self._split = split
        self._known = frozenset(self.task_ids)
        self._leased: BrowserProcess | None = None
        self._opened: BrowserPage | None = None
        self._task: PageTask | None = None
        self._history: list[GuiAction] = []

    @property
    def goal(self) -> str:
        return plain(self._opened.goal) if self._opened else ""

    @property
    def task_type(self) -> str:
        return self._task.subdomain if self._task else ""

    def oracle(self) -> ScreenOracle:
        """Return the oracle of this episode. Raises `UsageError` before a reset."""
        if self._task is None:
            raise UsageError("call reset() before oracle()")
        return ScreenOracle(self._page, self._task, done=self.state.done, won=self.state.won)

    def screenshot(self) -> Image:
        """Return the page as an RGB picture of 160 by 210 pixels.

        Raises `EngineError`; `UsageError` before a reset and after the end, when the page shows its cover again;
        `MissingExtraError` without Pillow.
        """
        try:
            from PIL import Image
        except ImportError as error:
            raise MissingExtraError("screenshots", "gui") from error
        self._check_started()
        page = self._page
        if self.over:
            raise UsageError("the episode is over and its page is gone: take the screenshot before the last action")
        return Image.open(io.BytesIO(page.screenshot())).convert("RGB")

    def as_read(self, action: str) -> str:
        """Return the action as written; a click by the element it hits in the present page, unless the exact point
        counts.

        Raises `EngineError`.
        """
        try:
            read = parse(action)
        except ReplyFormatError:
            return action.strip()
        point = target_point(read)
        target = None if point is None or not _on_screen(point) or self.over else self._page.target(point)
        return write(read) if target is None else f"{action_type(read)} {target}"

    def close(self) -> None:
        """Give the browser back. Only `reset` starts the environment again."""
        self._over = True
        self._opened = None
        if self._leased is not None:
            pool().give_back(self._leased)
            self._leased = None

    # ------------------------------------------------------------ the engine

    def _load(self, task_id: str) -> EngineState:
        self._open(self._read(task_id))
        return self._answer()

    def _act(self, action: str) -> EngineState:
        try:
            read = parse(action)
        except ReplyFormatError as error:
            return self._refused(str(error))
        problem = find_problem(read)
        if problem:
            return self._refused(problem)
        if isinstance(read, FinishAction):
            return EngineState(ENDED, done=True, admissible_actions=(), raw_score=0.0)
        self._page.act(read)
        self._history.append(read)
        return self._answer()

    def _probe(self, action: str) -> str:
        raise UsageError("MiniWoB has no action that only looks")

    def _answer(self) -> EngineState:
        look = self._page.look
        clicks = dict.fromkeys(write(ClickAction(element.center)) for element in look.elements)
        score = max(look.reward, 0.0)
        return EngineState(listing(look), score, look.reward == 1.0, look.done, tuple(clicks), look.reward)

    def _refused(self, why: str) -> EngineState:
        """Return the same page, after a line with the reason of the refusal."""
        return dataclasses.replace(self.state, observation=f"{REFUSAL}{plain(why)}.\n{listing(self._page.look)}")

    @property
    def _page(self) -> BrowserPage:
        if self._opened is None:
            raise EngineError("the environment was closed, or its browser failed: call reset()")
        return self._opened

    def _read(self, task_id: str) -> PageTask:
        task = read_task(task_id)
        if task_id not in self._known:
            raise UsageError(f"there is no task {task_id!r} in split {self._split}; see tasks() for the ids")
        return task

    def _open(self, task: PageTask) -> None:
        self._opened = None
        if self._leased is None or not self._leased.alive:
            self.close()
            self._leased = pool().lease(self)
        self._opened, self._task, self._history = BrowserPage(self._leased, task), task, []

    def _save(self) -> tuple[GuiAction, ...]:
        return tuple(self._history)

    def _restore(self, task_id: str, saved: tuple[GuiAction, ...]) -> None:
        task, played = self._read(task_id), tuple(self._history)
        lost = self._opened is None or self._leased is None or not self._leased.alive
        if lost or task != self._task or saved[: len(played)] != played:
            self._open(task)
        for action in saved[len(self._history) :]:
            self._page.act(action)
            self._history.append(action)


def find_problem(action: GuiAction) -> str:
    """Explain why an action cannot be carried out on a page; "" if it can."""
    match action:
        case OpenAppAction():
            return "there are no apps here"
        case PressHomeAction():
            return "there is no home screen here"
        case PressBackAction():
            return "there is nothing to go back to here"
        case TypeAction(text) if len(text) > LONGEST_TYPED:
            return f"type takes at most {LONGEST_TYPED} characters at once"
        case TypeAction(text) if not all(line.isprintable() or line in CONTROL for line in text):
            return "type takes printable characters, \\n, \\t and \\b"
        case ClickAction(point) | LongPressAction(point) | ScrollAction(point):
            points = [point]
        case DragAction(start, end):
            points = [start, end]
        case _:
            points = []
    off = [point for point in points if not _on_screen(point)]
    if not off:
        return ""
    named = f"({off[0].x}, {off[0].y})"[:80]
    return f"{named} is not on the screen, which is {SIZE[0]} wide and {SIZE[1]} high"


def _on_screen(point: Point) -> bool:
    return 0 <= point.x < SIZE[0] and 0 <= point.y < SIZE[1]
