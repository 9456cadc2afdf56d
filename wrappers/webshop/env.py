"""WebShop as a `TextEnv`: pages as text, turns and step limit, an oracle, and free snapshots."""

from __future__ import annotations

import re

from thefuzz import fuzz

from align_echo.errors import UsageError
from align_echo.wrappers.text_env import ActionOptions, EngineState, TextEnv
from align_echo.wrappers.webshop.catalogue import ProductCatalogue
from align_echo.wrappers.webshop.pages import (
    PER_PAGE,
    SEPARATOR,
    Shop,
    ShopPage,
    clickables,
    parse_action,
    plain_text,
    rich_text,
)
from align_echo.wrappers.webshop.reward import option_hits, score
from align_echo.wrappers.webshop.spec import CONTRACT, MODES, STEP_LIMIT, task_type

# ---------------------------------------------------------------- ground truth about a shopper's page


class ShopOracle:
    """Expert on one page."""

    def __init__(self, shop: Shop, page: ShopPage) -> None:
        self._shop = shop
        self._page = page
        self._wanted = shop.catalogue.product(shop.goal.row)

    def expert_action(self) -> str | None:
        """Return the expert's next action; None after a purchase, or if no search lists the product."""
        route = self.route()
        return route[0] if route else None

    def distance(self) -> int | None:
        """Return the expert's least number of actions to a score of 1; 0 once reached, None if out of reach."""
        if self._page.kind == "done":
            return 0 if self._page.score == 1.0 else None
        route = self.route()
        return len(route) if route and self.best_score() == 1.0 else None

    def best_score(self) -> float:
        """Compute the score of buying the goal's product with the best options."""
        return score(self._wanted, tuple(self.choice().values()), self._shop.goal, self._wanted)

    def choice(self) -> dict[str, str]:
        """Choose a value for each option group: each meets the best matching requested option still open."""
        open_ = list(self._shop.goal.options)
        chosen: dict[str, str] = {}
        for name, values in self._wanted.options:
            pairs = [
                (value == option, fuzz.ratio(value, option), value, option)
                for value in values
                for option in open_
                if self._wanted.option_groups[value] == name and option_hits((value,), (option,))
            ]
            if pairs:
                *_, value, option = max(pairs)
                chosen[name] = value
                open_.remove(option)
        return chosen

    def route(self) -> list[str] | None:
        """Return the expert's remaining actions; [] after a purchase, None if no search lists the product."""
        if self._page.kind == "done":
            return []
        candidates = (self._from_here(), self._from_results(), self._from_search())
        routes = [route for route in candidates if route is not None]
        return min(routes, key=len) if routes else None

    def _from_here(self) -> list[str] | None:
        """Plan from a page of the product itself."""
        if self._page.item != self._shop.goal.row:
            return None
        back = [] if self._page.kind == "item" else ["click[< prev]"]
        return back + self._purchase(dict(self._page.options))

    def _from_results(self) -> list[str] | None:
        """Plan from results that list the product, or from a page of another result."""
        if self._page.kind == "search" or self._shop.goal.row not in self._page.results:
            return None
        back = {"results": 0, "item": 1}.get(self._page.kind, 2)
        return ["click[< prev]"] * back + self._turn_pages(self._page.results, self._page.number)

    def _from_search(self) -> list[str] | None:
        for text in (self._wanted.title, self._wanted.document):
            query = " ".join(re.findall(r"[\w'.]+", text.lower()))
            results = self._shop.catalogue.find(query)
            if self._shop.goal.row in results:
                return [f"search[{query}]", *self._turn_pages(results, 1)]
        return None

    def _turn_pages(self, results: tuple[int, ...], number: int) -> list[str]:
        """Plan from a page of results to the page that lists the product, and on."""
        pages = results.index(self._shop.goal.row) // PER_PAGE + 1 - number
        turn = "click[next >]" if pages > 0 else "click[< prev]"
        return [turn] * abs(pages) + [f"click[{self._wanted.asin.lower()}]", *self._purchase({})]

    def _purchase(self, chosen: dict[str, str]) -> list[str]:
        missing = [value for name, value in self.choice().items() if chosen.get(name) != value]
        return [f"click[{value}]" for value in missing] + ["click[buy now]"]


# ---------------------------------------------------------------- WebShop as a `TextEnv`

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
