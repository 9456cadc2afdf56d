"""Shopping for the pocket model to imitate: WebShop episodes on the embedded catalogue's training goals.

The shopper knows what a shopper sees: the goal's words and the pages. It searches for the product's words and those of
the choice, opens the listed product that shares most words with the goal at a price in order, chooses the options that
the goal names, and buys. Some episodes hold a planted mistake, which is not imitated, and what puts it right.
Leaves out the pages of descriptions, further pages of results and a second search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import gymnasium as gym

from align_echo.agents.conversation import said
from align_echo.agents.novices.webshop import Sight, read_page
from align_echo.agents.vanilla import Vanilla
from align_echo.errors import UsageError
from align_echo.models.scripted import ScriptedModel
from align_echo.rollout import extend, start_view, take_turn
from align_echo.train.demonstrations import Demonstration
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.catalogue import environment, make, tasks
from align_echo.wrappers.dice import Dice

SPLIT = "train"
MISTAKES = 0.14
"""Share of the episodes in which a mistake is planted."""

_OPENING = re.compile(
    r"(?:i need|i am looking for|i'm looking for|looking for|(?:can you )?find me|please get me|i would like|"
    r"i want to buy|i want) (?:an? )?"
)
_PRICE = re.compile(r",? and price lower than (\d+(?:\.\d+)?) dollars")
_CHOICE = re.compile(r", and i want |(?<!built) in |\. i prefer |, ")
_DETAILS = re.compile(r" that (?:is|are) | and (?:has|have) | with | for ")
_WORD = re.compile(r"[\w'.()-]+")
_DOLLARS = re.compile(r"\$(\d+(?:\.\d+)?)")
_CODE = re.compile(r"click\[(B0\w{8})\]")
_GROUPS = ("color", "size", "style", "scent", "flavor name")
_COMMON = "a an and are color flavor for has have in is name please scent size style that with"
_SAYS_LITTLE = frozenset(_COMMON.split())


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


def read_wish(goal: str) -> Wish:
    """The parts of a goal of the embedded catalogue."""
    price = _PRICE.search(goal)
    text = _OPENING.sub("", _PRICE.sub("", goal), count=1)
    asked, *choice = _CHOICE.split(text, maxsplit=1)
    thing, *details = _DETAILS.split(asked, maxsplit=1)
    return Wish(thing, "".join(details), "".join(choice), float(price[1]) if price else float("inf"))


def telling(text: str) -> list[str]:
    """The words of a text that a search is worth, in order."""
    found = [word.strip(".'") for word in _WORD.findall(text.lower())]
    return [word for word in found if word and word not in _SAYS_LITTLE]


class Shopper:
    """The teacher, an agent. `details` is how many words of the details it adds to its search."""

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
            details = telling(wish.details)[: self._details]
            return f"search[{' '.join([*telling(wish.thing), *details, *telling(wish.choice)])}]"
        if sight.kind == "results":
            best = preferred(view, sight, wish)
            return f"click[{best}]" if best else "click[Back to Search]"
        if sight.kind == "item" and self._is_right(view, wish):
            missing = [value for value in wanted(sight, wish) if value not in chosen(view)]
            return f"click[{missing[0]}]" if missing else "click[Buy Now]"
        return "click[< Prev]"

    def _is_right(self, view: AgentView, wish: Wish) -> bool:
        """Whether the open product is the one it would have opened."""
        numbers = [number for number, turn in enumerate(view.turns) if _CODE.fullmatch(turn.action or "")]
        before = view.model_copy(update={"turns": view.turns[: numbers[-1]]})
        return f"click[{preferred(before, present(before), wish)}]" == view.turns[numbers[-1]].action


def present(view: AgentView) -> Sight:
    """The page that the shopper has before it."""
    seen = view.turns[-1].observation if view.turns else view.initial_observation
    return read_page(seen) or Sight("other")


def preferred(view: AgentView, sight: Sight, wish: Wish) -> str:
    """Code of the listed product to open, of those not opened before; "" if there is none. The first of equals."""
    opened = {turn.action for turn in view.turns}
    fresh = [product for product in sight.products if f"click[{product[0]}]" not in opened]
    return max(fresh, key=lambda product: merit(product, wish), default=("", "", ""))[0]


def merit(product: tuple[str, str, str], wish: Wish) -> tuple[bool, int]:
    """How good a listed (code, title, price) looks: is the price in order, and how many words does it share."""
    _, title, price = product
    dollars = _DOLLARS.match(price)
    in_order = dollars is not None and float(dollars[1]) <= wish.bound
    return in_order, len(wish.words & set(telling(title)))


def wanted(sight: Sight, wish: Wish) -> list[str]:
    """The option values of an item page that the goal names, in page order."""
    values = (value for value in sight.values if value not in _GROUPS)
    return [value for value in values if re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w-]|\.\d)", wish.choice)]


def chosen(view: AgentView) -> list[str]:
    """The option values that were clicked since the last product was opened."""
    clicks: list[str] = []
    for turn in view.turns:
        action = turn.action or ""
        clicks = [] if _CODE.fullmatch(action) else [*clicks, action.removeprefix("click[").removesuffix("]")]
    return clicks


# ---------------------------------------------------------------- demonstrations


def shopping_demonstrations(seed: int) -> Iterator[Demonstration]:
    """Episodes without end, every training goal once a lap; the same for the same seed. Kind "webshop.expert".

    Raises `UsageError` if WEBSHOP_DATA names official files: the teacher reads the embedded catalogue's goals.
    """
    env = open_shop()
    for number, task in enumerate(_laps(seed)):
        yield _expert(env, task, Dice(f"shopping {seed} {number}"))


def open_shop() -> gym.Env[str, str]:
    """The training split of the embedded catalogue. Raises `UsageError` if another catalogue is configured."""
    from align_echo.wrappers.webshop import data_source
    from align_echo.wrappers.webshop.generator import EmbeddedProducts

    if data_source(data_root=None) != EmbeddedProducts().label:
        raise UsageError("the pocket model learns shopping on the embedded catalogue: unset WEBSHOP_DATA")
    return make("webshop", split=SPLIT)


def _laps(seed: int) -> Iterator[str]:
    ids = tasks("webshop", split=SPLIT)
    lap = 0
    while True:
        yield from Dice(f"shopping lap {seed} {lap}").shuffled(ids)
        lap += 1


def _expert(env: gym.Env[str, str], task: str, dice: Dice) -> Demonstration:
    shopper = Shopper(details=dice.pick((0, 0, 2, 4)))
    view = start_view(env, task, environment("webshop").action_format, seed=0)
    slip_on = dice.pick(("search", "results", "results", "item")) if dice.chance(MISTAKES) else ""
    weights: list[float] = []
    while True:
        action, weight = shopper.choose(view), 1.0
        if present(view).kind == slip_on:
            action, weight, slip_on = _slip(view, action, dice), 0.0, ""
        step = take_turn(env, AgentReply(text=action, action=action))
        weights.append(weight)
        if step.terminated or step.truncated:
            break
        view = extend(view, step)
    messages = (*_VANILLA.conversation(view), said(action))
    return Demonstration(kind="webshop.expert", messages=messages, weights=tuple(weights))


_VANILLA = Vanilla(ScriptedModel(()))
"""Words the chats; never asked."""


def _slip(view: AgentView, action: str, dice: Dice) -> str:
    """A mistake in the place of the right action: one that the shop refuses, or a product that is worse."""
    sight, wish = present(view), read_wish(view.goal)
    argument = action.partition("[")[2].removesuffix("]")
    if sight.kind == "search":
        return f"search {argument}"
    if sight.kind == "item":
        return "click[Buy]" if argument == "Buy Now" else dice.pick((f"click[{argument} please]", f"choose {argument}"))
    best = max((merit(product, wish) for product in sight.products), default=(False, 0))
    worse = [product[0] for product in sight.products if merit(product, wish) < best]
    titles = [title for code, title, _ in sight.products if code == argument]
    return f"click[{dice.pick(worse if worse and dice.chance(0.7) else titles or ['the first'])}]"
