"""The shopper that the pocket model imitates in WebShop, and the mistakes of others like it.

It knows what a shopper sees: the goal's words, which must be those of the embedded catalogue's goals, and the pages. It
searches for the product's words and those of the choice, opens the listed product that shares most words with the goal
at a price in order, chooses the options that the goal names, and buys. Leaves out the pages of descriptions, further
pages of results and a second search.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from align_echo.agents.novices.webshop import PageSight, read_page
from align_echo.base.dice import Dice
from align_echo.types import AgentReply, AgentView

_OPENING = re.compile(
    r"(?:i need|i am looking for|i'm looking for|looking for|(?:can you )?find me|please get me|i would like|"
    r"i want to buy|i want) (?:an? )?"
)
_PRICE = re.compile(r",? and price lower than (\d+(?:\.\d+)?) dollars")
_CHOICE = re.compile(r", and i want |(?<!built) in |\. i prefer |, ")
_DETAILS = re.compile(r" that (?:is|are) | and (?:has|have) | with | for ")
_WORD = re.compile(r"[\w'.()-]+")
_DOLLARS = re.compile(r"\$(\d+(?:\.\d+)?)")
_CODE = re.compile(r"B0\w{8}")
_CLICKED = re.compile(r"click\[(B0\w{8})\]")
_SEARCH = re.compile(r"search\[[^\]]+\]")
_GROUP = "color|size|style|scent|flavor name|please"
_AROUND_VALUE = re.compile(rf"^(?:{_GROUP}) |(?: (?:{_GROUP}))+$")
_COMMON = "a an and are color flavor for has have in is name please scent size style that with"
_SAYS_LITTLE = frozenset(_COMMON.split())

BACK, BUY = "click[< Prev]", "click[Buy Now]"

Listed = tuple[str, str, str]
"""A product on a page of results: code, title, price as shown."""


@dataclass(frozen=True)
class Wish:
    """A goal in its parts: what it is, what is asked of it, which options; the most that it may cost, in dollars."""

    thing: str
    details: str
    choice: str
    bound: float = float("inf")

    @property
    def words(self) -> frozenset[str]:
        """All words that say something."""
        return frozenset(telling(f"{self.thing} {self.details} {self.choice}"))

    @property
    def asked(self) -> tuple[str, ...]:
        """The option values that it names."""
        return tuple(_AROUND_VALUE.sub("", part) for part in self.choice.strip(" .").split(" and ") if part)


def read_wish(goal: str) -> Wish:
    """The parts of a goal of the embedded catalogue."""
    price = _PRICE.search(goal)
    text = _OPENING.sub("", _PRICE.sub("", goal), count=1)
    asked, *choice = _CHOICE.split(text, maxsplit=1)
    thing, *details = _DETAILS.split(asked, maxsplit=1)
    return Wish(thing, "".join(details), "".join(choice), float(price[1]) if price else float("inf"))


def telling(text: str) -> list[str]:
    """The words of a text that a search is worth, in order."""
    words = [word.strip(".'") for word in _WORD.findall(text.lower())]
    return [word for word in words if word and word not in _SAYS_LITTLE]


class Shopper:
    """The teacher, an agent. `details` is how many words of the details it adds to its search.

    It does what a critique names: it searches `search[...]`, opens `click[<code>]` where that is listed, and opens no
    product whose code stands alone in it.
    """

    name = "shopper"

    def __init__(self, *, details: int = 0) -> None:
        self._details = details

    def act(self, view: AgentView) -> AgentReply:
        """The next action; the spelling is that of the page."""
        action = self.choose(view)
        return AgentReply(text=action, action=action)

    def choose(self, view: AgentView) -> str:
        """The next action as text."""
        wish, sight = read_wish(view.goal), present(view)
        if sight.kind == "search":
            return self.search(view, wish)
        if sight.kind == "results":
            return self.open(view, wish)
        return self.shop(view, wish) if sight.kind == "item" else BACK

    def search(self, view: AgentView, wish: Wish) -> str:
        """What to do on the first page."""
        advised = _SEARCH.search(view.critique)
        return advised[0] if advised else f"search[{query(wish, self._details)}]"

    def open(self, view: AgentView, wish: Wish) -> str:
        """What to do on a page of results."""
        best = preferred(view, wish)
        return f"click[{best}]" if best else "click[Back to Search]"

    def shop(self, view: AgentView, wish: Wish) -> str:
        """What to do on a product's page: leave the wrong one, choose, buy."""
        before = before_opening(view)
        if f"click[{preferred(before, wish)}]" != view.turns[len(before.turns)].action:
            return BACK
        return self.finish(view, wish)

    def finish(self, view: AgentView, wish: Wish) -> str:
        """What to do on the page of the right product."""
        missing = unchosen(view, wish)
        return f"click[{missing[0]}]" if missing else BUY


def query(wish: Wish, details: int) -> str:
    """The words to search for, with so many words of the details."""
    return " ".join([*telling(wish.thing), *telling(wish.details)[:details], *telling(wish.choice)])


def present(view: AgentView) -> PageSight:
    """The page that the shopper has before it."""
    seen = view.turns[-1].observation if view.turns else view.initial_observation
    return read_page(seen) or PageSight("other")


def before_opening(view: AgentView) -> AgentView:
    """The view at the page of results on which the present product was opened."""
    numbers = [number for number, turn in enumerate(view.turns) if _CLICKED.fullmatch(turn.action or "")]
    return view.model_copy(update={"turns": view.turns[: numbers[-1]]})


def preferred(view: AgentView, wish: Wish) -> str:
    """Code of the listed product to open, of those not opened before; "" if there is none. The first of equals."""
    opened = {turn.action for turn in view.turns}
    advised = set(_CLICKED.findall(view.critique))
    avoided = set(_CODE.findall(view.critique)) - advised

    def worth(product: Listed) -> tuple[bool, bool, bool, int]:
        return product[0] in advised, product[0] not in avoided, *merit(product, wish)

    fresh = [product for product in present(view).products if f"click[{product[0]}]" not in opened]
    return max(fresh, key=worth, default=("", "", ""))[0]


def merit(product: Listed, wish: Wish) -> tuple[bool, int]:
    """How good a listed product looks: is the price in order, and how many words does its title share."""
    _, title, price = product
    return in_order(price, wish), len(wish.words & set(telling(title)))


def in_order(price: str, wish: Wish) -> bool:
    """Whether a price as shown is within the bound; of a range, its lower end."""
    dollars = _DOLLARS.match(price)
    return dollars is not None and float(dollars[1]) <= wish.bound


def unchosen(view: AgentView, wish: Wish) -> list[str]:
    """The asked values that the present product's page offers and that were not clicked yet, in page order."""
    clicked = {turn.action for turn in view.turns[len(before_opening(view).turns) :]}
    return [value for value in present(view).values if value in wish.asked and f"click[{value}]" not in clicked]


class Slipping(Shopper):
    """A shopper that makes one mistake of a kind in an episode, on the page of that kind, and then puts it right.

    New for each episode. `slipped` is the turn of the mistake, counted from 0; None while there was none.
    """

    name = "slipping shopper"

    def __init__(self, page: str, dice: Dice, *, details: int = 0) -> None:
        super().__init__(details=details)
        self._page = page
        self._dice = dice
        self.slipped: int | None = None

    def choose(self, view: AgentView) -> str:
        """The next action as text."""
        right = super().choose(view)
        if self.slipped is not None or present(view).kind != self._page:
            return right
        self.slipped = len(view.turns)
        worse = worse_products(view) if self._page == "results" and self._dice.chance(0.7) else []
        return f"click[{self._dice.pick(worse)}]" if worse else refused(view, right, self._dice)


class Careless(Shopper):
    """A shopper with a bad habit to the end of the episode: one of `HABITS`. New for each episode."""

    name = "careless shopper"

    def __init__(self, habit: str, dice: Dice, *, details: int = 0) -> None:
        super().__init__(details=details)
        self._habit = habit
        self._dice = dice
        self._stuck = ""

    def choose(self, view: AgentView) -> str:
        """The next action as text."""
        right = super().choose(view)
        if present(view).kind == self._habit.removeprefix("stuck on "):
            self._stuck = self._stuck or refused(view, right, self._dice)
            return self._stuck
        return right

    def search(self, view: AgentView, wish: Wish) -> str:
        """With one word where it is vague."""
        return f"search[{telling(wish.thing)[-1]}]" if self._habit == "vague" else super().search(view, wish)

    def open(self, view: AgentView, wish: Wish) -> str:
        """Too dear a product, or another that is worse, where there is one."""
        dear = [code for code, _, price in present(view).products if not in_order(price, wish)]
        worse = {"dear": dear, "hasty": worse_products(view)}.get(self._habit, [])
        return f"click[{self._dice.pick(worse)}]" if worse else super().open(view, wish)

    def shop(self, view: AgentView, wish: Wish) -> str:
        """Buys what it opened, without some of the options where it forgets."""
        missing = unchosen(view, wish)
        return BUY if self._habit == "forgets" and missing and self._dice.chance(0.6) else self.finish(view, wish)


HABITS = ("vague", "dear", "hasty", "forgets", "stuck on search", "stuck on results", "stuck on item")


def worse_products(view: AgentView) -> list[str]:
    """Codes of the listed products that look worse than the best."""
    products, wish = present(view).products, read_wish(view.goal)
    best = max((merit(product, wish) for product in products), default=(False, 0))
    return [product[0] for product in products if merit(product, wish) < best]


def refused(view: AgentView, right: str, dice: Dice) -> str:
    """What the shop refuses in the place of the right action: no brackets, a title, other words."""
    argument = right.partition("[")[2].removesuffix("]")
    if right.startswith("search["):
        return f"search {argument}"
    titles = [title for code, title, _ in present(view).products if code == argument]
    if titles:
        return f"click[{titles[0]}]"
    if right == BUY:
        return dice.pick(("click[Buy]", "buy now"))
    return dice.pick((f"click[{argument} please]", f"choose {argument}"))
