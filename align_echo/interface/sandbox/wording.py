"""Describe sandbox failures in one line for the author of the code. Pure functions."""

from __future__ import annotations

from align_echo.errors import printable

_ODD_EXCEPTION = "exceptions can only be called with zero or one string argument"
_MESSAGE = 2_000
"""Maximum characters read of an exception's message."""

_SPENT = {"TimeoutError": "took too long", "MemoryError": "used too much memory"}


def one_line(text: str) -> str:
    """Return the beginning of an error's text, which interface code may have made arbitrarily long."""
    return " ".join(printable(text[:_MESSAGE]).split())[:500]


def described(summary: str, line: int | None) -> tuple[bool, str]:
    """Return True if code may continue after an error, and the error in one line.

    `summary` is "Kind: message", `line` the author's line if known.
    """
    if _ODD_EXCEPTION in summary:
        return True, "the interface made an exception of other values than one text: write `raise ValueError('...')`"
    kind, _, detail = summary.partition(": ")
    where = f"line {line}: " if line else ""
    spent = _SPENT.get(kind)
    return spent is None, f"{where}the interface {spent} ({detail})" if spent else f"{where}{summary}"
