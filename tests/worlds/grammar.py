"""The forms of a world's actions, how an agent words them wrongly, and which forms need which others (`Truth`).

What an action changes is left out: that is in `worlds.py`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from tests.worlds.features import Features, Words

Pair = tuple[str, str]


@dataclass(frozen=True)
class Form:
    """One form of action: its part in the world, its text with {0} and {1}, and the kinds of names, as written."""

    role: str
    template: str
    kinds: tuple[str, ...]

    def write(self, names: Mapping[str, str]) -> str:
        """The action on these names, given by kind."""
        return self.template.format(*(names[kind] for kind in self.kinds))


@dataclass(frozen=True)
class Truth:
    """The rules of a world, as templates: (form, form that it needs), (form, form that undoes it), (wrong wording,
    right one). `implied` are the needs with the needs of what is needed, and what
    has to be done before it can be undone. That a form is refused where its effect is
    there already holds of every form and is left out."""

    needs: frozenset[Pair] = frozenset()
    implied: frozenset[Pair] = frozenset()
    undo: frozenset[Pair] = frozenset()
    wordings: frozenset[Pair] = frozenset()


def preparation(step: int) -> str:
    """The role of a step that is done to a holder."""
    return f"prepare{step}"


def make_forms(features: Features, words: Words, rng: random.Random) -> dict[str, Form]:
    """The forms of a world by their roles."""
    goes_to = "holder" if features.travel == "holders" else "room"
    kinds: dict[str, tuple[str, ...]] = {} if features.travel == "none" else {"go": (goes_to,)}
    kinds.update({preparation(step): ("holder",) for step in range(features.preparations)})
    if features.undo and features.preparations:
        kinds["close"] = ("holder",)
    kinds["take"] = ("thing", "holder") if features.whence else ("thing",)
    kinds["put"] = ("thing", "holder")
    if features.goal == "use":
        kinds["use"] = ("thing", "holder")
    return {role: _form(role, names, words, rng) for role, names in kinds.items()}


def _form(role: str, kinds: tuple[str, ...], words: Words, rng: random.Random) -> Form:
    between = words.new(1) if rng.random() < (0.8 if len(kinds) > 1 else 0.3) else ""
    if len(kinds) == 1:
        return Form(role, " ".join(filter(None, (words.new(), between, "{0}"))), kinds)
    ordered = kinds[::-1] if rng.random() < 0.3 else kinds
    return Form(role, " ".join(filter(None, (words.new(), "{0}", between, "{1}"))), ordered)


def misworded(form: Form, words: Words, rng: random.Random) -> str:
    """Another wording of a form, which the world does not understand: another verb, or another word between names."""
    verb, *rest = form.template.split(" ")
    if len(form.kinds) > 1 and len(rest) == 3 and rng.random() < 0.3:
        return " ".join((verb, rest[0], words.new(1), rest[2]))
    return " ".join((words.new(), *rest))


def truth_of(features: Features, forms: Mapping[str, Form], wrong: Mapping[str, str]) -> Truth:
    """What holds of the forms, derived from the roles."""
    last = preparation(features.preparations - 1)
    pairs = {(role, "go") for role, form in forms.items() if role != "go" and _is_done_there(form)}
    pairs |= {(preparation(step + 1), preparation(step)) for step in range(features.preparations - 1)}
    pairs |= {(role, last) for role in ("take", "put")}
    pairs |= {("put", "take"), ("use", "take"), ("take", "put")}
    undo = {(last, "close"), ("take", "put")}
    known = {pair for pair in pairs | {("close", last)} if set(pair) <= set(forms)}
    return Truth(
        needs=_as_templates(pairs, forms),
        implied=_as_templates(_closed(known), forms),
        undo=_as_templates(undo, forms),
        wordings=frozenset((template, forms[role].template) for role, template in wrong.items()),
    )


def _is_done_there(form: Form) -> bool:
    return "holder" in form.kinds or form.role == "take"


def _as_templates(pairs: set[Pair], forms: Mapping[str, Form]) -> frozenset[Pair]:
    """The pairs of roles that the world has, as pairs of templates."""
    return frozenset((forms[a].template, forms[b].template) for a, b in pairs if a in forms and b in forms)


def _closed(pairs: set[Pair]) -> set[Pair]:
    """The pairs with those that follow from two of them. A form may need itself: what is held is laid down before
    another thing can be fetched and laid down."""
    while more := {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs:
        pairs = pairs | more
    return pairs
