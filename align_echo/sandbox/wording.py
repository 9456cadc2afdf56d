"""What went wrong in the sandbox, in one line that the author of the code can act on. Pure functions."""

from __future__ import annotations

import re

_ODD = re.compile(r"[^ -~\n\t]")
_ODD_EXCEPTION = "exceptions can only be called with zero or one string argument"
_MESSAGE = 2_000
"""How many characters of what an exception says are looked at."""

_SPENT = {"TimeoutError": "took too long", "MemoryError": "used too much memory"}


def printable(text: str) -> str:
    """Return text without what steers a terminal: control and formatting characters but for line breaks and tabs.

    Spaces of other kinds are plain ones.
    """
    if _ODD.search(text) is None:
        return text
    plain = (" " if letter.isspace() and letter not in "\n\t" else letter for letter in text)
    return "".join(letter for letter in plain if letter.isprintable() or letter in "\n\t")


def one_line(text: str) -> str:
    """Return the beginning of an error's text, which interface code may have made of any length."""
    return " ".join(printable(text[:_MESSAGE]).split())[:500]


def described(summary: str, line: int | None) -> tuple[bool, str]:
    """Return whether code may go on after an error, and the error in one line. `summary` is "Kind: message", `line` the
    author's line where it is known."""
    if _ODD_EXCEPTION in summary:
        return True, "the interface made an exception of other values than one text: write `raise ValueError('...')`"
    kind, _, detail = summary.partition(": ")
    where = f"line {line}: " if line else ""
    spent = _SPENT.get(kind)
    return spent is None, f"{where}the interface {spent} ({detail})" if spent else f"{where}{summary}"
