"""What an attempt at shopping shows, and what would have helped: the scripted critic of WebShop.

It reads the goal and the pages that the shopper read, on the embedded catalogue, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from align_echo.agents.novices.webshop import PageSight, read_page
from align_echo.base.dice import Dice
from align_echo.types import Step, Trajectory
from studies.pocket.shopping import BUY, Listed, Wish, in_order, merit, query, read_wish
from studies.pocket.wordings import Finding, Review, listed, then, wordings

REASONS, OPEN, SEARCH, CHOOSE, INSTEAD, GO_ON = wordings("shopping_review")


@dataclass(frozen=True)
class Seen:
    """One product that was opened: how it was listed, by which search, its page and the values clicked on it."""

    product: Listed
    search: str
    rivals: tuple[Listed, ...]
    page: PageSight
    clicked: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Attempt:
    """What is left of an attempt at its end: the present page, the last search and the last product."""

    wish: Wish
    sight: PageSight
    search: str = ""
    seen: Seen | None = None

    @classmethod
    def of(cls, trajectory: Trajectory) -> Attempt:
        """Read from the first page to the last before a purchase."""
        sight = read_page(trajectory.initial_observation) or PageSight("search")
        attempt = cls(read_wish(trajectory.goal), sight)
        for step in trajectory.steps[: -1 if trajectory.terminated else None]:
            attempt = attempt.after(step.action or "", read_page(step.observation) or PageSight("other"))
        return attempt

    def after(self, action: str, sight: PageSight) -> Attempt:
        """With one more turn."""
        name, argument = _parts(action)
        search = f"search[{argument}]" if name == "search" and sight.kind == "results" else self.search
        seen = self.seen
        if self.sight.kind == "results" and sight.kind == "item":
            matches = [product for product in self.sight.products if product[0].lower() == argument.lower()]
            seen = Seen(matches[0], search, self.sight.products, sight) if matches else None
        elif self.sight.kind == "item" and sight == self.sight and seen is not None:
            seen = Seen(seen.product, seen.search, seen.rivals, seen.page, seen.clicked | {argument.lower()})
        return Attempt(self.wish, sight, search, seen)


def review_shopping(trajectory: Trajectory, dice: Dice) -> Review:
    """What went wrong and at most two suggestions."""
    attempt = Attempt.of(trajectory)
    if trajectory.terminated and attempt.seen is not None:
        fault, values, findings = _bought(attempt.wish, attempt.seen)
    else:
        fault, values, findings = _unbought(attempt, trajectory.steps)
    return Review.of(dice.pick(REASONS[fault]).format_map(values), findings, dice)


Found = tuple[str, dict[str, str], list[Finding]]
"""A fault, the words of its reason, and the suggestions."""


def _unbought(attempt: Attempt, steps: Sequence[Step]) -> Found:
    """It was stuck, or ran out of turns: what to send in place of the last action, and how to go on to the end."""
    way = _way(attempt)
    last = [(step.action or "", step.observation) for step in steps]
    times = next((number for number, turn in enumerate(reversed(last)) if turn != last[-1]), len(last))
    action = last[-1][0] if last else ""
    if times < 2 or action in ("", way[0]):
        return "unbought", {}, [Finding(GO_ON, {"commands": then(way)}, commands=way)]
    findings = [Finding(INSTEAD, {"action": action, "commands": way[0]}, commands=way[:1])]
    findings += [Finding(GO_ON, {"commands": then(way[1:])}, commands=way[1:])] if way[1:] else []
    return "vain", {"action": action, "times": str(times)}, findings


def _way(attempt: Attempt) -> tuple[str, ...]:
    """The right actions from the present page, as far as it shows them."""
    if attempt.sight.kind == "item" and attempt.seen is not None:
        return (*(f"click[{value}]" for value in _unchosen(attempt.wish, attempt.seen)), BUY)
    if attempt.sight.kind == "results" and attempt.sight.products:
        return (f"click[{_best(attempt.wish, attempt.sight.products)[0]}]",)
    return (f"search[{query(attempt.wish, 0)}]",) if attempt.sight.kind == "search" else ("click[< Prev]",)


def _bought(wish: Wish, seen: Seen) -> Found:
    """The fault of a purchase that can be told, the surest first."""
    code, _, price = seen.product
    values = {"code": code, "price": price, "bound": f"{wish.bound:g}"}
    left = _unchosen(wish, seen)
    lacking = [value for value in wish.asked if value not in seen.page.values]
    unsaid = [word for word in query(wish, 0).split() if word not in seen.search.lower()]
    findings = [_choose(left)] if left else []
    if unsaid:
        return "vague", values | {"words": " ".join(unsaid)}, [_search(wish), *findings]
    if not in_order(price, wish):
        return "dear", values, [_other(wish, seen), *findings]
    if merit(seen.product, wish) < merit(_best(wish, seen.rivals), wish):
        return "worse", values, [_other(wish, seen), *findings]
    if left:
        return "unchosen", values | {"missing": listed(left)}, findings
    if lacking:
        return "lacks", values | {"missing": listed(lacking)}, [_other(wish, seen)]
    return "unlike", values, [_other(wish, seen)]


def _parts(action: str) -> tuple[str, str]:
    """Name, in lower case, and argument of an action, as the shop reads it."""
    match = re.match(r"(.+)\[(.+)\]", action)
    return (match[1].lower(), match[2]) if match else ("", "")


def _best(wish: Wish, products: tuple[Listed, ...]) -> Listed:
    return max(products, key=lambda product: merit(product, wish))


def _unchosen(wish: Wish, seen: Seen) -> list[str]:
    """The asked values that the page offers and that were not clicked."""
    return [value for value in seen.page.values if value in wish.asked and value not in seen.clicked]


def _choose(values: list[str]) -> Finding:
    commands = (*(f"click[{value}]" for value in values), BUY)
    return Finding(CHOOSE, {"commands": then(commands)}, commands=commands)


def _search(wish: Wish) -> Finding:
    commands = (f"search[{query(wish, 0)}]",)
    return Finding(SEARCH, {"commands": then(commands)}, commands=commands)


def _other(wish: Wish, seen: Seen) -> Finding:
    """Another product of the same results; another search where there is none."""
    fresh = tuple(product for product in seen.rivals if product != seen.product)
    if not fresh:
        return _search(wish)
    commands = (seen.search, f"click[{_best(wish, fresh)[0]}]")
    return Finding(OPEN, {"code": seen.product[0], "commands": then(commands)}, commands=commands)
