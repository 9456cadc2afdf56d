"""Ground truth about a shopper's page: the shortest route from it to buying the goal's product with its options.

The oracle knows the product. It searches for the words of its title (or all words of its document, if the title does
not find it), opens it, chooses options and buys. For labels and tests; never shown to an agent.
"""

from __future__ import annotations

import re

from thefuzz import fuzz

from align_echo.wrappers.webshop.pages import PER_PAGE, Shop, ShopPage
from align_echo.wrappers.webshop.reward import option_hits, score


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
