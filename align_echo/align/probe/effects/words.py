"""Words of the rules that are learned by effects, as they are told up front."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from align_echo.interface.rules.actions import Term, text_of
from align_echo.interface.rules.edits import Edit
from align_echo.interface.rules.model import Condition


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


def exception_in_words(condition: Condition, write_form: Callable[[str, Sequence[str]], str]) -> str:
    """Write a condition in which a rule is silent; "_" stands for any argument. `write_form` writes a form with words
    in its slots."""
    blanks = ["_" if term is None else write_term(term) for term in condition.terms]
    done = f"`{write_form(condition.form, blanks)}`"
    if condition.kind == "latest":
        blank = write_form(condition.form, ["_"] * len(blanks))
        return f"{'only where' if condition.negated else 'but not where'} the latest `{blank}` was {done}"
    return f"only after {done}" if condition.negated else f"but not after {done}"


def edit_in_words(edit: Edit, name: str, arguments: Sequence[str]) -> str:
    """Write an edit as a sentence for the rules told up front."""
    quoted = [f'"{each}"' for each in (edit.detail, *edit.others)]
    slot = "" if edit.slot < 0 else arguments[edit.slot] if edit.slot < len(arguments) else letter(edit.slot)
    match edit.kind:
        case "wording":
            return f"Write `{name}`" + (" in just these words" if name[0].isalnum() else ", with the signs around it")
        case "form":
            return f"Write `{edit.detail}` instead of `{name}`"
        case "article":
            how = f'with "{edit.detail}"' if edit.detail else "without an article"
            return f"In `{name}`, {slot} is written {how}"
        case "case":
            how = "small letters" if edit.detail == "lower" else "the letters shown"
            return f"In `{name}`, {slot} is written in {how}"
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
