"""What an attempt at shopping shows, and what would have helped: the scripted critic of WebShop.

It reads the goal and the pages that the shopper read, on the embedded catalogue, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from align_echo.agents.novices.webshop import PageSight, read_page
from align_echo.dice import Dice
from align_echo.types import Step, Trajectory
from studies.pocket.review import Finding, Review, listed, then
from studies.pocket.shopping import BUY, Listed, Wish, in_order, merit, query, read_wish

REASONS = {
    "vain": (
        "You sent {action} {times} times and the page stayed as it was.",
        "You repeated {action} {times} times, and it does nothing here.",
        "The shop does not know {action}; you said it {times} times.",
        "You lost {times} turns on {action}, which the page does not offer.",
        "{times} times you tried {action} in vain, and you bought nothing.",
    ),
    "unbought": (
        "You bought nothing.",
        "The attempt ended without a purchase.",
        "You never came to buy.",
        "You looked around and did not buy.",
        "Nothing was bought before the turns were used up.",
    ),
    "dear": (
        "{code} costs {price}, more than you may spend.",
        "The price of {code}, {price}, is above the bound of {bound} dollars.",
        "You bought {code} for {price}, though the bound is {bound} dollars.",
        "At {price}, {code} is too dear: the task says lower than {bound} dollars.",
        "You paid too much: {price} for {code}.",
    ),
    "lacks": (
        "{code} is not sold with {missing}.",
        "The page of {code} offers no {missing}.",
        "You bought {code}, which does not come in {missing}.",
        "The task asks for {missing}, which {code} does not have.",
        "There is no {missing} to choose for {code}.",
    ),
    "unchosen": (
        "You did not choose {missing} before you bought.",
        "You bought too early: {missing} was not chosen.",
        "The page offered {missing} and you left it out.",
        "You forgot to choose {missing}.",
        "You never clicked {missing}, which was asked for.",
    ),
    "worse": (
        "{code} is not what was asked for: its title shares too few words with the task.",
        "Another product on the page fits the task better than {code}.",
        "You opened {code} though a closer match was listed.",
        "{code} was a poor pick among the results.",
        "The title of {code} says little of what the task asks for.",
    ),
    "vague": (
        "Your search left out words that matter, such as {words}.",
        "You did not search for {words}.",
        "The results could not fit, for {words} was not in your search.",
        "Your search was too short: it did not say {words}.",
        "Without {words} the search found other products.",
    ),
    "unlike": (
        "{code} does not have all that the task asks for.",
        "Some of what was asked for is missing from {code}.",
        "{code} meets only a part of the task.",
        "You bought {code}, which is not quite what was asked for.",
        "The product {code} lacks a quality that the task names.",
    ),
}
OPEN = (
    "Do not open {code} again. First {commands}.",
    "Leave {code} alone: {commands}.",
    "There is a better one than {code}: {commands}.",
    "You should not buy {code}. {commands} instead.",
    "In place of {code}, {commands}.",
)
SEARCH = (
    "Use more of the task's words: {commands}.",
    "Begin with {commands}.",
    "You should first {commands}.",
    "Say all that you look for: {commands}.",
    "Another search will help: {commands}.",
)
CHOOSE = (
    "On the right page, {commands}.",
    "Before you pay, choose what was asked for: {commands}.",
    "You should choose first: {commands}.",
    "Buy last: {commands}.",
    "Once the product is open, {commands}.",
)
INSTEAD = (
    "Where you said {action}, send {commands}.",
    "Copy the words of the page: {commands}.",
    "Do not repeat what changes nothing. Send {commands}.",
    "You should write exactly {commands}.",
    "The shop understands {commands}.",
)
GO_ON = (
    "Go on to the end: {commands}.",
    "Then {commands}.",
    "Do not stop before you have bought: {commands}.",
    "You should go on with {commands}.",
    "The next step is {commands}.",
)


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
