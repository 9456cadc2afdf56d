"""What a message of a learned interface claims, sentence by sentence."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal[
    "do", "then", "write", "already", "unseen", "after", "elsewhere", "alone", "forms", "only", "some", "unread"
]

_QUOTED = r"`([^`]*)`"
_SENTENCES: tuple[tuple[Kind, str], ...] = (
    ("do", rf"{_QUOTED} does not work yet: you need to {_QUOTED} first\."),
    ("then", rf"Then write {_QUOTED}: {_QUOTED} is not understood\."),
    ("write", rf"{_QUOTED} is not (?:understood|possible from here); write {_QUOTED} instead\."),
    ("already", rf"{_QUOTED} would change nothing: that is already so\."),
    ("unseen", rf"Nothing called {_QUOTED} was seen so far(?:, only ([^.`]*))?\."),
    ("after", rf"{_QUOTED} was last seen after {_QUOTED}\."),
    ("elsewhere", rf"{_QUOTED} is not here; it was last seen at ([^.`]*)\."),
    ("alone", r'Words around a name are not understood: here ("[^.`]*") must stand alone\.'),
    ("forms", rf"(?:The environment knows these forms: |Write )({_QUOTED}(?:(?:, | or ){_QUOTED})*)\."),
    ("only", rf"The environment knows only these forms: ({_QUOTED}(?:, {_QUOTED})*)\."),
    ("some", rf"Some tasks understand ({_QUOTED}(?: or {_QUOTED})*), not all\."),
)


class Claim(NamedTuple):
    """One claim: the action or name that it is about, and what it says of it.

    `do`: that step first; `then`, `write`: that action instead; `already`: "" (it is so); `unseen`: the names like it
    that were seen; `after`: the action after which it was seen; `elsewhere`: the place; `alone`: "" (the names are in a
    row); `forms`, `only`, `some`: the forms in a row, all of which are known here, that are all, or that some tasks
    know; `unread`: text that was not understood.
    """

    kind: Kind
    about: str
    says: str


def read_claims(message: str) -> list[Claim]:
    """All claims of a message in order; what is left over is one claim that could not be read."""
    claims: list[tuple[int, Claim]] = []
    rest = message
    for kind, pattern in _SENTENCES:
        for match in re.finditer(pattern, message):
            groups = [group or "" for group in match.groups()]
            about, says = (groups[0], groups[1] if len(groups) > 1 and kind not in ("forms", "only", "some") else "")
            if kind == "write" or kind == "do":
                about, says = groups[0], groups[1]
            if kind == "then":
                about, says = groups[1], groups[0]
            claims.append((match.start(), Claim(kind, about, says)))
        rest = re.sub(pattern, "", rest)
    if rest.strip():
        claims.append((len(message), Claim("unread", rest.strip(), "")))
    return [claim for _, claim in sorted(claims)]
