"""Pages of a shop: the shopper's position, the visible texts, the clickable names, and the effect of an action.

A page is an immutable value, so saving it means keeping it. Visible texts come from the products; no HTML is made or
parsed. The score's formula is in `reward.py`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import resources
from typing import Literal

import jinja2
from jinja2.utils import htmlsafe_json_dumps

from align_echo.wrappers.webshop.catalogue import ProductCatalogue
from align_echo.wrappers.webshop.reward import PageNode, ShoppingGoal, score, texts

SEPARATOR = " [SEP] "
PER_PAGE = 10

SubPage = Literal["description", "features", "reviews", "attributes"]
_SUB_PAGES: tuple[SubPage, ...] = ("description", "features", "reviews", "attributes")
_SEARCH = PageNode("button", "Search")
_BACK = PageNode("button", "Back to Search")
_PREVIOUS = PageNode("button", "< Prev")
_NEXT = PageNode("button", "Next >")
_BUY = PageNode("button", "Buy Now")
_BUTTONS = {name: PageNode("button", name.capitalize()) for name in _SUB_PAGES}


@dataclass(frozen=True)
class ShopPage:
    """Page of a shop. `results` and `item` are rows of the catalogue; `number` counts pages of results from 1.

    `options` are the chosen (name, value) pairs, `viewed` the codes of products opened since the first page.
    """

    kind: Literal["search", "results", "item", "done"] | SubPage = "search"
    query: str = ""
    results: tuple[int, ...] = ()
    number: int = 0
    item: int = -1
    options: tuple[tuple[str, str], ...] = ()
    viewed: frozenset[str] = frozenset()
    score: float = 0.0

    @property
    def listed(self) -> tuple[int, ...]:
        """Rows of the results on this page."""
        return self.results[(self.number - 1) * PER_PAGE : self.number * PER_PAGE]

    @property
    def chosen(self) -> tuple[str, ...]:
        """Chosen option values."""
        return tuple(value for _, value in self.options)


def parse_action(action: str) -> tuple[str, str]:
    """Parse `name[argument]` into name and argument; ("", "") for anything else.

    The result equals that of the greedy pattern `(.+)\\[(.+)\\]` from the start of the first line, in linear time: the
    last opening bracket before the last closing one.
    """
    line = action.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 1))
    return (line[:start], line[start + 1 : end].lower()) if start > 0 else ("", "")


class Shop:
    """Pages of one goal. `show_attrs` adds a button that shows a product's attributes."""

    def __init__(self, catalogue: ProductCatalogue, goal: ShoppingGoal, *, show_attrs: bool = False) -> None:
        self.catalogue = catalogue
        self.goal = goal
        self._sub_pages = _SUB_PAGES if show_attrs else _SUB_PAGES[:-1]
        self._instruction = texts("Instruction:", goal.instruction)
        self._last_page: tuple[ShopPage | None, tuple[PageNode, ...]] = (None, ())

    # ------------------------------------------------------------ visible texts

    def nodes(self, page: ShopPage) -> tuple[PageNode, ...]:
        """Return the visible texts of a page, in order; those of the last page are cached."""
        cached = self._last_page  # read once: another thread may replace it
        if cached[0] is not page:
            cached = self._last_page = (page, tuple(self._make(page)))
        return cached[1]

    def _make(self, page: ShopPage) -> list[PageNode]:
        if page.kind == "search":
            return [*texts("WebShop"), *self._instruction, _SEARCH]
        if page.kind == "results":
            return self._result_nodes(page)
        product = self.catalogue.product(page.item)
        if page.kind == "done":
            return _receipt(page, product.asin)
        head = [*self._instruction, _BACK, _PREVIOUS]
        if page.kind == "item":
            buttons = (_BUTTONS[name] for name in self._sub_pages)
            return [*head, *product.options_shown, *product.facts_shown, *buttons, _BUY]
        content = {
            "description": (product.description,),
            "features": product.bullets,
            "reviews": (),
            "attributes": (*product.attributes, product.category, product.query, product.product_category),
        }
        return [*head, *texts(*content[page.kind])]

    def _result_nodes(self, page: ShopPage) -> list[PageNode]:
        nodes = [*self._instruction, _BACK, *texts(f"Page {page.number} (Total results: {len(page.results)})")]
        nodes += (_PREVIOUS, _NEXT) if page.number > 1 else (_NEXT,)
        for row in page.listed:
            nodes += self.catalogue.listing(row)
        return nodes

    # ------------------------------------------------------------ actions

    def follow(self, page: ShopPage, action: str) -> ShopPage:
        """Return the page after an action: the same page if the action has no meaning there."""
        name, argument = parse_action(action)
        if name == "search":
            return self.search(page, argument)
        if name == "click" and argument != "search" and argument in clickables(self.nodes(page)):
            return self._click(page, argument)
        return page

    def search(self, page: ShopPage, query: str) -> ShopPage:
        """Return the first page of results."""
        return ShopPage("results", query, self.catalogue.find(query), 1, viewed=page.viewed)

    def _click(self, page: ShopPage, name: str) -> ShopPage:
        if name == "buy now":
            return replace(page, kind="done", score=self._score(page))
        if name == "back to search":
            return ShopPage()
        if page.kind == "results":
            return self._click_result(page, name)
        if name == "< prev":
            left = page.kind == "item"
            return replace(page, kind="results", item=-1, options=()) if left else replace(page, kind="item")
        for sub_page in self._sub_pages:
            if name == sub_page:
                return replace(page, kind=sub_page)
        group = self.catalogue.product(page.item).option_groups[name]
        return replace(page, options=tuple({**dict(page.options), group: name}.items()))

    def _click_result(self, page: ShopPage, name: str) -> ShopPage:
        if name == "next >":
            return replace(page, number=page.number + 1)
        if name == "< prev":
            return replace(page, number=page.number - 1)
        row = next(row for row in page.listed if self.catalogue.listing(row)[0].text.lower() == name)
        return replace(page, kind="item", item=row, viewed=page.viewed | {self.catalogue.listing(row)[0].text})

    def _score(self, page: ShopPage) -> float:
        bought, wanted = self.catalogue.product(page.item), self.catalogue.product(self.goal.row)
        return score(bought, page.chosen, self.goal, wanted)


def _receipt(page: ShopPage, asin: str) -> list[PageNode]:
    """Build the last page, with the fields upstream leaves empty."""
    options = str(htmlsafe_json_dumps(dict(page.options), sort_keys=True))
    bought = ("Purchased", "asin", asin, "options", options, "attrs", "None", "category", "None", "query", "None")
    target = ("asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query")
    thanks = ("Thank you for shopping with us!", "Your code:", "None", "(Paste it in your MTurk interface.)")
    total = ("Goal", "None", "Reward", "Your score (min 0.0, max 1.0)", str(page.score), "Reward Details", "None")
    return [*texts(*thanks, *bought, "product category", "None", "Target", *target, *total)]


# ---------------------------------------------------------------- as text


def clickables(nodes: Iterable[PageNode]) -> tuple[str, ...]:
    """List the names for clicks: buttons in page order, then products, then option values. "search" is not clickable.
    """
    by_kind: dict[str, list[str]] = {"text": [], "button": [], "link": [], "option": []}
    for kind, text in nodes:
        by_kind[kind].append(text if kind == "option" else text.lower())
    return tuple(dict.fromkeys([*by_kind["button"], *by_kind["link"], *by_kind["option"]]))


def plain_text(nodes: Iterable[PageNode]) -> str:
    """Render WebShop's "text" observation."""
    return SEPARATOR.join([text for _, text in nodes])


def rich_text(nodes: Iterable[PageNode], page: ShopPage) -> str:
    """Render WebShop's "text_rich" observation: one text a line, buttons marked, chosen options first."""
    options = json.dumps(dict(page.options))  # upstream looks for the quoted value in the address of the page
    lines: list[str] = []
    clicked: list[str] = []
    for kind, text in nodes:
        if kind == "text":
            lines.append(text)
            continue
        before = {"button": "", "link": "\n", "option": "  "}[kind]
        done = text in page.viewed if kind == "link" else kind == "option" and f'"{text}"' in options
        if done and kind == "option":
            clicked.insert(0, f"You have clicked {text}.")
        word = "clicked button" if done else "button"
        lines.append(f"{before}[{word}] {text} [{word}_]")
    return "".join(f"{line}\n" for line in (*clicked, *lines))


# ---------------------------------------------------------------- WebShop pages as HTML for people


def html(shop: Shop, page: ShopPage) -> str:
    """Render a complete HTML document for a page. Every text of the catalogue is escaped."""
    return _template().render(
        title=page.kind,
        nodes=shop.nodes(page),
        chosen=page.chosen,
        query=page.query,
        done=page.kind == "done",
        score=page.score,
    )


@functools.cache
def _template() -> jinja2.Template:
    source = resources.files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(source)
