"""Keys and passwords never reach a file, a terminal or an error: one place that knows them and takes them out of text.

`conceal` is told of a secret where it enters (`models/endpoint.py`). Files (`jsonl.py`, `interface.write_atomically`)
and the answers of endpoints (`models/client.py`) pass `without_secrets`, which changes nothing else in them; errors
(`errors.py`, `client.py`) and the command line's output (`cli/output.py`) pass `redacted`, which also takes out what
only looks like a key. The keys in the environment are known without being told of.

Taken out are the secrets themselves, also as URLs and JSON write them; by `redacted` also `user:password@` in any URL,
keys in a URL's query, and what follows `Authorization:`, `api-key:` and the like. A secret of fewer than 8 characters,
or of fewer than 12 that are all small letters and hyphens, is too like a word to be taken out of every text: such a key
is only ever taken out where it stands behind the name of a header. Left out: secrets that are encoded in any other way.
"""

from __future__ import annotations

import os
import re
import threading
from functools import lru_cache
from html.entities import html5
from urllib.parse import unquote

KEY_VARIABLES = ("ALIGN_ECHO_API_KEY", "OPENAI_API_KEY")
"""Where keys come from; the first that is set is sent."""

REDACTED = "[redacted]"

SHORTEST = 8
SHORTEST_WORD = 12

PARTS = (6, 4, 2)
FEWEST_PARTS, MOST_PARTS = 3, 6
"""Pieces of so many letters, and how many of them, are looked for before a secret is: most texts hold none."""

_VALUE = r"""[^\s"'\\,;{}\[\]]{4,}"""
_IN_TEXT = re.compile(
    rf"""(?ix)
      (?<=://)[^\s/"'<>\\]+(?=@)                                                # user:password@
    | (?<=[?&]) (?P<query>(?:api[-_]?key|key|token|access_token)=) [^\s&"'<>\\]+
    | (?P<header>\bauthorization\b (?:["'\\]+\s*,|[\s"'\\]*[:=]) [\s"'\\]* (?:(?:bearer|basic)\s+)?) {_VALUE}
    | (?P<named>\bapi-key\b ["'\\]*\s*[:=] [\s"'\\]*) {_VALUE}
    """
)
_MARKS = ("://", "authorization", "api-key", "key=", "token=")
"""One of them is in every text that the pattern finds anything in: looking for them takes a hundredth of its time."""

_known: set[str] = set()
_lock = threading.Lock()

_BROKEN_LINE = r"(?:(?:\\+r)?(?:\\+n)[ \t]{0,99}|\r?\n[ \t]{0,99})?"
"""May stand between any two letters of a secret: what wraps lines, also as JSON writes it."""


def conceal(secret: str) -> None:
    """From now on this key or password is taken out of every text, for as long as the process lives."""
    with _lock:
        _known.update(_forms(secret))


def without_secrets(text: str) -> str:
    """The text without the secrets that are known, and as it is but for them: for JSON, code and what models say."""
    small = ""
    for secret in _in_use():
        if not small:
            small = text.lower()
        if any(part in small for part in _parts(secret)):
            text = _pattern(secret).sub(REDACTED, text)
    return text


def redacted(text: str) -> str:
    """The text without known secrets, and without what stands where keys do: for errors and the terminal."""
    text = without_secrets(text)
    small = text.lower()
    return _IN_TEXT.sub(_kept, text) if any(mark in small for mark in _MARKS) else text


def _kept(match: re.Match[str]) -> str:
    return "".join(name for name in match.groups() if name) + REDACTED


def _in_use() -> list[str]:
    """Every secret in each of its forms, the longest first: one may be a part of another."""
    with _lock:
        known = set(_known)
    known.update(form for name in KEY_VARIABLES for form in _forms(os.environ.get(name, "")))
    return sorted(known, key=len, reverse=True)


@lru_cache(maxsize=256)
def _forms(secret: str) -> frozenset[str]:
    """A secret, and what it is without percent signs, so far as each tells itself."""
    bare = secret.strip()
    return frozenset(form for form in (bare, unquote(bare)) if _tells_itself(form))


def _tells_itself(secret: str) -> bool:
    """Whether it is unlike any word, so that no honest text holds it."""
    is_word = re.fullmatch("[a-z-]+", secret) is not None
    return len(secret) >= (SHORTEST_WORD if is_word else SHORTEST) and not secret.isdigit()


# ---------------------------------------------------------------- spellings of a secret


@lru_cache(maxsize=256)
def _parts(secret: str) -> tuple[str, ...]:
    """Pieces of a secret, in small letters, of which every spelling of it holds one: a line breaks few of them.

    Of a secret with hardly any plain letters it is "", which every text holds.
    """
    runs = re.findall(r"[a-z0-9]+", secret.lower())
    for length in PARTS:
        parts = [run[at : at + length] for run in runs for at in range(0, len(run) - length + 1, length)]
        if len(parts) >= FEWEST_PARTS:
            return tuple(parts[:: -(-len(parts) // MOST_PARTS)])
    return ("",)


@lru_cache(maxsize=256)
def _pattern(secret: str) -> re.Pattern[str]:
    """Matches a secret in letters of any case, as URLs, JSON, HTML and Python write it, and over several lines.

    One of which the small letters are like a word is only found as it is.
    """
    letters = _BROKEN_LINE.join(_spellings(letter) for letter in secret)
    return re.compile(letters, re.IGNORECASE if _tells_itself(secret.lower()) else 0)


def _spellings(letter: str) -> str:
    """A pattern for one letter of a secret. Letters and digits are written as they are everywhere."""
    if letter.isascii() and letter.isalnum():
        return letter
    percent = "".join(f"%(?:25)*{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))
    units = letter.encode("utf-16-be", "surrogatepass")
    escaped = "".join(rf"\\+u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    code = ord(letter)
    names = [name[:-1] for name, text in html5.items() if text == letter and name.endswith(";")]
    entities = [f"#0*{code}", f"#x0*{code:x}", *names]
    ways = [rf"\\*{re.escape(letter)}", percent, escaped, f"&(?:amp;)*(?:{'|'.join(entities)});"]
    ways += [rf"\\+x{code:02x}"] * (code < 256) + [r"\+"] * (letter == " ")
    return f"(?i:{'|'.join(ways)})"
