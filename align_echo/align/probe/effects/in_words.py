"""Edits and arguments as the texts of rules write them."""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.interface.rules.actions import Term, fill, text_of
from align_echo.interface.rules.edits import Edit


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
