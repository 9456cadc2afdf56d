"""Pages as lists of parts: which parts a form of action takes, and how near a name is to what was said.

Frames and regions are texts, so that rules can be read and edited by hand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from align_echo.interface.rules.actions import Say
from align_echo.types import Frozen

MOST_PARTS = 300
"""Maximum parts of a page that are read."""

MOST_FRAME = 100
"""Maximum texts of a frame."""

LEAST_LIKE = 1.6
"""Likeness to a part that cannot be named, from which the name beside it is meant."""

_KINDS = (("A", "[A-Z]"), ("a", "[a-z]"), ("9", "[0-9]"), ("-", r"[^\w\s]"))


class Region(Frozen):
    """Which parts can be named between two texts of the frame.

    `open`: "all" parts without a feature in `but`; "none" but those with a shape in `shapes`; "": only these are known.
    """

    open: Literal["all", "none", ""] = "none"
    but: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()


class NamedParts(Frozen):
    """What a form takes of a page: `sure` texts wherever they stand, `never` others, else what the region says."""

    sure: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    regions: dict[str, Region] = Field(default_factory=dict)


class Page(NamedTuple):
    """Parts of a page, also in small letters; its frame, and the region of each part."""

    parts: tuple[str, ...]
    lower: tuple[str, ...]
    frame: str
    regions: tuple[str, ...]


class PageOffers(Frozen):
    """What pages offer. An action that is refused leaves the page as it is.

    `breaks` separate a page's parts; pages are told apart by the texts of the `frame` that they show. `free` maps each
    form that takes any words to the frames of the pages where it does, `closed` each other form to what it takes. Forms
    are written with {0}. `any_case`: names may be written in other letters. `say` is the message that names what was
    meant, `say_names` the one that lists what a page offers.
    """

    breaks: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    frame: Annotated[tuple[str, ...], Field(max_length=MOST_FRAME)] = ()
    free: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    closed: dict[str, NamedParts] = Field(default_factory=dict)
    any_case: bool = False
    say: Say = "`{action}` is not understood; write `{step}` instead."
    say_names: Say = "The page is as it was. {names}."

    def read(self, text: str) -> Page:
        """Return the parts of a page, with the frame and the region of each."""
        pieces = [text]
        for mark in self.breaks:
            pieces = [piece for part in pieces for piece in part.split(mark)]
        parts = tuple(part.strip() for part in pieces if part.strip())[:MOST_PARTS]
        lower = tuple(part.lower() for part in parts)
        shown, known = set(lower), set(self.frame)
        frame = " | ".join(each for each in self.frame if each in shown)
        before = _latest(lower, known)
        after = _latest(lower[::-1], known)[::-1]
        return Page(parts, lower, frame, tuple(" || ".join((frame, *pair)) for pair in zip(before, after, strict=True)))

    def takes(self, form: str, page: Page, index: int) -> bool | None:
        """Check if a form takes a part of a page; None where that was not learned."""
        rule, text = self.closed[form], page.lower[index]
        if text in rule.sure or text in rule.never:
            return text in rule.sure
        region = rule.regions.get(page.regions[index])
        if region is None:
            return None
        if region.open == "all":
            return shape(page.parts[index]) in region.shapes or not any(
                feature in region.but for feature in features(page.lower, index)
            )
        return True if shape(page.parts[index]) in region.shapes else False if region.open else None

    def names(self, form: str, page: Page) -> list[str]:
        """Return the parts of a page that a form takes, each once."""
        return list(dict.fromkeys(part for index, part in enumerate(page.parts) if self.takes(form, page, index)))

    def parse(self, action: str) -> tuple[str, str, bool]:
        """Return the form, what is named, and whether the action is of the form.

        Else the form is the one that begins with the same word, if any, and all that follows is named.
        """
        said, words = action.strip(), plain_words(action).split(" ")
        forms = [*self.closed, *self.free]
        for form in forms:
            if name := _slot(form, said):
                return form, name, True
        for form in forms:
            if plain_words(form.partition("{0}")[0]).split(" ")[0] == words[0]:
                return form, re.sub(r"^\W*\w+", "", said).strip(" \t\n[](){}<>\"'`=:,."), False
        return "", said, False

    def may_take(self, form: str, page: Page, said: str) -> bool:
        """Check if a part was said that the form may take, for all that was learned."""
        return any(
            (said == part or (self.any_case and said.lower() == part.lower()))
            and self.takes(form, page, index) is not False
            for index, part in enumerate(page.parts)
        )


def _slot(form: str, action: str) -> str:
    """Return what stands in the slot of a form in an action; "" if the action is not of this form."""
    head, _, tail = form.partition("{0}")
    inner = action[len(head) : len(action) - len(tail)].strip()
    return inner if action.startswith(head) and action.endswith(tail) and len(action) > len(head) + len(tail) else ""


def _latest(texts: Sequence[str], known: set[str]) -> list[str]:
    """Return for each text the latest known one before it; "" without."""
    latest, found = "", []
    for text in texts:
        found.append(latest)
        latest = text if text in known else latest
    return found


def shape(text: str) -> str:
    """Return what a text looks like: the kinds of its characters, its number of words, and its length."""
    kinds = "".join(kind for kind, pattern in _KINDS if re.search(pattern, text))
    return f"{kinds} {len(text.split())} {len(text)}"


def features(lower: Sequence[str], index: int) -> list[str]:
    """Return what may set a part apart in its region: its text and first word, the part before, the next first word."""
    before = lower[index - 1] if index else ""
    after = lower[index + 1] if index + 1 < len(lower) else ""
    text = lower[index]
    return [f"is {text}", f"begins {text.split(' ')[0]}", f"after {before}", f"before {after.split(' ')[0]}"]


# ---------------------------------------------------------------- likeness


def plain_words(text: str) -> str:
    """Return the words of a text in small letters, without punctuation."""
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


def likeness(name: str, words: str) -> float:
    """Return how near a name is to what was said, both as plain words.

    4: the same; 3 and more: the name is in it and at least a third of it; 2 and more: it is in the name; 1 and more:
    half of their words are the same; less: most of their letters are; else 0.
    """
    if not name or not words:
        return 0.0
    if name == words:
        return 4.0
    own, said = name.split(" "), words.split(" ")
    if f" {name} " in f" {words} " and 3 * len(own) >= len(said):
        return 3.0 + len(own) / len(said) / 2
    if f" {words} " in f" {name} ":
        return 2.0 + len(said) / len(own) / 2
    spoken = {*said}
    shared = sum(word in spoken for word in own)
    every = len(own) + len(said) - shared
    return 1.0 + shared / every / 2 if 2 * shared >= every else _spelling(name, words)


def _spelling(name: str, words: str) -> float:
    """Return the share of two texts' pairs of letters that both have, if that is most of them; else 0."""
    own, said = (Counter(text[at : at + 2] for at in range(len(text) - 1)) for text in (name, words))
    shared = sum(own[pair] for pair in own if pair in said) + sum(said[pair] for pair in said if pair in own)
    every = own.total() + said.total()
    return shared / every if 10 * shared >= 7 * every > 0 else 0.0


def nearest(names: Iterable[str], said: str) -> tuple[float, list[str]]:
    """Return how near the nearest names are to what was said, and these names."""
    words = plain_words(said)
    near = [(likeness(plain_words(name), words), name) for name in names]
    best = max((like for like, _ in near), default=0.0)
    return best, [name for like, name in near if like == best > 0]
