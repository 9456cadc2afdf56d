"""Vocabulary of an environment: the forms of its actions, the names in its texts, and what is known of both.

A name is a word with a number ("door 2"), or one of a list. The kind of a name is the name without its number.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer, StringConstraints

from align_echo.interface.rules.actions import LONGEST_NAME, MOST_FORMS, build_name_pattern
from align_echo.interface.rules.answers import SAME
from align_echo.types import Frozen

NUMBERED = r"\b[a-z]+ \d+\b"
"""Pattern of a name that is a word and a number."""

ACTION = "{action}"
"""In a shape of refusal: the action's own words. `SAME` is the answer before again."""

MOST_SLOTS = 3
"""Maximum names of an action."""

LETTERS = ("X", "Y", "Z")
"""Letters that stand for an action's names."""

MOST_READ = 100_000
"""Texts whose reading is remembered, per function."""

_BETWEEN = " | "


def split_words(words: Any) -> Any:
    """Split a text of words between "|"; other values stay as they are."""
    return words.split(_BETWEEN) if isinstance(words, str) and words else words or ()


def _joined(words: Sequence[str]) -> str | list[str]:
    return [*words] if any(_BETWEEN in word for word in words) else _BETWEEN.join(words)


Words = Annotated[tuple[str, ...], BeforeValidator(split_words), PlainSerializer(_joined)]
"""Words, as data in a single text between "|"."""

SlottedForm = Annotated[str, StringConstraints(max_length=LONGEST_NAME)]


class UndoPair(NamedTuple):
    """Two forms of which the second undoes the first. `order`: its slot of each name of the first, -1 for none."""

    do: SlottedForm
    undo: SlottedForm
    order: tuple[int, ...]


class ParsedAction(NamedTuple):
    """Action as a form and names; not `exact` where a name was completed by its number."""

    form: str
    names: list[str]
    exact: bool


class Vocabulary(Frozen):
    """What an environment's texts and actions are made of.

    `names` are all names, a number in them standing for any; None: names are numbered words. `refusals` are shapes of
    answers that refuse an action and do not say why: a text, with {action} for the action's own words, or {same}.
    `kinds` of names were seen in each slot of a form, and `together` the kinds of an action's names (the first, and
    with it the rest). `movers` are further forms that change what is possible. `views` are read-only actions, {} for a
    name. With `case` or `number`, letter case, or the number of a name, must be exact.
    """

    names: Words | None = None
    forms: Annotated[tuple[SlottedForm, ...], Field(max_length=MOST_FORMS)]
    refusals: tuple[str, ...]
    kinds: dict[str, tuple[Words, ...]] = Field(default_factory=dict)
    together: dict[str, dict[str, Words]] = Field(default_factory=dict)
    pairs: tuple[UndoPair, ...] = ()
    movers: tuple[SlottedForm, ...] = ()
    views: tuple[str, ...] = ()
    case: bool = False
    number: bool = False

    @cached_property
    def pattern(self) -> str:
        """Pattern of a name."""
        return name_pattern(self.names)

    @cached_property
    def _kind_sets(self) -> dict[str, list[frozenset[str]]]:
        return {form: [frozenset(kinds) for kinds in slots] for form, slots in self.kinds.items()}

    @cached_property
    def _pairings(self) -> dict[str, frozenset[str]]:
        return {
            form: frozenset(f"{first} {rest}" for first, rests in groups.items() for rest in rests)
            for form, groups in self.together.items()
        }

    def names_in(self, text: str) -> tuple[str, ...]:
        """Return the names in a text."""
        return _names_in(self.pattern, text)

    def mention(self, sentence: str, name: str) -> str:
        """Return how a sentence speaks of a name (`mention_of`)."""
        return mention_of(self.pattern, sentence, name)

    def first_mention(self, text: str, name: str) -> str:
        """Return how the first sentence with a name speaks of it; "" without one."""
        return _first_mention(self.pattern, text, name)

    def parse(self, action: str, completions: dict[str, str]) -> ParsedAction:
        """Part an action in its form and names; `completions` are names by their kind."""
        plain, tokens, words = _tokens(self.pattern, action)
        if completions.keys().isdisjoint(words):
            return ParsedAction(plain[0], [*plain[1]], True)
        form, names, exact = "", list[str](), True
        for text, is_name in tokens:
            exact = exact and (is_name or text not in completions)
            is_named = is_name or text in completions
            form += "{" + str(len(names)) + "}" if is_named else text
            names += [text if is_name else completions[text]] if is_named else []
        return ParsedAction(form, names, exact)

    def has_kind(self, name: str, form: str, slot: int) -> bool:
        """Check that a name is of a kind seen in a slot of a form."""
        slots = self._kind_sets.get(form, ())
        return slot < len(slots) and kind_of(name) in slots[slot]

    def fits(self, form: str, names: Sequence[str]) -> bool:
        """Check that each name is of a kind seen in its slot, where kinds are known."""
        slots = self._kind_sets.get(form)
        return slots is None or all(kind_of(name) in kinds for kinds, name in zip(slots, names, strict=False))

    def goes_together(self, form: str, names: Sequence[str]) -> bool:
        """Check that names of these kinds were seen together in a form."""
        return " ".join(kind_of(name) for name in names) in self._pairings.get(form, ())

    def refusal(self, before: str, action: str, answer: str) -> str:
        """Return the shape of refusal of an answer; "" if it refuses nothing."""
        return find_refusal(self.refusals, before, action, answer)

    def merge(self, new: Vocabulary) -> Vocabulary:
        """Add what another vocabulary knows."""
        pairs = {pair[:2] for pair in self.pairs}
        together = {
            form: _merged_groups(self.together.get(form, {}), new.together.get(form, {}))
            for form in sorted({*self.together, *new.together})
        }
        return self.model_copy(
            update={
                "forms": tuple(dict.fromkeys((*new.forms, *self.forms))),
                "refusals": tuple(sorted({*self.refusals, *new.refusals})),
                "kinds": {**new.kinds, **self.kinds} | _merged_kinds(self.kinds, new.kinds),
                "together": together,
                "pairs": (*self.pairs, *(pair for pair in new.pairs if pair[:2] not in pairs)),
                "movers": tuple(sorted({*self.movers, *new.movers})),
                "case": self.case and new.case,
                "number": self.number and new.number,
            }
        )._without_memory()

    def _without_memory(self) -> Vocabulary:
        """Return a copy that remembers nothing computed from its fields."""
        return type(self).model_construct(**{name: getattr(self, name) for name in type(self).model_fields})


def _merged_kinds(old: dict[str, tuple[Words, ...]], new: dict[str, tuple[Words, ...]]) -> dict[str, tuple[Words, ...]]:
    return {
        form: tuple(tuple(sorted({*first, *second})) for first, second in zip(old[form], new[form], strict=True))
        for form in old
        if form in new
    }


def _merged_groups(old: dict[str, Words], new: dict[str, Words]) -> dict[str, Words]:
    return {first: tuple(sorted({*old.get(first, ()), *new.get(first, ())})) for first in sorted({*old, *new})}


# ---------------------------------------------------------------- reading texts


@lru_cache(maxsize=16)
def name_pattern(names: tuple[str, ...] | None) -> str:
    """Return the pattern of these names; None for numbered words."""
    return NUMBERED if names is None else build_name_pattern(names)


def distinct_names(names: Collection[str]) -> tuple[str, ...]:
    """Return names in order, each number as 0."""
    return tuple(sorted({re.sub(r"\d+", "0", name) for name in names if len(name) <= LONGEST_NAME}))


@lru_cache(maxsize=MOST_READ)
def kind_of(name: str) -> str:
    """Return a name without its number."""
    word, _, number = name.rpartition(" ")
    return word if number.isdigit() else name


def find_refusal(known: Collection[str], before: str, action: str, answer: str) -> str:
    """Return the shape of refusal of an answer, of those `known`; "" if it has none."""
    text = answer.strip()
    for shape in (text, without_action(action, text)):
        if shape in known:
            return shape
    return SAME if SAME in known and text == before.strip() else ""


def without_action(action: str, text: str) -> str:
    """Put {action} where a text repeats an action, in any letter case."""
    words = action.strip()
    return re.sub(re.escape(words), ACTION, text, flags=re.IGNORECASE) if words else text


def split_sentences(text: str) -> list[str]:
    """Split a text in sentences."""
    return text.replace("\n", ". ").split(". ")


@lru_cache(maxsize=MOST_READ)
def _names_in(pattern: str, text: str) -> tuple[str, ...]:
    return tuple(re.findall(pattern, text))


@lru_cache(maxsize=MOST_READ)
def mention_of(pattern: str, sentence: str, name: str) -> str:
    """Return how a sentence speaks of a name: three words before it and two after, other names blank, lists as one
    name."""
    marked = re.sub(pattern, lambda match: "X" if match[0] == name else "_", sentence)
    single = re.sub(r"[X_](?:,? (?:and )?(?:an? )?[X_])+", lambda match: "X" if "X" in match[0] else "_", marked)
    before, _, after = single.partition("X")
    return " ".join([*before.split()[-3:], "X", *after.strip(" .").split()[:2]])


@lru_cache(maxsize=MOST_READ)
def _first_mention(pattern: str, text: str, name: str) -> str:
    named = (sentence for sentence in split_sentences(text) if name in _names_in(pattern, sentence))
    return next((mention_of(pattern, sentence, name) for sentence in named), "")


@lru_cache(maxsize=MOST_READ)
def _tokens(
    pattern: str, text: str
) -> tuple[tuple[str, tuple[str, ...]], tuple[tuple[str, bool], ...], frozenset[str]]:
    """Part a text in names and other words: (form and names, tokens with whether each is a name, other words)."""
    tokens, names, words, form, rest = list[tuple[str, bool]](), list[str](), set[str](), "", text
    while rest:
        name, word = re.match(pattern, rest), re.match(r"\w+", rest)
        token = name[0] if name else word[0] if word else rest[0]
        form += "{" + str(len(names)) + "}" if name else token
        names += [token] if name else []
        words |= {token} if word and not name else set()
        tokens.append((token, name is not None))
        rest = rest[len(token) :]
    return (form, tuple(names)), tuple(tokens), frozenset(words)
