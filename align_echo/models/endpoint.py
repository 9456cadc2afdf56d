"""Resolve the address and the key of a chat model: from the argument, the environment or the default.

A base URL may contain `user:password@`. It is sent as HTTP basic authentication instead of a key, and is never written
or printed. Not here: sending requests (`models/client.py`).
"""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from align_echo.errors import KEY_VARIABLES, UsageError, conceal
from align_echo.models.local import POCKET
from align_echo.types import ChatModel

SCRIPTED_MODELS = ("novice", "novice-careful", "novice-stubborn")
"""Names of the scripted novices, usable wherever an agent's model is named."""

WITHOUT_ENDPOINT = (POCKET, *SCRIPTED_MODELS)
"""Names of models in the package, suggested for a name that an endpoint does not know."""

DEFAULT_BASE_URL = "https://api.openai.com/v1"
URL_VARIABLE = "OPENAI_BASE_URL"
NO_KEY = "no-key-needed"
"""Placeholder key for endpoints that need none."""

CUSTOM_HEADERS = "OPENAI_CUSTOM_HEADERS"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)

TIMEOUT_VARIABLE = "ALIGN_ECHO_TIMEOUT"
TIMEOUT = 600.0
"""Default deadline in seconds of one request and its full answer."""


@dataclass(frozen=True)
class Endpoint:
    """Where chat models are asked: a base URL, and the `user:password` that it was given with ("" for none)."""

    url: str
    account: str = field(default="", repr=False)

    def authorization(self, api_key: str | None) -> str | None:
        """Return the `Authorization` header: user and password, else the key; None without either.

        Raises as `resolve_key`.
        """
        key = resolve_key(api_key)
        if not self.account:
            return f"Bearer {key}" if key else None
        user, _, password = self.account.partition(":")
        token = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
        for secret in (password or user, token):
            conceal(secret)
        return f"Basic {token}"


def read_endpoint(base_url: str | Endpoint | None) -> Endpoint:
    """Read a base URL: the argument, else `$OPENAI_BASE_URL`, else OpenAI's. An `Endpoint` is returned unchanged.

    No other code reads the variable. Raises `UsageError` for an invalid URL, without repeating a password.
    """
    if isinstance(base_url, Endpoint):
        return base_url
    variable = "" if base_url else os.environ.get(URL_VARIABLE, "")
    address = (base_url or variable or DEFAULT_BASE_URL).strip().rstrip("/")
    named = f"the base URL in ${URL_VARIABLE}" if variable else "the base URL"
    quoted_url = named if "@" in address else f"{named} {address!r}"
    if not address.startswith(("http://", "https://")):
        raise UsageError(f"{quoted_url} must start with http:// or https://, such as http://localhost:8000/v1")
    try:
        parts = urlsplit(address)
        valid = bool(parts.hostname) and parts.port != 0 and address.isprintable() and " " not in address
    except ValueError:
        valid = False
    if not valid:
        hint = "; write / ? # and @ in a password as %2F %3F %23 and %40" if "@" in address else ""
        raise UsageError(f"{quoted_url} cannot be read as http://HOST:PORT/PATH{hint}")
    if parts.query or parts.fragment:
        raise UsageError("a base URL ends before any ? or #: give a key as ALIGN_ECHO_API_KEY")
    account, _, host = parts.netloc.rpartition("@")
    return Endpoint(parts._replace(netloc=host).geturl(), account)


def resolve_key(api_key: str | None) -> str | None:
    """Return the key to send: the argument, else the first set variable of `KEY_VARIABLES`; None without one.

    Surrounding whitespace is stripped. Raises `UsageError`, without quoting the key, if it contains a space, a control
    character or a non-ASCII character.
    """
    if api_key and api_key.strip():
        return _checked(api_key, "the key")
    for name in KEY_VARIABLES:
        if (value := os.environ.get(name, "")).strip():
            return _checked(value, f"the key in ${name}")
    return None


def resolve_timeout(timeout: float | None) -> float:
    """Return the seconds for one request and its full answer: the argument, else `$ALIGN_ECHO_TIMEOUT`, else
    `TIMEOUT`.

    Raises `UsageError` if the variable is not a number above 0.
    """
    setting = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    if timeout is not None or not setting:
        return TIMEOUT if timeout is None else timeout
    try:
        seconds = float(setting)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"${TIMEOUT_VARIABLE} must be a number of seconds above 0, not {setting!r}")
    return seconds


def check_header_variables() -> None:
    """Raise `UsageError` if a variable sent as a header by the `openai` package is not a valid header.

    Values that look like keys are concealed.
    """
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        if not _is_header(os.environ.get(name, "")):
            raise UsageError(f"${name} holds a line break or a letter that no header has: set it again, or unset it")
    for line in os.environ.get(CUSTOM_HEADERS, "").splitlines():
        header, _, value = line.partition(":")
        if _SECRET_HEADER.search(header):
            conceal(value)
        if line.strip() and not (_HEADER_NAME.fullmatch(header.strip()) and ":" in line and _is_header(value.strip())):
            raise UsageError(f"${CUSTOM_HEADERS} holds a line that is no header: write NAME: VALUE, or unset it")


def _is_header(value: str) -> bool:
    return value.isascii() and value.isprintable() and value == value.strip()


def get_base_url(model: ChatModel) -> str:
    """Return the `base_url` of a model; "" for a model without an endpoint."""
    base_url: str = getattr(model, "base_url", "")
    return base_url


def _checked(key: str, name: str) -> str:
    conceal(key)
    bare = key.strip()
    if not (bare.isascii() and bare.isprintable() and " " not in bare):
        raise UsageError(f"{name} holds a space, a line break or a letter that no key has: set it again")
    return bare
