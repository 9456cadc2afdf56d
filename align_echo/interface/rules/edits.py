"""Edits of one argument, or of the wording: how a refused action becomes one that the environment understands.

An edit is data. `apply_edit` returns the edited action, or None where the edit changes nothing. `propose_edits` lists
the edits within reach of an action.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from pydantic import JsonValue

from align_echo.interface.rules.actions import ActionGrammar, ActionTree, Reading, Term, fill, shape_name, text_of
from align_echo.types import Frozen

Side = Literal["after", "before"]

EditKind = (
    Side
    | Literal["wording", "form", "article", "case", "plural", "sign", "list", "text", "number", "value", "argument"]
)

MOST_VALUES = 8
"""Maximum values of an argument that may be listed as its only ones."""

MOST_FORMS = 12
"""Maximum other forms that a wrong form is tried as."""


USUAL_SIGNS = ("#{}",)
"""Signs of ids that tools may want and no text shows."""

MOST_PLACES, NEAR = 12, 100
"""Latest places of an argument in the texts near which an id is looked for, and characters on each side."""

_APART = re.compile(r"[.!?]\s+[A-Z\"]|[\n;|)\]}]|,(?!.*\")(?<!\",)")
"""What parts a name from the id of another one: the end of a sentence or of brackets, or a comma outside JSON."""

_ID = re.compile(r"\w*\d\w*(?:[-_]\w+)*|\w+(?:[-_]\w*\d\w*)+")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class Edit(Frozen):
    """Edit of an action. `slot` is the argument, -1 for the whole action.

    `detail` holds the form of a "form" edit, whose arguments are `terms`, or the action's own in order; a value with {}
    for a "sign"; the text of a "value", and `others` those that are as good; the right name for an "argument", or ""
    where each argument has the name that is most alike; the letters of a "case": lower, upper, or as read; for "after"
    and "before" the shape of the id that stands next to the argument in the latest sentence with both.
    """

    kind: EditKind
    slot: int = -1
    detail: str = ""
    terms: tuple[Term, ...] | None = None
    others: tuple[str, ...] = ()


def apply_edit(edit: Edit, reading: Reading, grammar: ActionGrammar, texts: str = "") -> ActionTree | None:
    """Return the edited action; None where the edit changes nothing. `texts` is all that the agent has read."""
    tree = reading.tree
    if edit.kind == "wording":
        return None if reading.exact else tree
    if edit.kind == "form":
        if edit.terms is not None:
            return _reformed(edit.terms, edit.detail, tree, grammar)
        return grammar.rename(tree, edit.detail)
    if edit.kind == "argument":
        return _renamed(edit, tree, grammar)
    if edit.kind == "list" and edit.slot < 0:
        return _all_lists(tree, grammar)
    if not 0 <= edit.slot < len(tree.arguments):
        return None
    before = tree.arguments[edit.slot]
    after = _edited(edit, before, texts)
    if after is None or after == before:
        return None
    values = (*tree.arguments[: edit.slot], after, *tree.arguments[edit.slot + 1 :])
    return tree._replace(arguments=values)


def _edited(edit: Edit, value: JsonValue, texts: str) -> JsonValue:
    match edit.kind:
        case "list":
            return _as_list(value)
        case "text":
            return text_of(value[0]) if isinstance(value, list) and len(value) == 1 else _as_text(value)
        case "number":
            return _as_number(value)
        case "value":
            return None if value in edit.others else edit.detail
    if not isinstance(value, str) or not value:
        return None
    match edit.kind:
        case "article":
            bare = re.sub(r"^(?:(?:a|an|the)\s+)+", "", value, flags=re.IGNORECASE)
            return f"{edit.detail} {bare}" if edit.detail else bare
        case "case":
            cased = {"lower": value.lower(), "upper": value.upper()}
            return cased.get(edit.detail) or _as_read(value, texts)
        case "after" | "before":
            return next((each for side, each in _ids_beside(value, texts, edit.detail) if side == edit.kind), None)
        case "plural":
            return value[:-1] if value.endswith("s") else f"{value}s"
        case "sign":
            before, _, after = edit.detail.partition("{}")
            return None if value.startswith(before) and value.endswith(after) else f"{before}{value}{after}"
    return None


def _reformed(terms: Sequence[Term], form: str, tree: ActionTree, grammar: ActionGrammar) -> ActionTree | None:
    """Return the action in another form, with arguments by terms."""
    known = grammar.forms.get(form)
    values = tuple(term.of(tree) for term in terms)
    if known is None or known.slots != len(values):
        return None
    missing = any(value is None and term.slot >= 0 for value, term in zip(values, terms, strict=True))
    return None if missing else ActionTree(form, values)


def undo_edit(edit: Edit, value: JsonValue) -> JsonValue:
    """Return a value as it was before an edit: without the sign, or a list as a text. Others stay as they are."""
    if edit.kind == "list" and isinstance(value, list):
        return _as_text(value)
    if edit.kind == "sign" and isinstance(value, str):
        before, _, after = edit.detail.partition("{}")
        return value.removeprefix(before).removesuffix(after) or value
    return value


def _all_lists(tree: ActionTree, grammar: ActionGrammar) -> ActionTree | None:
    """Make lists of the arguments that are declared as such."""
    types = grammar.forms[tree.form].types
    pairs = zip(tree.arguments, types, strict=False)
    values = tuple(_as_list(value) or value if kind == "array" else value for value, kind in pairs)
    return tree._replace(arguments=values) if values != tree.arguments else None


def _as_list(value: JsonValue) -> JsonValue:
    """Return a value as a list of texts; None for what is no value."""
    if isinstance(value, list):
        return [text_of(part) for part in value]
    if value is None:
        return None
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else [text_of(value)]


def _as_text(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return ", ".join(text_of(each) for each in value)
    return None if isinstance(value, str) or value is None else text_of(value)


def _as_number(value: JsonValue) -> JsonValue:
    if not isinstance(value, str):
        return None
    if re.fullmatch(r"-?\d{1,15}", value.strip()):
        return int(value)
    return float(value) if re.fullmatch(r"-?\d{1,15}\.\d{1,9}", value.strip()) else None


def _as_read(value: str, texts: str) -> str | None:
    """Return a value in the latest other letters of the texts; None if they do not have it."""
    found = re.findall(rf"(?<!\w){re.escape(value)}(?!\w)", texts, re.IGNORECASE)
    return next((each for each in reversed(found) if each != value), None)


def _ids_beside(value: str, texts: str, shape: str = "") -> Iterator[tuple[Side, str]]:
    """Yield the words with a digit that stand next to a value, and their sides, the latest places first."""
    places = [*re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", texts, re.IGNORECASE)]
    for place in reversed(places[-MOST_PLACES:]):
        ahead, behind = texts[place.end() :][:NEAR], texts[: place.start()][-NEAR:]
        after = [each[0] for each in _ID.finditer(ahead) if not _APART.search(ahead[: each.start()])]
        before = [each[0] for each in _ID.finditer(behind) if not _APART.search(behind[each.end() :])]
        sides: list[tuple[Side, list[str]]] = [("after", after[:1]), ("before", before[-1:])]
        yield from ((side, each) for side, ids in sides for each in ids if shape in ("", shape_name(each)))


def _renamed(edit: Edit, tree: ActionTree, grammar: ActionGrammar) -> ActionTree | None:
    """Give surplus arguments the names of missing ones: one that in `detail`, else each the one most alike."""
    names = grammar.forms[tree.form].arguments
    missing = [name for name, value in zip(names, tree.arguments, strict=True) if value is None]
    if edit.detail:
        pairs = {edit.detail: tree.extra[0][1]} if len(tree.extra) == 1 and edit.detail in missing else {}
    else:
        alike = {surplus: _most_alike(surplus, missing) for surplus, _ in tree.extra}
        pairs = {alike[surplus]: value for surplus, value in tree.extra}
    if not pairs or "" in pairs or len(pairs) < len(tree.extra):
        return None
    return ActionTree(tree.form, tuple(pairs.get(name, own) for name, own in zip(names, tree.arguments, strict=True)))


def _most_alike(surplus: str, missing: Iterable[str]) -> str:
    """Return the name that shares most words with another; "" if none does, or two do."""
    shares = {name: len(_words(name) & _words(surplus)) / len(_words(name) | _words(surplus)) for name in missing}
    best = max(shares.values(), default=0)
    alike = [name for name, share in shares.items() if share == best]
    return alike[0] if best and len(alike) == 1 else ""


def _words(name: str) -> set[str]:
    """Return the words of an argument's name, without the signs of a plural."""
    return {word.lower().removesuffix("s") for word in re.findall(r"[A-Za-z][a-z]*", name)} or {name}


def propose_edits(
    reading: Reading,
    grammar: ActionGrammar,
    texts: str,
    known: Mapping[int, Sequence[JsonValue]],
    declared: Mapping[int, Sequence[str]] = MappingProxyType({}),
) -> Iterator[Edit]:
    """Yield the edits within reach of an action, small ones first.

    `known` are values of each argument that worked, `declared` those that a tool's schema names.
    """
    tree = reading.tree
    if not reading.exact:
        yield Edit(kind="wording")
    form = grammar.forms[tree.form]
    if tree.extra:
        yield Edit(kind="argument")
    if len(tree.extra) == 1:
        missing = [name for name, value in zip(form.arguments, tree.arguments, strict=False) if value is None]
        yield from (Edit(kind="argument", detail=name) for name in missing)
    if "array" in form.types:
        yield Edit(kind="list")
    for slot, value in enumerate(tree.arguments):
        values = [each for each in known.get(slot, ()) if each != value]
        yield from _value_edits(slot, value, texts, values, form.tool != "")
        yield from (Edit(kind="value", slot=slot, detail=each) for each in declared.get(slot, ()) if each != value)
    others = [name for name, other in grammar.forms.items() if name != tree.form and other.slots == form.slots]
    yield from (Edit(kind="form", detail=name) for name in others[:MOST_FORMS] if form.slots)


def _value_edits(slot: int, value: JsonValue, texts: str, known: Sequence[JsonValue], in_call: bool) -> Iterator[Edit]:
    if in_call:
        if isinstance(value, str):
            yield Edit(kind="list", slot=slot)
            if _as_number(value) is not None:
                yield Edit(kind="number", slot=slot)
        elif value is not None:
            yield Edit(kind="text", slot=slot)
            yield Edit(kind="list", slot=slot)
    if isinstance(value, str) and value:
        for article in ("", "the", "a"):
            yield Edit(kind="article", slot=slot, detail=article)
        letters = ("lower", "upper", "read") if in_call else ("lower", "read")
        yield from (Edit(kind="case", slot=slot, detail=each) for each in letters)
        yield Edit(kind="plural", slot=slot)
        usual = USUAL_SIGNS if in_call and value[-1:].isdigit() else ()
        signs = dict.fromkeys([*_signs(value, texts, known), *usual])
        yield from (Edit(kind="sign", slot=slot, detail=sign) for sign in signs)
        if not _ID.fullmatch(value):
            beside = ((side, shape_name(each)) for side, each in _ids_beside(value, texts))
            yield from (Edit(kind=side, slot=slot, detail=shape) for side, shape in dict.fromkeys(beside))
    distinct = list(dict.fromkeys(text_of(each) for each in known if isinstance(each, str)))
    if len(distinct) <= MOST_VALUES:
        yield from (Edit(kind="value", slot=slot, detail=each) for each in distinct)


def _signs(value: str, texts: str, known: Iterable[JsonValue]) -> list[str]:
    """Return the signs around a value: "#{}" if the texts have the value with #, or if all known values begin so.

    The sign of a number may have letters: "R{}" if the texts have R417, or if all known values are R and digits.
    """
    letters = r"(?:[A-Za-z]{1,6}[-_]?)?" if value[:1].isdigit() else ""
    before, after = rf"(?<!\w)[^\w\s\"'`]{{0,2}}{letters}", r"[^\w\s\"'`,.;:)\]}]{0,2}(?!\w)"
    signs = {each[0].replace(value, "{}") for each in re.finditer(before + re.escape(value) + after, texts)}
    signs |= {f"{sign}{_CLOSING[sign[-3]]}" for sign in signs if len(sign) > 2 and sign[-3] in _CLOSING}
    words = [each for each in known if isinstance(each, str)]
    firsts = {each[:1] for each in words}
    if len(words) > 1 and len(firsts) == 1 and not next(iter(firsts)).isalnum():
        signs.add(f"{next(iter(firsts))}{{}}")
    firsts = {each.rstrip("0123456789") for each in words}
    if len(words) > 1 and len(firsts) == 1 and value.isdigit() and words[0][-1:].isdigit():
        signs.add(f"{next(iter(firsts))}{{}}")
    return sorted(sign for sign in signs if sign != "{}" and sign.count("{}") == 1)


# ---------------------------------------------------------------- as the texts of rules write them


def letter(slot: int) -> str:
    """Return the letter that stands for an argument in a rule's text."""
    return "XYZUVW"[slot] if slot < 6 else f"X{slot}"


def write_term(term: Term) -> str:
    """Return a step's argument as a rule's text writes it."""
    if term.by:
        return "P"
    return letter(term.slot) if term.slot >= 0 else text_of(term.value)


def belonging_in_words(term: Term) -> str:
    """Write where a name comes from that belongs to an argument."""
    how = "where you last read of" if term.by == "seen" else "what was last named beside"
    return f" (P is {how} {letter(term.slot)})"


def edit_in_words(edit: Edit, name: str, arguments: Sequence[str]) -> str:
    """Write an edit as a sentence for the rules told up front."""
    quoted = [f'"{each}"' for each in (edit.detail, *edit.others)]
    slot = "" if edit.slot < 0 else arguments[edit.slot] if edit.slot < len(arguments) else letter(edit.slot)
    match edit.kind:
        case "wording":
            return f"Write `{name}`" + (" in just these words" if name[0].isalnum() else ", with the signs around it")
        case "form":
            own = (Term(slot=number) for number in range(edit.detail.count("{")))
            terms = tuple(own) if edit.terms is None else edit.terms
            origins = "".join(belonging_in_words(term) for term in terms if term.by)
            return f"Write `{fill(edit.detail, [*map(write_term, terms)])}` instead of `{name}`{origins}"
        case "article":
            how = f'with "{edit.detail}"' if edit.detail else "without an article"
            return f"In `{name}`, {slot} is written {how}"
        case "case":
            how = {"lower": "small letters", "upper": "capital letters"}.get(edit.detail, "the letters shown")
            return f"In `{name}`, {slot} is written in {how}"
        case "after" | "before":
            return f"In `{name}`, {slot} is the id that stands {edit.kind} its name"
        case "plural":
            return f"In `{name}`, {slot} is written in the number that the environment uses"
        case "sign":
            return f"In `{name}`, {slot} is written {edit.detail.replace('{}', '...')}"
        case "list":
            return f"In `{name}`, {slot or 'what is a list'} is written as a list of strings"
        case "text":
            return f"In `{name}`, {slot} is a text"
        case "number":
            return f"In `{name}`, {slot} is a number, not a text"
        case "value":
            if edit.others:
                return f"In `{name}`, {slot} is {' or '.join(quoted)}"
            return f"In `{name}`, {slot} may have to be {quoted[0]}"
    called = f"the argument is called {edit.detail}" if edit.detail else f"the arguments are {', '.join(arguments)}"
    return f"In `{name}`, {called}"
