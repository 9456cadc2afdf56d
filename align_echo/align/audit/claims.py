"""What a message of an interface claims, sentence by sentence.

The probe's own sentences are read exactly. Of any other text the commands are read (`commands.py`), and plain words for
"already", "not here", and "only these forms"; a sentence in which none of these is found claims nothing that can be
tried, and is counted as unread.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from align_echo.commands import PLACEHOLDER, commands_in, split_sentences

Kind = Literal[
    "do",
    "form",
    "then",
    "write",
    "already",
    "unseen",
    "absent",
    "after",
    "elsewhere",
    "alone",
    "forms",
    "only",
    "some",
    "unread",
]

_QUOTED = r"`([^`]{0,500})`"
_SENTENCES: tuple[tuple[Kind, str], ...] = (
    ("do", rf"{_QUOTED} does not work yet: you need to {_QUOTED} first\."),
    ("do", rf"{_QUOTED} is possible only after {_QUOTED}\."),
    ("form", rf"{_QUOTED} is not understood: the form is {_QUOTED}\."),
    ("then", rf"Then write {_QUOTED}: {_QUOTED} is not understood\."),
    ("write", rf"{_QUOTED} is not (?:understood|possible from here); write {_QUOTED} instead\."),
    ("already", rf"{_QUOTED} would change nothing: that is already so\."),
    ("unseen", rf"Nothing called {_QUOTED} was seen so far(?:, only ([^.`]{{0,2000}}))?\."),
    ("after", rf"{_QUOTED} was last seen after {_QUOTED}\."),
    ("elsewhere", rf"{_QUOTED} is not here; it was last seen at ([^.`]{{0,500}})\."),
    ("alone", r'Words around a name are not understood: here ("[^.`]{0,500}") must stand alone\.'),
    ("forms", rf"(?:The environment knows these forms: |Write )({_QUOTED}(?:(?:, | or ){_QUOTED}){{0,500}})\."),
    ("only", rf"The environment knows only these forms: ({_QUOTED}(?:, {_QUOTED}){{0,500}})\."),
    ("some", rf"Some tasks understand ({_QUOTED}(?: or {_QUOTED}){{0,500}}), not all\."),
)


class Claim(NamedTuple):
    """One claim: the action or name that it is about, and what it says of it.

    `do`: that step first; `form`: how that is written; `then`, `write`: that action instead; `already`: "" (it is so);
    `unseen`: the names like it that were seen; `after`: the action after which it was seen; `elsewhere`: the place;
    `alone`: "" (the names are in a row); `forms`, `only`, `some`: the forms in a row, all of which are known here, that
    are all, or that some tasks know; `absent`: "" (it is not here, or nowhere); `unread`: text that was not understood.
    """

    kind: Kind
    about: str
    says: str


def read_claims(message: str, action: str = "") -> list[Claim]:
    """All claims of a message to an agent that said `action`: the probe's own sentences in order, then what is left
    over, sentence by sentence."""
    claims: list[tuple[int, Claim]] = []
    rest = message
    for kind, pattern in _SENTENCES:
        for match in re.finditer(pattern, message):
            groups = [group or "" for group in match.groups()]
            about, says = (groups[0], groups[1] if len(groups) > 1 and kind not in ("forms", "only", "some") else "")
            if kind in ("write", "do", "form"):
                about, says = groups[0], groups[1]
            if kind == "then":
                about, says = groups[1], groups[0]
            claims.append((match.start(), Claim(kind, about, says)))
        rest = re.sub(pattern, "", rest)
    plain = [claim for sentence in split_sentences(rest.strip()) for claim in _plain_claims(sentence.strip(), action)]
    return [claim for _, claim in sorted(claims)] + plain


# ---------------------------------------------------------------- any other text

_ALREADY = re.compile(
    r"\b(?:already|would change nothing|changes nothing|(?:has|have) no effect|no need to|need not|unnecessary)\b",
    re.IGNORECASE,
)
_NAME = r"[`'\"“‘*]{0,4}(?P<name>\w[\w' -]{0,99}?)[`'\"”’*]{0,4}"
_NO_NAME = re.compile(
    r"\b(?:there(?: is|'s| are) (?:no|not)(?: such)?(?: an?| any| thing as)?|no such \w+(?: as)?:?"
    rf"|nothing (?:called|named)) {_NAME}(?=\s{{0,4}}(?:here|in|on|at|was|exists?|could|can)\b|[.,;!]|$)",
    re.IGNORECASE,
)
_NAME_IS_NOT = re.compile(
    rf"(?:^|[,:;] |\bthe |\ban? ){_NAME} (?:(?:is(?:n't| not)|are(?:n't| not)) (?:here|there|in sight|present|available"
    r"|(?:in|at) this \w+)|does(?:n't| not) exist|can(?:not|'t) be (?:found|seen)|was not found)\b",
    re.IGNORECASE,
)
_FORMS = re.compile(r"\b(?:forms?|commands?|actions?|verbs?)\b", re.IGNORECASE)
_ANY_QUOTE = re.compile(r"[`'\"“‘]([^`'\"”’\n]{1,200})[`'\"”’]")
_BLANK = re.compile(r"\{[^{}]*\}|<[^<>]*>|\[[^\[\]]*\]|\b[A-Z]{2,}\d?\b")


def _plain_claims(sentence: str, action: str) -> list[Claim]:
    """The claims of a sentence that is not the probe's."""
    if not re.search(r"\w", sentence):
        return []
    forms = [form for form in _ANY_QUOTE.findall(sentence) if PLACEHOLDER.search(form)]
    if forms and _FORMS.search(sentence):
        row = ", ".join(f"`{_lettered(form)}`" for form in _ANY_QUOTE.findall(sentence))
        return [Claim("only" if re.search(r"\bonly\b", sentence, re.IGNORECASE) else "forms", row, "")]
    kinds: dict[str, Kind] = {"first": "do", "instead": "write"}
    orders = [Claim(kinds[kind], action, text) for text, kind in commands_in(sentence, action) if kind in kinds]
    if orders:
        return orders
    if _ALREADY.search(sentence):
        return [Claim("already", action, "")]
    absent = _NO_NAME.search(sentence) or _NAME_IS_NOT.search(sentence)
    name = re.sub(r"^(?:the|an?) ", "", absent.group("name").strip().lower()) if absent is not None else ""
    if name and name in action.lower():
        return [Claim("absent", name, "")]
    return [Claim("unread", sentence, "")]


def _lettered(form: str) -> str:
    """A form with the letters X, Y, Z for its blanks, as the probe writes them."""
    letters = iter(("X", "Y", "Z"))
    return _BLANK.sub(lambda match: next(letters, match.group()), form)
