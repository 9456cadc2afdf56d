"""Action forms: what an environment's action format lists, and which form a line matches.

A list is a line with bars: `look | go to {room} | put OBJ in OBJ | search[{words}]`; a single form may follow on its
own line. Blanks are in braces or angle brackets, or are capitalised words explained in the format ("OBJ is a thing"). A
pair of tags (`<say>{text}</say>`) is part of the form, not a blank. A format without a list has no forms. Instead of a
list, a format may name a LaTeX-style command (a backslash, a name, a blank in braces) to mark the action in any place.
If the engine lists the actions possible now, `as_offered` uses these instead. No environment is known here: everything
is read from its action format.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from align_echo.types import AgentView

MARKED = r"\{[^{}]*\}|<(?!/)[^<>]*>(?![^<>]*</)"
CAPITALS = re.compile(r"\b[A-Z]{2,}[0-9]?\b")
FREE = re.compile(r"text|word|message|answer|query|string|value", re.IGNORECASE)
"""A blank with one of these names holds free text, not the name of an object."""

BAR = " | "
MOST_WORDS = 6
"""Longest name in an open blank, in words: longer text is a sentence."""

COMMAND = re.compile(r"(\\[A-Za-z]+)\{([^{}]*)\}")
"""A command and the blank in its braces."""

LONGEST_LINE = 300
"""In characters: longer lines have no form."""


class ActionForm(NamedTuple):
    """One form. `literals` are its fixed texts around the blanks, so there is one more literal than there are blanks.

    `closed` and `free` have one entry per blank. A closed blank ends at a punctuation sign. A free blank holds text
    written by the agent, whose case is left unchanged.
    """

    literals: tuple[str, ...]
    closed: tuple[bool, ...]
    free: tuple[bool, ...]

    @property
    def open_ended(self) -> bool:
        """Return whether the form ends with a blank, so that a name may end in any character."""
        return len(self.literals) > 1 and not self.literals[-1]


@cache
def forms_in(action_format: str) -> tuple[ActionForm, ...]:
    """List the forms of an action format."""
    blank = _blank(action_format)
    forms = [_form(piece.strip(), blank) for line in _lists(action_format) for piece in line.split(BAR)]
    return tuple(form for form in forms if re.search("[A-Za-z]", "".join(form.literals)))


def command_in(action_format: str) -> tuple[str, str] | None:
    r"""Return the marking command of a format and the blank in its braces, e.g. `\boxed` and `answer`. None without
    one.
    """
    match = None if _lists(action_format) else COMMAND.search(action_format)
    return None if match is None else (match[1], match[2])


@cache
def labels_in(action_format: str) -> tuple[str, ...]:
    """Return the labels ("Action:", "Answer:") at the start of the forms; () if any form starts without a label."""
    starts = [re.match(r"[A-Z]\w*:(?=\s)", form.literals[0]) for form in forms_in(action_format)]
    return tuple(dict.fromkeys(start[0] for start in starts if start)) if all(starts) else ()


def is_listing(line: str, action_format: str) -> bool:
    """Return whether a line only repeats the action format."""
    text = " ".join(line.split())
    listed = [" ".join(line.split()) for line in action_format.splitlines()]
    pieces = {piece.strip() for listing in _lists(action_format) for piece in " ".join(listing.split()).split(BAR)}
    repeats_line = text in listed and (BAR in text or text.endswith(":"))
    return repeats_line or (text in pieces and _blank(action_format).search(text) is not None)


def has_form(line: str, forms: tuple[ActionForm, ...]) -> bool:
    """Return whether a line matches one of the forms exactly, ignoring case."""
    return any(_values(line, form) is not None for form in forms)


def as_listed(action: str, view: AgentView) -> str:
    """Drop a sentence-ending full stop and restore the case of the form and of known names.

    Left unchanged: an action without a form, the content of a closed blank (`search[...]`), and a full stop after words
    that never appeared as a name.
    """
    forms = forms_in(view.action_format)
    if action.endswith(".") and not action.endswith(".."):
        action = _without_stop(action, forms, view)
    spellings = {_spelled(form, values, view) for form in forms if (values := _values(action, form)) is not None}
    return spellings.pop() if len(spellings) == 1 else action


def as_offered(action: str, offered: Sequence[str] | None) -> str:
    """Return the only possible action equal to this one up to case, spaces, articles and a final full stop.

    The action is returned unchanged if it is itself possible, or if no action or more than one is equal.
    """
    if not offered or action in offered:
        return action
    words = _loosely(action)
    matches = {action for action in offered if _loosely(action) == words}
    return matches.pop() if len(matches) == 1 else action


def _loosely(action: str) -> tuple[str, ...]:
    """Split an action into words without articles. Keeps articles before a capital and inside brackets."""
    text = action.rstrip(". ")
    if not re.search(r"[\[({]", text):
        text = re.sub(r"\b(?:the|an?)\s+(?=[a-z])", "", text)
    return tuple(text.casefold().split())


def _without_stop(action: str, forms: tuple[ActionForm, ...], view: AgentView) -> str:
    bare = action[:-1].rstrip()
    for form in forms:
        values = _values(bare, form)
        if values is not None and (not form.open_ended or _spellings(values[-1], view)):
            return bare
    return action


def _spelled(form: ActionForm, values: tuple[str, ...], view: AgentView) -> str:
    parts = [form.literals[0]]
    for value, closed, free, literal in zip(values, form.closed, form.free, form.literals[1:], strict=True):
        seen = set() if closed or free else _spellings(value, view)
        parts += [seen.pop() if value not in seen and len(seen) == 1 else value, literal]
    return "".join(parts)


def _spellings(name: str, view: AgentView) -> set[str]:
    """Find how a name is spelled in the texts shown to the agent, ignoring case; empty if it never appears."""
    texts = (view.goal, view.rules, view.initial_observation, *(turn.observation for turn in view.turns))
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
    return {spelling for text in texts for spelling in pattern.findall(text)}


def _lists(action_format: str) -> list[str]:
    """Return the lines with forms: those with bars, and later lines with a single form and a blank."""
    lines = action_format.splitlines()
    first = next((number for number, line in enumerate(lines) if BAR in line), len(lines))
    return [line for line in lines[first:] if BAR in line or (re.search(MARKED, line) and line.strip()[-1] not in ".:")]


@cache
def _blank(action_format: str) -> re.Pattern[str]:
    """Compile the pattern of a blank in this format. Unexplained capitals are part of the form ("press OK")."""
    prose = [line for line in action_format.splitlines() if BAR not in line]
    explained = sorted({word for line in prose for word in CAPITALS.findall(line)})
    return re.compile("|".join([MARKED, *(rf"\b{re.escape(word)}\b" for word in explained)]))


def _form(text: str, blank: re.Pattern[str]) -> ActionForm:
    literals = blank.split(text)
    closed = [bool(after) and not after[0].isspace() for after in literals[1:]]
    free = [FREE.search(name) is not None for name in blank.findall(text)]
    return ActionForm(tuple(literals), tuple(closed), tuple(free))


def _values(line: str, form: ActionForm) -> tuple[str, ...] | None:
    """Return the values in a form's blanks; None if the line does not match the form."""
    match = _pattern(form).fullmatch(line) if len(line) <= LONGEST_LINE else None
    if match is None:
        return None
    values = match.groups()
    return values if all(map(_fits, values, form.closed)) else None


def _fits(value: str, closed: bool) -> bool:
    if closed:
        return bool(value.strip())
    short = value == value.strip() and len(value.split()) <= MOST_WORDS
    return short and not re.search(r"[,;:!?\[\](){}<>|]|\.\s", value)


@cache
def _pattern(form: ActionForm) -> re.Pattern[str]:
    spaced = [r"\s+".join(map(re.escape, re.split(r"\s+", literal))) for literal in form.literals]
    return re.compile("(.+?)".join(spaced), re.IGNORECASE)
