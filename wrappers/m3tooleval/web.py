"""Task family `web_browsing`: questions about a generated site of a firm with staff and goods, over several pages.

Thirty-four tasks share a site. They ask for prices, e-mail addresses, departments, telephone numbers, specialities,
totals, totals after a discount, the size of a department, and the owner of a number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from align_echo.base.dice import Dice
from align_echo.wrappers.m3tooleval.site import HOME, Site
from align_echo.wrappers.m3tooleval.tools import CALCULATOR
from align_echo.wrappers.m3tooleval.upstream import ToolTask, draw_distinct, invent_word

DEPARTMENTS = {"train": ("Forge", "Ledger", "Garden", "Bakery"), "test": ("Mint", "Press", "Orchard", "Tannery")}
KINDS_OF_GOODS = {"train": ("lamp", "kettle", "drum", "glove"), "test": ("mast", "rope", "tent", "saddle")}
IN_A_KIND = 5
"""Goods of each kind: one more than the first view of their list shows."""


class StaffRecord(NamedTuple):
    """Member of the staff, as on their page."""

    name: str
    department: str
    speciality: str
    mail: str
    phone: str
    page: str


class ProductRecord(NamedTuple):
    """Article for sale. `page` is its address, `kind` that of the list with a link to it."""

    name: str
    price: float
    page: str
    kind: str


class SiteRecord(NamedTuple):
    """Site and its data. People are in random order, goods kind by kind."""

    site: Site
    people: tuple[StaffRecord, ...]
    wares: tuple[ProductRecord, ...]


PRICE, DEPARTMENT, SPECIALITY, MAIL, PHONE = 2, 1, 2, 5, 6
"""Line of each field on a page, counted from 0."""


@lru_cache(maxsize=16)
def firm(split: str, number: int) -> SiteRecord:
    """Generate the firm for a split's tasks; a new one for every 34 tasks."""
    dice = Dice(f"m3tooleval site {split} {number}")
    title = invent_word(dice, split).capitalize()
    people, wares = _people(dice, split, title.lower()), _wares(dice, split)
    pages: dict[str, tuple[str, ...]] = {
        HOME: (
            f"{title} and Company",
            "Makers and traders of this and that.",
            "Our staff [link '/staff']",
            "Our goods [link '/goods']",
            "Telephone numbers [link '/phones']",
            f"{title} has been here for {20 + dice.below(70)} years.",
        )
    }
    departments = DEPARTMENTS[split]
    pages["/staff"] = ("Departments", *(f"{name} [link '/staff/{name.lower()}']" for name in departments))
    for name in departments:
        members = [person for person in people if person.department == name]
        pages[f"/staff/{name.lower()}"] = (f"The {name} department", *_links([(m.name, m.page) for m in members]))
    for person in people:
        pages[person.page] = (
            person.name,
            f"Department: {person.department}",
            f"Speciality: {person.speciality}",
            "Likes letters and answers them.",
            "Write or call:",
            f"E-mail: {person.mail}",
            f"Telephone: {person.phone}",
        )
    pages["/phones"] = ("Telephone numbers", *(f"{person.phone}: {person.name}" for person in dice.shuffled(people)))
    kinds = KINDS_OF_GOODS[split]
    pages["/goods"] = ("Goods by kind", *(f"{kind} [link '/goods/{kind}']" for kind in kinds))
    for kind in kinds:
        pages[f"/goods/{kind}"] = (f"Every {kind}", *_links([(w.name, w.page) for w in wares if w.kind == kind]))
    for ware in wares:
        pages[ware.page] = (
            ware.name,
            "Made by hand.",
            _price_line(dice, ware.price),
            f"In stock: {1 + dice.below(60)}",
        )
    return SiteRecord(pages, tuple(dice.shuffled(people)), wares)


def _links(named: list[tuple[str, str]]) -> list[str]:
    return [f"{name} [link '{address}']" for name, address in named]


def _price_line(dice: Dice, price: float) -> str:
    if dice.chance(0.2):
        return f"Price: {price * 1.25:.2f} until last week, {price:.2f} now"
    return f"Price: {price:.2f}"


def _people(dice: Dice, split: str, domain: str) -> tuple[StaffRecord, ...]:
    sizes = {name: 3 + dice.below(4) for name in DEPARTMENTS[split]}
    count = sum(sizes.values())
    names = draw_distinct(count, lambda: f"{invent_word(dice, split, 2)} {invent_word(dice, split)}".title())
    numbers = draw_distinct(len(names), lambda: "-".join(f"{10 + dice.below(90)}" for _ in range(3)))
    departments = [name for name, size in sizes.items() for _ in range(size)]
    return tuple(
        StaffRecord(
            name,
            department,
            "/".join(dice.shuffled(KINDS_OF_GOODS[split])[:2]),
            f"{name.lower().replace(' ', '.')}@{domain}.example",
            phone,
            f"/staff/{department.lower()}/{name.lower().replace(' ', '-')}",
        )
        for name, department, phone in zip(names, departments, numbers, strict=True)
    )


def _wares(dice: Dice, split: str) -> tuple[ProductRecord, ...]:
    wares = []
    for kind in KINDS_OF_GOODS[split]:
        for name in draw_distinct(IN_A_KIND, lambda: invent_word(dice, split).capitalize()):
            page = f"/goods/{kind}/{name.lower()}"
            wares.append(ProductRecord(f"{name} {kind}", dice.between(8, 260), page, kind))
    return tuple(wares)


# ---------------------------------------------------------------- the questions


class SiteQuestion(NamedTuple):
    """Question, its answer, the lines to see for it, and the arithmetic it takes ("" for none)."""

    text: str
    answer: object
    facts: tuple[tuple[str, int], ...]
    sum: str = ""


Ask = Callable[[SiteRecord, Dice, int], SiteQuestion]
"""Function that asks a question about a firm, by number, counted from 0."""


def _price(firm: SiteRecord, dice: Dice, number: int) -> SiteQuestion:
    ware = firm.wares[IN_A_KIND * (number % 4) + dice.below(IN_A_KIND)]
    return SiteQuestion(f"What does the {ware.name} cost now?", ware.price, ((ware.page, PRICE),))


def _ask_person(text: str, field: str, line: int, first: int) -> Ask:
    """Make a question about a field on a person's page; `first` is the person in question number 0."""

    def ask(firm: SiteRecord, dice: Dice, number: int) -> SiteQuestion:
        person = firm.people[(first + number) % len(firm.people)]
        where = "" if field == "department" else f" of the {person.department} department"
        return SiteQuestion(text.format(name=f"{person.name}{where}"), getattr(person, field), ((person.page, line),))

    return ask


def _total(firm: SiteRecord, dice: Dice, number: int) -> SiteQuestion:
    first, second = _pair(firm, dice, number)
    terms = f"{first.price} + {second.price}"
    text = f"What do one {first.name} and one {second.name} cost together?"
    return SiteQuestion(text, CALCULATOR.call(terms), ((first.page, PRICE), (second.page, PRICE)), terms)


def _discounted(firm: SiteRecord, dice: Dice, number: int) -> SiteQuestion:
    first, second = _pair(firm, dice, number)
    percent = 5 * (1 + dice.below(6))
    terms = f"({first.price} + {second.price}) * (1 - {percent} / 100)"
    text = f"With {percent}% off the sum, what do one {first.name} and one {second.name} cost?"
    return SiteQuestion(text, CALCULATOR.call(terms), ((first.page, PRICE), (second.page, PRICE)), terms)


def _pair(firm: SiteRecord, dice: Dice, number: int) -> list[ProductRecord]:
    """Draw two articles of one kind with links in the first view of its list."""
    start = number * IN_A_KIND
    return dice.shuffled(firm.wares[start : start + IN_A_KIND - 1])[:2]


def _heads(firm: SiteRecord, dice: Dice, number: int) -> SiteQuestion:
    name = sorted({person.department for person in firm.people})[number]
    page = f"/staff/{name.lower()}"
    facts = tuple((page, line) for line in range(len(firm.site[page])))
    count = sum(person.department == name for person in firm.people)
    return SiteQuestion(f"How many people work in the {name} department?", count, facts)


def _whose(firm: SiteRecord, dice: Dice, number: int) -> SiteQuestion:
    person = firm.people[-1 - number]
    line = firm.site["/phones"].index(f"{person.phone}: {person.name}")
    return SiteQuestion(
        f"Whose telephone number is {person.phone}? Answer with the name.", person.name, (("/phones", line),)
    )


_ASKED: tuple[tuple[Ask, int], ...] = (
    (_price, 4),
    (_ask_person("What is the e-mail address of {name}?", "mail", MAIL, 0), 4),
    (_ask_person("Which department does {name} work in? Answer with its name alone.", "department", DEPARTMENT, 4), 4),
    (_ask_person("What is the telephone number of {name}, as their own page has it?", "phone", PHONE, 8), 4),
    (_ask_person("What is the speciality of {name}? Answer as the site writes it.", "speciality", SPECIALITY, 2), 4),
    (_total, 4),
    (_discounted, 4),
    (_heads, 2),
    (_whose, 4),
)
"""Kinds of questions, with the number of a site's tasks for each."""

KINDS = tuple((ask, number) for ask, count in _ASKED for number in range(count))


def make(index: int, dice: Dice, split: str) -> ToolTask:
    """Generate the task of an index; every 34 tasks have another site."""
    ask, number = KINDS[index % len(KINDS)]
    visited = firm(split, index // len(KINDS))
    question = ask(visited, dice, number)
    return ToolTask(
        f"{question.text} You are on the home page of {visited.site[HOME][0]}.",
        question.answer,
        site=visited.site,
        facts=((HOME, 0), *question.facts),
        plan=(("calculator", question.sum),) if question.sum else (),
        digits=2 if isinstance(question.answer, float) else None,
    )
