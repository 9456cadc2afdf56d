"""Scripted novice of WebShop: a stand-in for a small language model, and NOT a language model.

It searches the instruction's words, opens a product by its title, chooses options and buys. Its habits are those of
small models in published logs: it says `click[Buy]`, clicks a title instead of the product's code, adds words to an
option, tries to buy from the description and leaves out the brackets of a search. It reads an unchanged page as
success, or tries again, now and then to the end. It follows feedback, with any kind of quotes, and is a weak reader of
rules given up front. It understands the "text" form of pages only. Its scores are upper bounds for the effect of the
same interface on a language model. All draws come from a hash: same view, same action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from align_echo.agents.novices.habits import ScriptedNovice, advised, chance
from align_echo.types import AgentView

_COMMAND = re.compile(r"\b(?:search|click)\[[^\]\n]+\]")
_PRICE = re.compile(r",? and price lower than ([\d.]+) dollars")
_COMMON = """
a am an and are be buy can color find flavor for get has have i i'm im in is it like looking me name need of or please
prefer scent size some style that the to want with would you
"""
_SAYS_LITTLE = frozenset(_COMMON.split())
_GROUPS = ("color", "size", "style", "scent", "flavor name")


@dataclass(frozen=True)
class ShopHabits:
    """Habits of this novice. Numbers are shares of the occasions.

    `patience` is the most tries in vain, unless it gets stuck.
    """

    forgets_brackets: float = 0.1
    takes_first: float = 0.25
    clicks_title: float = 0.3
    skips_option: float = 0.25
    adds_words: float = 0.35
    reads_description: float = 0.3
    buys_from_description: float = 0.7
    says_buy: float = 0.6
    gets_stuck: float = 0.35
    patience: int = 4
    heeds_feedback: bool = True
    heeds_rules: float = 0.5


USUAL = ShopHabits()
STUBBORN = ShopHabits(heeds_feedback=False, heeds_rules=0.0)
"""Ignores all hints: an interface must at least do no harm."""


@dataclass(frozen=True)
class PageSight:
    """A page as the novice reads it: "search", "results", "item" or "other", with the products or the rest of an item
    page.
    """

    kind: str
    products: tuple[tuple[str, str, str], ...] = ()
    values: tuple[str, ...] = ()
    title: str = ""


def shop_novice(habits: ShopHabits = USUAL, *, seed: int = 0, name: str = "novice") -> ScriptedNovice:
    """Build the scripted novice of WebShop. It understands WebShop's text pages only."""
    return ScriptedNovice(lambda view: _ShopMind(habits, seed, view).choose(), name)


class _ShopMind:
    """The novice's belief at one moment, rebuilt from the view."""

    def __init__(self, habits: ShopHabits, seed: int, view: AgentView) -> None:
        self.habits = habits
        self.key = f"{seed}/{view.task_id}"
        self.goal = _PRICE.sub("", view.goal).lower()
        bound = _PRICE.search(view.goal)
        self.bound = float(bound[1]) if bound and re.fullmatch(r"\d+(\.\d+)?", bound[1]) else float("inf")
        self.rules = view.rules.lower()
        self.turns = view.turns
        self.sight, self.since = self._look(view)

    def _look(self, view: AgentView) -> tuple[PageSight, list[str]]:
        """Return the last page, and the actions since it first appeared."""
        sight = read_page(view.initial_observation) or PageSight("search")
        since: list[str] = []
        for turn in view.turns:
            since.append(turn.action or "")
            page = read_page(turn.observation)
            if page is not None and page != sight:
                sight, since = page, []
        return sight, since

    def draw(self, *parts: object) -> float:
        """Draw a number in [0, 1) from task and occasion only."""
        return chance(self.key, *parts)

    def _habit(self, share: float, cure: str, *occasion: object) -> bool:
        """Return whether a habit applies; less often if the rules hold the words against it."""
        if cure in self.rules:
            share *= 1 - self.habits.heeds_rules
        return self.draw(*occasion) < share

    def _patient(self, action: str) -> bool:
        """Return whether to repeat an action without effect on this page."""
        stuck = self.draw("stuck", action) < self.habits.gets_stuck
        return stuck or self.since.count(action) < 1 + int(self.draw("patience", action) * self.habits.patience)

    # -------------------------------------------------------- choosing

    def choose(self) -> str:
        hint = self._hint()
        if hint is not None:
            return hint
        return {"search": self._search, "results": self._open, "item": self._shop}.get(self.sight.kind, self._leave)()

    def _hint(self) -> str | None:
        """Return the action named by the last feedback, unless it was already followed twice in vain."""
        if not self.habits.heeds_feedback or not self.turns:
            return None
        for command in advised(self.turns[-1], _COMMAND, plain=True):
            if self.since.count(command) < 2:
                return command
        return None

    def _search(self) -> str:
        words = [word for word in re.findall(r"[\w'.-]+", self.goal) if word.strip(".'-") not in _SAYS_LITTLE]
        query = " ".join(word.strip(".'") for word in words[:10]) or "product"
        sloppy = f"search {query}"
        if self._habit(self.habits.forgets_brackets, "search[", "brackets") and self._patient(sloppy):
            return sloppy
        return f"search[{query}]"

    def _open(self) -> str:
        if not self.sight.products:
            return "click[Back to Search]"
        tried = sum((turn.action or "").startswith("click[B0") for turn in self.turns)
        ranked = sorted(self.sight.products, key=lambda product: -self._likeness(product[1], product[2]))
        if self.draw("first", tried) < self.habits.takes_first:
            ranked = list(self.sight.products)
        code, title, _ = ranked[tried % len(ranked)]
        by_title = f"click[{title}]"
        if self._habit(self.habits.clicks_title, "code", "title", code) and self._patient(by_title):
            return by_title
        return f"click[{code}]"

    def _likeness(self, title: str, price: str) -> float:
        words = set(re.findall(r"[\w'-]+", title.lower()))
        amount = re.match(r"\$(\d+(?:\.\d+)?)", price)
        dear = bool(amount) and float(amount[1]) > self.bound if amount else False
        return len(words & set(re.findall(r"[\w'-]+", self.goal))) - 5 * dear

    def _shop(self) -> str:
        title = self.sight.title
        for value in self._wanted():
            wordy = f"click[{value} please]" if self.draw("words", value) < 0.5 else f"click[option {value}]"
            click = wordy if self._habit(self.habits.adds_words, "option", "adds", title, value) else f"click[{value}]"
            if not any(value in action for action in self._since_opened()):
                return click
        reads = self.draw("read", title) < self.habits.reads_description
        if reads and "click[Description]" not in self._since_opened():
            return "click[Description]"
        if self._habit(self.habits.says_buy, "buy now", "buy") and self._patient("click[Buy]"):
            return "click[Buy]"
        return "click[Buy Now]"

    def _wanted(self) -> list[str]:
        """List the page's values named in the instruction, except those it overlooks."""
        named = [
            value
            for value in self.sight.values
            if value not in _GROUPS and re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w-]|\.\d)", self.goal)
        ]
        return [value for value in named if self.draw("skip", value) >= self.habits.skips_option]

    def _since_opened(self) -> list[str]:
        """List the actions since it opened the product."""
        actions = [turn.action or "" for turn in self.turns]
        opened = max((number for number, action in enumerate(actions) if action.startswith("click[B0")), default=-1)
        return actions[opened + 1 :]

    def _leave(self) -> str:
        buys = self._habit(self.habits.buys_from_description, "description", "from here", self.sight.title)
        return "click[Buy Now]" if buys and self._patient("click[Buy Now]") else "click[< Prev]"


def read_page(text: str) -> PageSight | None:
    """Parse a text page; None for any other text. Ignores text around the page."""
    start = max(text.rfind("WebShop [SEP] "), text.rfind("Instruction: [SEP] "))
    if start < 0:
        return None
    parts = [part.strip().partition("\n")[0] for part in text[start:].split(" [SEP] ")]
    listed = next((number for number, part in enumerate(parts) if part.startswith("Page ")), -1)
    if listed >= 0:
        rest = parts[listed:]
        codes = [number for number, part in enumerate(rest[:-2]) if re.fullmatch(r"B[0-9A-Z]{9}", part)]
        return PageSight("results", tuple((rest[n], rest[n + 1], rest[n + 2]) for n in codes), title=parts[listed])
    price = next((number for number, part in enumerate(parts) if part.startswith("Price: ")), -1)
    if price > 0 and "< Prev" in parts[:price]:
        return PageSight("item", values=tuple(parts[parts.index("< Prev") + 1 : price - 1]), title=parts[price - 1])
    if "Back to Search" in parts:
        return PageSight("other", title=parts[-1])
    return PageSight("search")
