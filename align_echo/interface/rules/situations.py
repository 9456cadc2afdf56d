"""What an episode has shown of its names, and conditions and terms over it.

Conditions and terms are short lists in an interface's data, the kind first: ["shows", "look", 0]. They number an
action's names, then the names that were shown with these (`Situation.about`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Discriminator, Field, Tag

from align_echo.interface.rules.actions import fill
from align_echo.interface.rules.vocabulary import (
    LETTERS,
    MOST_SLOTS,
    SlottedForm,
    Vocabulary,
    kind_of,
    mention_of,
    split_sentences,
)

MOST_VIEWED = 12
"""Maximum names of an action that are viewed."""

MOST_TEXT = 1_000_000
"""Maximum characters of an episode's texts in which a name is looked up; the first are dropped."""

OTHER_LETTERS = ("P", "Q", "R")
"""Letters that stand for further names of a step."""

Slot = Annotated[int, Field(ge=0, lt=2 * MOST_SLOTS)]
Place = Annotated[int, Field(ge=0, lt=MOST_SLOTS)]


@dataclass
class Situation:
    """What an episode has shown so far.

    By form: `last` names of its last action, `did` names of all; by pair and slot `active`: what was done and not
    undone, latest last. By name: `mentions` in the last sentence with it, `near` and `shown_with`: the first other name
    of that sentence, and of that text, `at`: the first name of each form's last action then. `completions`: the latest
    name of each kind. `views`: what read-only actions show now.
    """

    vocabulary: Vocabulary
    text: str = ""
    answer: str = ""
    last: dict[str, list[str]] = field(default_factory=dict)
    did: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    active: dict[tuple[str, str, int], list[str]] = field(default_factory=dict)
    mentions: dict[str, str] = field(default_factory=dict)
    near: dict[str, str] = field(default_factory=dict)
    shown_with: dict[str, str] = field(default_factory=dict)
    at: dict[str, dict[str, str]] = field(default_factory=dict)
    completions: dict[str, str] = field(default_factory=dict)
    meant: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)

    @classmethod
    def begin(cls, vocabulary: Vocabulary, text: str, answer: str = "") -> Situation:
        """Return the situation after the opening text; `answer` is the environment's part of it."""
        situation = cls(vocabulary, answer=answer.strip())
        situation.observe(text)
        return situation

    def branch(self) -> Situation:
        """Return a copy that can go on by itself."""
        copies: dict[str, Any] = {name: dict(value) for name, value in vars(self).items() if isinstance(value, dict)}
        return replace(self, **copies)

    def with_views(self, views: dict[str, str]) -> Situation:
        """Return the situation with what the views show now."""
        return replace(self, views=views)

    def record(self, action: str, observation: str) -> str:
        """Take in an action and the environment's answer; return the shape of its refusal, "" if it was taken."""
        vocabulary = self.vocabulary
        refused = vocabulary.refusal(self.answer, action, observation)
        self.answer = observation.strip()
        if refused:
            return refused
        form, names, exact = vocabulary.parse(action if vocabulary.case else action.lower(), self.completions)
        if exact and form in vocabulary.forms:
            if form in vocabulary.movers:
                self.last[form] = names
                for place, name in enumerate(names):
                    self.did[form, place] = [*_others(self.did.get((form, place)), name), name]
            for pair in vocabulary.pairs:
                self._do_and_undo(pair.do, pair.undo, pair.order, form, names)
        self.observe(observation)
        return ""

    def _do_and_undo(self, do: str, undo: str, order: tuple[int, ...], form: str, names: list[str]) -> None:
        for place, slot in enumerate(order) if form in (do, undo) else ():
            name = names[place] if form == do else names[slot] if slot >= 0 else ""
            others = _others(self.active.get((do, undo, place)), name)
            self.active[do, undo, place] = [*others, name] if form == do else others

    def observe(self, text: str) -> None:
        """Remember how a text speaks of each name, next to what, and what had been done last."""
        vocabulary = self.vocabulary
        self.text = f"{self.text}{text.lower()}\n"[-MOST_TEXT:]
        here = {form: names[0] for form, names in self.last.items() if names}
        named = vocabulary.names_in(text)
        for name in named:
            self.shown_with[name] = next((other for other in named if other != name), self.shown_with.get(name, ""))
        for sentence in split_sentences(text):
            names = vocabulary.names_in(sentence)
            for name in names:
                self.mentions[name] = mention_of(vocabulary.pattern, sentence, name)
                self.near[name] = next((other for other in names if other != name), "")
                self.at[name] = here
                self.completions[kind_of(name)] = name

    def about(self, names: Sequence[str]) -> list[str]:
        """Return the names of an action, and those that they were last shown with."""
        return [*names, *(self.shown_with.get(name, "") for name in names)]

    def view(self, view: str, name: str = "") -> str:
        """Return what a view shows now."""
        return self.views.get(view.replace("{}", name), "")

    def here(self, form: str) -> str:
        """Return the first name of a form's last action; "" without one."""
        return (self.last.get(form) or [""])[0]


def _others(names: list[str] | None, name: str) -> list[str]:
    return [other for other in names or () if other != name]


# ---------------------------------------------------------------- conditions


def _blank(form: str) -> str:
    return fill(form, ["_"] * MOST_SLOTS)


def _letter(slot: int, slots: int) -> str:
    """Write an action's name as a letter, a name shown with it in words."""
    return LETTERS[slot] if slot < slots else f"what {LETTERS[(slot - slots) % MOST_SLOTS]} was last shown with"


class WasLatest(NamedTuple):
    """The name had this place in the latest action of a form."""

    kind: Literal["last"]
    form: SlottedForm
    place: Place
    slot: Slot

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        latest = situation.last.get(self.form, ())
        return self.place < len(latest) and latest[self.place] == names[self.slot]

    def words(self, slots: int) -> str:
        return f"your latest `{_blank(self.form)}` named {_letter(self.slot, slots)}"


class WasDone(NamedTuple):
    """The name had this place in some action of a form."""

    kind: Literal["did"]
    form: SlottedForm
    place: Place
    slot: Slot

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return names[self.slot] in situation.did.get((self.form, self.place), ())

    def words(self, slots: int) -> str:
        return f"a `{_blank(self.form)}` of yours named {_letter(self.slot, slots)}"


class IsActive(NamedTuple):
    """The name had this place in an action that was not undone since."""

    kind: Literal["active"]
    do: SlottedForm
    undo: SlottedForm
    place: Place
    slot: Slot

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return names[self.slot] in situation.active.get((self.do, self.undo, self.place), ())

    def words(self, slots: int) -> str:
        return f"your `{_blank(self.do)}` of {_letter(self.slot, slots)} holds still"


class AnyActive(NamedTuple):
    """Some action of a form was not undone since."""

    kind: Literal["any"]
    do: SlottedForm
    undo: SlottedForm
    place: Place

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return bool(situation.active.get((self.do, self.undo, self.place)))

    def words(self, slots: int) -> str:
        return f"a `{_blank(self.do)}` of yours holds still"


class IsMentioned(NamedTuple):
    """The last sentence with the name speaks of it so."""

    kind: Literal["shape"]
    slot: Slot
    text: str

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return situation.mentions.get(names[self.slot], "") == self.text

    def words(self, slots: int) -> str:
        name = _letter(self.slot, slots)
        return f'{name} was last spoken of as "{self.text.replace("X", name)}"'


class IsKind(NamedTuple):
    """The name is of a kind seen in this place of a form."""

    kind: Literal["kind"]
    slot: Slot
    form: SlottedForm
    place: Place

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return situation.vocabulary.has_kind(names[self.slot], self.form, self.place)

    def words(self, slots: int) -> str:
        places = ["it" if place == self.place else "_" for place in range(MOST_SLOTS)]
        return f"{_letter(self.slot, slots)} is of a kind that `{fill(self.form, places)}` takes"


class IsShownWith(NamedTuple):
    """The last text with the name named the other one first."""

    kind: Literal["with"]
    slot: Slot
    other: Slot

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return situation.shown_with.get(names[self.slot], "") == names[self.other]

    def words(self, slots: int) -> str:
        return f"{_letter(self.slot, slots)} was last shown with {_letter(self.other, slots)}"


class IsNear(NamedTuple):
    """The last sentence with the name named the other one first."""

    kind: Literal["near"]
    slot: Slot
    other: Slot

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return situation.near.get(names[self.slot], "") == names[self.other]

    def words(self, slots: int) -> str:
        return f"{_letter(self.slot, slots)} was last named together with {_letter(self.other, slots)}"


class IsSeenAfter(NamedTuple):
    """The name was last read after an action of a form with the other name."""

    kind: Literal["at"]
    slot: Slot
    form: SlottedForm
    other: Slot

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return situation.at.get(names[self.slot], {}).get(self.form, "") == names[self.other]

    def words(self, slots: int) -> str:
        step = fill(self.form, [_letter(self.other, slots)])
        return f"{_letter(self.slot, slots)} was last named after your `{step}`"


class IsSeenHere(NamedTuple):
    """The name was read since the latest action of a form."""

    kind: Literal["here"]
    slot: Slot
    form: SlottedForm

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return situation.at.get(names[self.slot], {}).get(self.form, "") == situation.here(self.form) != ""

    def words(self, slots: int) -> str:
        return f"{_letter(self.slot, slots)} was named since your latest `{_blank(self.form)}`"


class IsShown(NamedTuple):
    """A view has the name now."""

    kind: Literal["shows"]
    view: str
    slot: Slot

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return names[self.slot] in situation.vocabulary.names_in(situation.view(self.view))

    def words(self, slots: int) -> str:
        return f"`{self.view}` shows {_letter(self.slot, slots)} now"


class IsBlank(NamedTuple):
    """A view has no name now."""

    kind: Literal["blank"]
    view: str

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return not situation.vocabulary.names_in(situation.view(self.view))

    def words(self, slots: int) -> str:
        return f"`{self.view}` shows nothing that has a name"


class IsHeld(NamedTuple):
    """A view of the name has the other one now."""

    kind: Literal["holds"]
    view: str
    slot: Slot
    other: Slot

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        shown = situation.view(self.view, names[self.slot])
        return names[self.other] in situation.vocabulary.names_in(shown)

    def words(self, slots: int) -> str:
        view = self.view.replace("{}", _letter(self.slot, slots))
        return f"`{view}` shows {_letter(self.other, slots)} now"


class IsTold(NamedTuple):
    """A view of the name speaks of it so now."""

    kind: Literal["told"]
    view: str
    slot: Slot
    text: str

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        name = names[self.slot]
        return situation.vocabulary.first_mention(situation.view(self.view, name), name) == self.text

    def words(self, slots: int) -> str:
        name = _letter(self.slot, slots)
        return f'`{self.view.replace("{}", name)}` says "{self.text.replace("X", name)}" now'


class IsKnown(NamedTuple):
    """The name was read before."""

    kind: Literal["known"]
    slot: Slot

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return names[self.slot] in situation.mentions

    def words(self, slots: int) -> str:
        return f"{_letter(self.slot, slots)} was named before"


class GoTogether(NamedTuple):
    """Names of these kinds were seen together in a form."""

    kind: Literal["combined"]
    form: SlottedForm

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return situation.vocabulary.goes_together(self.form, names[: self.form.count("{")])

    def words(self, slots: int) -> str:
        return f"such things were seen together in `{_blank(self.form)}`"


def _get_kind(data: Any) -> Any:
    return data[0] if isinstance(data, tuple | list) and data else None


PlainCondition = Annotated[
    Annotated[WasLatest, Tag("last")]
    | Annotated[WasDone, Tag("did")]
    | Annotated[IsActive, Tag("active")]
    | Annotated[AnyActive, Tag("any")]
    | Annotated[IsMentioned, Tag("shape")]
    | Annotated[IsKind, Tag("kind")]
    | Annotated[IsShownWith, Tag("with")]
    | Annotated[IsNear, Tag("near")]
    | Annotated[IsSeenAfter, Tag("at")]
    | Annotated[IsSeenHere, Tag("here")]
    | Annotated[IsShown, Tag("shows")]
    | Annotated[IsBlank, Tag("blank")]
    | Annotated[IsHeld, Tag("holds")]
    | Annotated[IsTold, Tag("told")]
    | Annotated[IsKnown, Tag("known")]
    | Annotated[GoTogether, Tag("combined")],
    Discriminator(_get_kind),
]


class IsNot(NamedTuple):
    """A condition does not hold."""

    kind: Literal["not"]
    condition: PlainCondition

    def holds(self, situation: Situation, names: Sequence[str]) -> bool:
        return not self.condition.holds(situation, names)

    def words(self, slots: int) -> str:
        return f"it is not so that {self.condition.words(slots)}"


StateCondition = Annotated[
    Annotated[PlainCondition, Tag("")] | Annotated[IsNot, Tag("not")],
    Discriminator(lambda data: "not" if _get_kind(data) == "not" else ""),
]


def highest_slot(part: StateCondition | NameTerm) -> int:
    """Return the highest number of a name in a condition or a term; -1 without one."""
    bare = part.condition if isinstance(part, IsNot) else part
    return max((getattr(bare, name) for name in ("slot", "other") if name in bare._fields), default=-1)


# ---------------------------------------------------------------- terms


class OwnName(NamedTuple):
    """Name of the action."""

    kind: Literal["name"]
    slot: Place

    def value(self, situation: Situation, names: Sequence[str]) -> str:
        return names[self.slot]

    def words(self) -> str:
        return LETTERS[self.slot]


class ActiveName(NamedTuple):
    """Name in the latest action of a form that was not undone since."""

    kind: Literal["active"]
    do: SlottedForm
    undo: SlottedForm
    place: Place

    def value(self, situation: Situation, names: Sequence[str]) -> str:
        return (situation.active.get((self.do, self.undo, self.place)) or [""])[-1]

    def words(self) -> str:
        return f"what you did `{_blank(self.do)}` with last and did not undo"


class LatestName(NamedTuple):
    """Name in the latest action of a form."""

    kind: Literal["last"]
    form: SlottedForm
    place: Place

    def value(self, situation: Situation, names: Sequence[str]) -> str:
        latest = situation.last.get(self.form, ())
        return latest[self.place] if self.place < len(latest) else ""

    def words(self) -> str:
        return f"what your latest `{_blank(self.form)}` named"


class NameWith(NamedTuple):
    """First other name of the last text with the action's name."""

    kind: Literal["with"]
    slot: Place

    def value(self, situation: Situation, names: Sequence[str]) -> str:
        return situation.shown_with.get(names[self.slot], "")

    def words(self) -> str:
        return f"what {LETTERS[self.slot]} was last shown with"


class NameNear(NamedTuple):
    """First other name of the last sentence with the action's name."""

    kind: Literal["near"]
    slot: Place

    def value(self, situation: Situation, names: Sequence[str]) -> str:
        return situation.near.get(names[self.slot], "")

    def words(self) -> str:
        return f"what {LETTERS[self.slot]} was last named with"


class NameAt(NamedTuple):
    """First name of the action of a form after which the action's name was last read."""

    kind: Literal["at"]
    slot: Place
    form: SlottedForm

    def value(self, situation: Situation, names: Sequence[str]) -> str:
        return situation.at.get(names[self.slot], {}).get(self.form, "")

    def words(self) -> str:
        return f"what your `{_blank(self.form)}` named after which you last read of {LETTERS[self.slot]}"


NameTerm = Annotated[
    Annotated[OwnName, Tag("name")]
    | Annotated[ActiveName, Tag("active")]
    | Annotated[LatestName, Tag("last")]
    | Annotated[NameWith, Tag("with")]
    | Annotated[NameNear, Tag("near")]
    | Annotated[NameAt, Tag("at")],
    Discriminator(_get_kind),
]
