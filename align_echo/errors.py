"""All errors raised by align-echo on purpose, and the removal of secrets from every text that is printed or written.

An error is also a standard type, so callers can catch `ValueError`, `FileNotFoundError` etc. A message is one line that
says what to do. The command line prints it and exits with status 2. An error during an episode is not raised to the
user: it becomes a `Fault` on its trajectory (see `align_echo.types`).
"""

from __future__ import annotations

import os
import pickle
import re
import threading
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from html.entities import html5
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote

# ---------------------------------------------------------------- remove secrets from texts

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


_ODD = re.compile(r"[^ -~\n\t]")


def printable(text: str) -> str:
    """Remove characters that control a terminal: control and formatting characters except line breaks and tabs.

    Other kinds of spaces become plain spaces.
    """
    if _ODD.search(text) is None:
        return text
    plain = (" " if letter.isspace() and letter not in "\n\t" else letter for letter in text)
    return "".join(letter for letter in plain if letter.isprintable() or letter in "\n\t")


# ---------------------------------------------------------------- all errors raised by align-echo on purpose

def install_line(extra: str) -> str:
    """Return the command to install an extra. The package is on no index: pip installs it from a checkout."""
    return f"pip install '.[{extra}]' in a checkout of align-echo"


class AlignEchoError(Exception):
    """Base of all errors below. No message contains a key or a password."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(redacted(argument) if isinstance(argument, str) else argument for argument in arguments))


class UsageError(AlignEchoError, ValueError):
    """An invalid argument, name or file content."""


class MissingDataError(AlignEchoError, FileNotFoundError):
    """A data folder or file named by the user is missing or incomplete."""


class MissingExtraError(AlignEchoError, ImportError):
    """An optional dependency is not installed. The message holds the exact install line and other requirements."""

    def __init__(self, feature: str, extra: str, note: str = "") -> None:
        super().__init__(f"{feature} needs an extra: {install_line(extra)}{f' ({note})' if note else ''}")


class InterfaceError(AlignEchoError, ValueError):
    """Interface code does not load, has the wrong signature, or failed in the sandbox."""


class EngineError(AlignEchoError, RuntimeError):
    """An environment's engine failed. Not the agent's fault: the episode is retried or masked, never scored 0."""


class ModelError(AlignEchoError, RuntimeError):
    """A chat model could not be reached or gave no usable reply after the retries."""


class AgentError(AlignEchoError, RuntimeError):
    """An agent's own code failed or returned no valid reply. `__cause__` is the code's exception."""


class RequestRejectedError(ModelError):
    """The endpoint rejected this request (too long, filtered): a retry would not help, other requests may work."""


class NoAnswerError(ModelError):
    """A model's answers were unusable in all attempts. Another attempt may do better."""


class ReplyWithheldError(ModelError):
    """The endpoint answered without a reply: filtered, refused, empty, or an unrequested tool call. It was paid for:
    `usage` (`align_echo.types.Usage`) is what the endpoint reports, None if nothing.
    """

    def __init__(self, message: str, usage: Any = None) -> None:
        super().__init__(message)
        self.usage = usage

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.usage)


class ContextOverflowError(RequestRejectedError):
    """The conversation and the reply exceed the model's context. The episode ends, and this is no fault."""


class TokenDriftError(AlignEchoError, AssertionError):
    """Token ids about to be used differ from the sampled ones: a bug, never to be trained on."""


class TrainingError(AlignEchoError, RuntimeError):
    """A training run cannot continue: its loss is NaN, or its settings contradict each other."""


class ReplyFormatError(AlignEchoError, ValueError):
    """A model's reply does not have the required format. The message tells the model how to correct it."""


def require(feature: str, extra: str, modules: Iterable[str], note: str = "") -> None:
    """Raise `MissingExtraError` if a module of the feature's extra is not installed."""
    if any(find_spec(module) is None for module in modules):
        raise MissingExtraError(feature, extra, note)


def did_you_mean(name: str, names: Iterable[str], *, most: int = 3, quoted: bool = False) -> str:
    """Suggest the most similar names, else those that hold it, as a question with a trailing space; "" for none."""
    names = list(names)
    near = get_close_matches(name, names, n=most, cutoff=0.5)
    if not near and len(name) > 2:
        near = [each for each in names if name.casefold() in each.casefold()][:most]
    near = [repr(each) for each in near] if quoted else near
    return f"did you mean {' or '.join(near)}? " if near else ""


def first_line(error: BaseException) -> str:
    """Return the first line of a third-party error, for use in our messages."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def unreadable(file: object, error: OSError | ValueError) -> str:
    """Say that a file is missing, or why it cannot be read."""
    if isinstance(error, FileNotFoundError):
        return f"there is no file {file}"
    return f"cannot read {file}: {getattr(error, 'strerror', None) or first_line(error)}"


def portable(error: BaseException, unknown: type[Exception] = RuntimeError) -> Exception:
    """Return the error if it can be pickled, else a picklable one with the same text.

    The replacement is a `UsageError` for our own errors, `unknown` for all others.
    """
    try:
        same = pickle.loads(pickle.dumps(error))
    except Exception:
        same = None
    if type(same) is type(error) and isinstance(same, Exception):
        return same
    if isinstance(error, AlignEchoError):
        return UsageError(str(error))
    return unknown(f"{type(error).__name__}: {first_line(error)}")
