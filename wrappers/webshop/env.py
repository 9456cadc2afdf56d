"""WebShop as a `TextEnv`: pages as text, turns and step limit, an oracle, and free snapshots."""

from __future__ import annotations

from align_echo.errors import UsageError
from align_echo.wrappers.text_env import ActionOptions, EngineState, TextEnv
from align_echo.wrappers.webshop.catalogue import ProductCatalogue
from align_echo.wrappers.webshop.oracle import ShopOracle
from align_echo.wrappers.webshop.pages import SEPARATOR, Shop, ShopPage, clickables, parse_action, plain_text, rich_text
from align_echo.wrappers.webshop.spec import CONTRACT, MODES, STEP_LIMIT, task_type

TEMPLATES = ("search[{0}]", "click[{0}]")


History = tuple[tuple[str, str], ...]
"""Pairs of (observation, action) that later observations may repeat, the latest last."""


class WebShopEnv(TextEnv):
    """Environment over one split of a catalogue. A catalogue may be shared; each environment is for one thread at a
    time."""

    def __init__(
        self,
        catalogue: ProductCatalogue,
        split: str,
        step_limit: int | None = None,
        mode: str = MODES[0],
        *,
        num_prev_obs: int = 0,
        num_prev_actions: int = 0,
        show_attrs: bool = False,
    ) -> None:
        """Open a split. `mode` is "text" or "text_rich"; the numbers are how many earlier observations and actions are
        repeated.

        Raises `UsageError` for another mode, a negative number or a step limit below 1.
        """
        if mode not in MODES:
            raise UsageError(f"WebShop shows pages as {' or '.join(MODES)}, not {mode!r}")
        if min(num_prev_obs, num_prev_actions) < 0:
            raise UsageError("num_prev_obs and num_prev_actions must not be negative")
        super().__init__(catalogue.ids(split), CONTRACT, STEP_LIMIT if step_limit is None else step_limit)
        self._catalogue = catalogue
        self._split = frozenset(self.task_ids)
        self._mode = mode
        self._num_prev_obs, self._num_prev_actions = num_prev_obs, num_prev_actions
        self._show_attrs = show_attrs
        self._shop: Shop | None = None
        self._page = ShopPage()
        self._history: History = ()

    @property
    def shop(self) -> Shop:
        """Pages of the present task. Raises `UsageError` before a reset."""
        if self._shop is None:
            raise UsageError("call reset() first")
        return self._shop

    @property
    def goal(self) -> str:
        return self.shop.goal.instruction

    @property
    def task_type(self) -> str:
        return task_type(self._task_id)

    def oracle(self) -> ShopOracle:
        """Return the oracle of this episode. Raises `UsageError` before a reset."""
        return ShopOracle(self.shop, self._page)

    def offered(self) -> ActionOptions:
        """Return the two forms of an action, and the clickable names of the page."""
        return ActionOptions(TEMPLATES, self._names())

    def as_read(self, action: str) -> str:
        """Normalise the case of arguments and the spaces in a search; "" if this is no action."""
        name, argument = parse_action(action)
        return f"{name}[{' '.join(argument.split()) if name == 'search' else argument}]" if name else ""

    # ------------------------------------------------------------ the engine

    def _load(self, task_id: str) -> EngineState:
        self._open(task_id)
        self._page, self._history = ShopPage(), ()
        return self._answer(self._look())

    def _open(self, task_id: str) -> None:
        if task_id not in self._split:
            raise UsageError(f"there is no task {task_id!r} in this split; see tasks() for the ids")
        self._shop = Shop(self._catalogue, self._catalogue.goal(task_id), show_attrs=self._show_attrs)

    def _act(self, action: str) -> EngineState:
        length = max(self._num_prev_obs, self._num_prev_actions)
        if length:
            self._history = (*self._history, (self._look(), action))[-length:]
        self._page = self.shop.follow(self._page, action)
        return self._answer(self._with_history(self._look()))

    def _look(self) -> str:
        """Render the page as text."""
        nodes = self.shop.nodes(self._page)
        return plain_text(nodes) if self._mode == "text" else rich_text(nodes, self._page)

    def _names(self) -> tuple[str, ...]:
        return clickables(self.shop.nodes(self._page))

    def _with_history(self, observation: str) -> str:
        """Put the earlier observations and their actions before the observation, oldest first."""
        parts = []
        for age, (seen, action) in zip(range(len(self._history), 0, -1), self._history, strict=True):
            parts += [seen] if age <= self._num_prev_obs else []
            parts += [action] if age <= self._num_prev_actions else []
        return SEPARATOR.join((*parts, observation))

    def _answer(self, observation: str) -> EngineState:
        page = self._page
        done = page.kind == "done"
        return EngineState(observation, page.score, done and page.score == 1.0, done, self._admissible())

    def _admissible(self) -> tuple[str, ...]:
        """Return every click; on the first page, without useful clicks, a search for the instruction."""
        if self._page.kind == "search":
            return (f"search[{self.goal}]",)
        return tuple([f"click[{name}]" for name in self._names()])

    def _probe(self, action: str) -> str:
        raise UsageError("WebShop has no action that only looks")

    def _save(self) -> tuple[ShopPage, History]:
        return self._page, self._history

    def _restore(self, task_id: str, saved: tuple[ShopPage, History]) -> None:
        if task_id != self._task_id:
            self._open(task_id)
        self._page, self._history = saved
