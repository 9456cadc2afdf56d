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

import json
import os
import re
import threading
from urllib.parse import quote, unquote

KEY_VARIABLES = ("ALIGN_ECHO_API_KEY", "OPENAI_API_KEY")
"""Where keys come from; the first that is set is sent."""

REDACTED = "[redacted]"

SHORTEST = 8
SHORTEST_WORD = 12

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


def conceal(secret: str) -> None:
    """From now on this key or password is taken out of every text, for as long as the process lives."""
    with _lock:
        _known.update(_forms(secret))


def without_secrets(text: str) -> str:
    """The text without the secrets that are known, and as it is but for them: for JSON, code and what models say."""
    for secret in _in_use():
        text = text.replace(secret, REDACTED)
    return text


def redacted(text: str) -> str:
    """The text without known secrets, and without what stands where keys do: for errors and the terminal."""
    text = without_secrets(text)
    small = text.lower()
    return _IN_TEXT.sub(_kept, text) if any(mark in small for mark in _MARKS) else text


def _kept(match: re.Match[str]) -> str:
    return "".join(name for name in match.groups() if name) + REDACTED


def _in_use() -> list[str]:
    """Every form of every secret, the longest first: one may be a part of another."""
    with _lock:
        known = set(_known)
    known.update(form for name in KEY_VARIABLES for form in _forms(os.environ.get(name, "")))
    return sorted(known, key=len, reverse=True)


def _forms(secret: str) -> set[str]:
    bare = secret.strip()
    plain = {bare, unquote(bare)}
    written = {*plain, *(quote(form, safe="") for form in plain), *(json.dumps(form)[1:-1] for form in plain)}
    return {form for form in written if _tells_itself(form)}


def _tells_itself(secret: str) -> bool:
    """Whether it is unlike any word, so that no honest text holds it."""
    is_word = re.fullmatch("[a-z-]+", secret) is not None
    return len(secret) >= (SHORTEST_WORD if is_word else SHORTEST) and not secret.isdigit()
