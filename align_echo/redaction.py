"""Keep keys and passwords out of files, terminals and errors: one place knows them and removes them from text.

`conceal` registers a secret where it enters (`models/endpoint.py`). Files (`jsonl.py`, `interface.write_atomically`)
and endpoint answers (`models/client.py`) pass through `without_secrets`, which changes nothing else; errors
(`errors.py`, `client.py`) and the command line's output (`cli/output.py`) pass through `redacted`, which also removes
text that looks like a key. Keys in the environment are known without registration.

Removed are the secrets themselves, also in their URL and JSON spellings; by `redacted` also `user:password@` in any
URL, keys in a URL's query, and values after `Authorization:`, `api-key:` and the like. A secret of fewer than 8
characters, or of fewer than 12 all lowercase letters and hyphens, is too similar to a word: it is only removed after
the name of a header. Not here: secrets in other encodings.
"""

from __future__ import annotations

import os
import re
import threading
from functools import lru_cache
from html.entities import html5
from urllib.parse import unquote

KEY_VARIABLES = ("ALIGN_ECHO_API_KEY", "OPENAI_API_KEY")
"""Variables of keys; the first one set is sent."""

REDACTED = "[redacted]"

SHORTEST = 8
SHORTEST_WORD = 12

PARTS = (6, 4, 2)
FEWEST_PARTS, MOST_PARTS = 3, 6
"""Lengths and numbers of pieces searched for before the full secret: most texts contain none."""

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
"""Every match of the pattern contains one of these; searching for them is a hundred times faster."""

_known: set[str] = set()
_lock = threading.Lock()

_BROKEN_LINE = r"(?:(?:\\+r)?(?:\\+n)[ \t]{0,99}|\r?\n[ \t]{0,99})?"
"""A line break possibly between two letters of a secret, also in JSON's spelling."""


def conceal(secret: str) -> None:
    """Register a key or password to be removed from every text while the process lives."""
    with _lock:
        _known.update(_forms(secret))


def without_secrets(text: str) -> str:
    """Remove known secrets and change nothing else: for JSON, code and model output."""
    small = ""
    for secret in _in_use():
        if not small:
            small = text.lower()
        if any(part in small for part in _parts(secret)):
            text = _pattern(secret).sub(REDACTED, text)
    return text


def redacted(text: str) -> str:
    """Remove known secrets, and text in the places of keys: for errors and the terminal."""
    text = without_secrets(text)
    small = text.lower()
    return _IN_TEXT.sub(_kept, text) if any(mark in small for mark in _MARKS) else text


def _kept(match: re.Match[str]) -> str:
    return "".join(name for name in match.groups() if name) + REDACTED


def _in_use() -> list[str]:
    """List every secret in each of its forms, longest first, since one may be part of another."""
    with _lock:
        known = set(_known)
    known.update(form for name in KEY_VARIABLES for form in _forms(os.environ.get(name, "")))
    return sorted(known, key=len, reverse=True)


@lru_cache(maxsize=256)
def _forms(secret: str) -> frozenset[str]:
    """Return a secret and its percent-decoded form, if each is distinctive."""
    bare = secret.strip()
    return frozenset(form for form in (bare, unquote(bare)) if _tells_itself(form))


def _tells_itself(secret: str) -> bool:
    """Return True if the secret is unlike any word, so that no ordinary text contains it."""
    is_word = re.fullmatch("[a-z-]+", secret) is not None
    return len(secret) >= (SHORTEST_WORD if is_word else SHORTEST) and not secret.isdigit()


# ---------------------------------------------------------------- spellings of a secret


@lru_cache(maxsize=256)
def _parts(secret: str) -> tuple[str, ...]:
    """Return lowercase pieces of a secret. Every spelling of it contains one, since line breaks split few of them.

    A secret with hardly any plain letters gives "", which every text contains.
    """
    runs = re.findall(r"[a-z0-9]+", secret.lower())
    for length in PARTS:
        parts = [run[at : at + length] for run in runs for at in range(0, len(run) - length + 1, length)]
        if len(parts) >= FEWEST_PARTS:
            return tuple(parts[:: -(-len(parts) // MOST_PARTS)])
    return ("",)


@lru_cache(maxsize=256)
def _pattern(secret: str) -> re.Pattern[str]:
    """Compile a pattern for a secret in any case, in the spellings of URLs, JSON, HTML and Python, and across line
    breaks.

    A secret that is similar to a word in lowercase is only matched case-sensitively.
    """
    letters = _BROKEN_LINE.join(_spellings(letter) for letter in secret)
    return re.compile(letters, re.IGNORECASE if _tells_itself(secret.lower()) else 0)


def _spellings(letter: str) -> str:
    """Return a pattern for one character of a secret. ASCII letters and digits have a single spelling."""
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
