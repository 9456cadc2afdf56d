"""Places, and what is in sight: names offered by an environment, where they stand in its views, and ways to places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, Field

from align_echo.interface.rules.actions import Say, fill, form_pattern
from align_echo.types import Frozen

MOST_READ = 200_000
"""Characters of an episode's texts in which names are looked up; older ones are dropped."""

MOST_PLACES, MOST_VIEWS, MOST_SLOTS = 200, 4, 3

_SLOT = re.compile(r"\{(\d)\}")
_CHOICE = re.compile(r"\n *\d+[:.)]\s")


def _few_slots(form: str) -> str:
    if len(_SLOT.findall(form)) > MOST_SLOTS:
        raise ValueError(f"a form has at most {MOST_SLOTS} names")
    return form


PlaceForm = Annotated[str, AfterValidator(_few_slots)]
"""Form of actions: "grab {0} off {1}"."""


class Surroundings(Frozen):
    """What can be said and seen in an environment that offers forms and names, and refuses all else alike.

    `refusals` are the answers that refuse any action. `always` are the forms that every task offers, `sometimes`
    others. `views` are read-only actions whose texts show what is in sight, the one that names the place first.
    `movers` are the forms that lead to `places`. `names` are those that the environment took; in the views they stand
    between the words `before` and `after`, "" where none does. `opening`: an episode begins with the first view.
    """

    refusals: tuple[str, ...]
    always: tuple[PlaceForm, ...] = ()
    sometimes: tuple[PlaceForm, ...] = ()
    views: Annotated[tuple[str, ...], Field(max_length=MOST_VIEWS)] = ()
    opening: bool = False
    places: Annotated[tuple[str, ...], Field(max_length=MOST_PLACES)] = ()
    movers: tuple[PlaceForm, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    say_unseen: Say = "Nothing called `{name}` was seen so far."
    say_away: Say = "`{name}` is not here; it was last seen at {place}."
    say_forms: Say = "The environment knows these forms: {forms}."
    say_same_word: Say = "Write {forms}."
    say_sometimes: Say = "Some tasks understand {forms}, not all."

    @property
    def forms(self) -> list[str]:
        """All forms."""
        return sorted({*self.always, *self.sometimes})

    @cached_property
    def known_names(self) -> frozenset[str]:
        """The names, for look-up."""
        return frozenset(self.names)

    @cached_property
    def longest_name(self) -> int:
        """Most words of a name."""
        return max((name.count(" ") + 1 for name in self.names), default=0)

    def place_in(self, text: str) -> str:
        """Return the place that a view names first; "" if it names none."""
        matches = ((re.search(rf"\b{re.escape(place)}\b", text.lower()), place) for place in self.places)
        starts = [(match.start(), -len(place), place) for match, place in matches if match is not None]
        return min(starts)[2] if starts else ""

    def stands(self, text: str, name: str) -> bool:
        """Check if a name stands in a lower-case text by itself, not as a part of a longer one."""
        return any(before in self.before and after in self.after for before, after in surrounds(text, name))


class SightRecord:
    """What an episode has shown: the latest view of each place, the other views, and all that was read."""

    def __init__(self, surroundings: Surroundings, text: str = "") -> None:
        self.surroundings = surroundings
        self.place = self.carried = ""
        self.seen: dict[str, str] = {}
        self.text = text.lower()

    def read(self, text: str) -> None:
        """Take in an answer, whatever it says."""
        if text.lower() not in self.text:
            self.text = f"{self.text}\n{text.lower()}"[-MOST_READ:]

    def watch(self, texts: Sequence[str]) -> None:
        """Take in the texts of the views as they are now."""
        if not texts:
            return
        self.place = self.surroundings.place_in(texts[0]) or self.place
        self.seen.pop(self.place, None)
        self.seen[self.place] = texts[0].lower()
        self.carried = "\n".join(texts[1:]).lower()
        for text in texts:
            self.read(text)

    def is_at_hand(self, name: str) -> bool:
        """Check if a name is in the present views."""
        return self.stands_at(self.place, name) or self.is_carried(name)

    def is_carried(self, name: str) -> bool:
        """Check if a name is in the views that go along."""
        return self.surroundings.stands(self.carried, name)

    def stands_at(self, place: str, name: str) -> bool:
        """Check if a name is in the latest view of a place."""
        return self.surroundings.stands(self.seen.get(place, ""), name)

    def last_seen(self, name: str) -> str:
        """Return the place where a name was seen last; "" if nowhere."""
        return next((place for place in reversed(self.seen) if place and self.stands_at(place, name)), "")

    def is_known(self, name: str) -> bool:
        """Check if a name was seen anywhere, or is a place."""
        return name in self.surroundings.places or self.is_at_hand(name) or self.last_seen(name) != ""


def asks(text: str) -> bool:
    """Check if a text numbers choices, one a line: it waits for an answer, and a look might be taken for it."""
    return _CHOICE.search(f"\n{text}") is not None


def mentions(text: str, name: str) -> bool:
    """Check if a lower-case text has a name in it as whole words."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def surrounds(text: str, name: str) -> list[tuple[str, str]]:
    """Return the words before and after each occurrence of a name in a lower-case text; "" where none stands."""
    pattern = rf"(?:(\w+) )?(?<!\w){re.escape(name)}(?!\w)(?: (\w+))?"
    return [(match[1] or "", match[2] or "") for match in re.finditer(pattern, text)]


def match_names(form: str, action: str) -> list[str] | None:
    """Return what stands in the slots of a form in an action; None if it is not of this form."""
    match = form_pattern(form, ".+?").fullmatch(action)
    return None if match is None else [text.strip() for text in match.groups()]


def letters(form: str) -> str:
    """Write a form with letters for its names."""
    return fill(form, "XYZ")


def write_forms(forms: Iterable[str], between: str = ", ") -> str:
    """Write forms in a row."""
    return between.join(f"`{letters(form)}`" for form in forms)
