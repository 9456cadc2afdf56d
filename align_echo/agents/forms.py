"""The forms of action that an environment lists in its action format, and which of them a line has.

A list is a line with bars: `look | go to {room} | put OBJ in OBJ | search[{words}]`, and a single form may follow on a
line of its own. Blanks stand in braces or angle brackets, or are words in capitals that the format explains ("OBJ is a
thing"). A pair of tags (`<say>{text}</say>`) is no blank: tags are part of the form. A format without a list has no
forms, and then nothing has one: no environment is known here, only what each one says of itself. In place of a list a
format may name a command as LaTeX writes them (a backslash, a name, a blank in braces), which marks the action
wherever it stands. Where an engine lists what is possible now, `as_offered` goes by that instead.
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
"""A blank with such a name holds what the agent writes, not the name of a thing."""

BAR = " | "
MOST_WORDS = 6
"""Longest name that an open blank takes: what is longer is a sentence."""

COMMAND = re.compile(r"(\\[A-Za-z]+)\{([^{}]*)\}")
"""A command and the blank in its braces."""

LONGEST_LINE = 300
"""In characters: what is longer has no form."""


class ActionForm(NamedTuple):
    """One form. `literals` are its own texts, between which its blanks stand: there is one more of them than of blanks.

    `closed` and `free` have one entry for each blank: a closed blank ends at a sign; a free one holds text that the
    agent writes, whose letters stay as they are.
    """

    literals: tuple[str, ...]
    closed: tuple[bool, ...]
    free: tuple[bool, ...]

    @property
    def open_ended(self) -> bool:
        """Whether its last sign is a blank, so that a name may end in anything."""
        return len(self.literals) > 1 and not self.literals[-1]


@cache
def forms_in(action_format: str) -> tuple[ActionForm, ...]:
    """The forms that an action format lists."""
    blank = _blank(action_format)
    forms = [_form(piece.strip(), blank) for line in _lists(action_format) for piece in line.split(BAR)]
    return tuple(form for form in forms if re.search("[A-Za-z]", "".join(form.literals)))


def command_in(action_format: str) -> tuple[str, str] | None:
    r"""The command that marks an action in any place, and the blank in its braces: `\boxed` and `answer`. None without
    one."""
    match = None if _lists(action_format) else COMMAND.search(action_format)
    return None if match is None else (match[1], match[2])


@cache
def labels_in(action_format: str) -> tuple[str, ...]:
    """The labels ("Action:", "Answer:") that all the forms of a format begin with; () where one begins otherwise."""
    starts = [re.match(r"[A-Z]\w*:(?=\s)", form.literals[0]) for form in forms_in(action_format)]
    return tuple(dict.fromkeys(start[0] for start in starts if start)) if all(starts) else ()


def is_listing(line: str, action_format: str) -> bool:
    """Whether a line only repeats the action format, as no action does."""
    text = " ".join(line.split())
    listed = [" ".join(line.split()) for line in action_format.splitlines()]
    pieces = {piece.strip() for listing in _lists(action_format) for piece in " ".join(listing.split()).split(BAR)}
    whole = text in listed and (BAR in text or text.endswith(":"))
    return whole or (text in pieces and _blank(action_format).search(text) is not None)


def has_form(line: str, forms: tuple[ActionForm, ...]) -> bool:
    """Whether a line, in whatever case, has one of the forms and nothing more."""
    return any(_values(line, form) is not None for form in forms)


def as_listed(action: str, view: AgentView) -> str:
    """The action without a full stop that only ends a sentence, and with the case of its form and of the names seen.

    Left as it is: an action of no form, what stands in a blank that a sign closes (`search[...]`), a full stop after
    words that were never seen as a name.
    """
    forms = forms_in(view.action_format)
    if action.endswith(".") and not action.endswith(".."):
        action = _without_stop(action, forms, view)
    spelled = {_spelled(form, values, view) for form in forms if (values := _values(action, form)) is not None}
    return spelled.pop() if len(spelled) == 1 else action


def as_offered(action: str, offered: Sequence[str] | None) -> str:
    """The one possible action that differs from this in case, spaces, articles or a full stop at its end alone; the
    action as it is where it is possible itself, or several or none are so."""
    if not offered or action in offered:
        return action
    words = _loosely(action)
    alike = {action for action in offered if _loosely(action) == words}
    return alike.pop() if len(alike) == 1 else action


def _loosely(action: str) -> tuple[str, ...]:
    """The words of an action without articles: small ones before a small letter, and none within brackets."""
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
    """How a name is written in what the agent has been told; empty if it was never seen, whatever the case."""
    texts = (view.goal, view.rules, view.initial_observation, *(turn.observation for turn in view.turns))
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
    return {spelling for text in texts for spelling in pattern.findall(text)}


def _lists(action_format: str) -> list[str]:
    """The lines that hold forms: those with bars, and after the first of them such as are one form with a blank."""
    lines = action_format.splitlines()
    first = next((number for number, line in enumerate(lines) if BAR in line), len(lines))
    return [line for line in lines[first:] if BAR in line or (re.search(MARKED, line) and line.strip()[-1] not in ".:")]


@cache
def _blank(action_format: str) -> re.Pattern[str]:
    """What is a blank in this format. Capitals that nothing explains are words of a form ("press OK")."""
    prose = [line for line in action_format.splitlines() if BAR not in line]
    explained = sorted({word for line in prose for word in CAPITALS.findall(line)})
    return re.compile("|".join([MARKED, *(rf"\b{re.escape(word)}\b" for word in explained)]))


def _form(text: str, blank: re.Pattern[str]) -> ActionForm:
    literals = blank.split(text)
    closed = [bool(after) and not after[0].isspace() for after in literals[1:]]
    free = [FREE.search(name) is not None for name in blank.findall(text)]
    return ActionForm(tuple(literals), tuple(closed), tuple(free))


def _values(line: str, form: ActionForm) -> tuple[str, ...] | None:
    """What fills the blanks of a form; None if the line does not have it."""
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
