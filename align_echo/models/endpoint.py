"""Resolve the address and the key of a chat model: from the argument, the environment, the user's file of endpoints or
the default.

A base URL may contain `user:password@`. It is sent as HTTP basic authentication instead of a key, and is never written
or printed. Not here: sending requests (`models/client.py`).
"""

from __future__ import annotations

import base64
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, Field, JsonValue, TypeAdapter, ValidationError

from align_echo.base.plain_yaml import first_wrong
from align_echo.errors import KEY_VARIABLES, UsageError, conceal, first_line
from align_echo.models.local import POCKET
from align_echo.models.packages import ADAPTERS, PACKAGED
from align_echo.models.prices import Price
from align_echo.types import ChatModel, Frozen

SCRIPTED_MODELS = ("novice", "novice-careful", "novice-stubborn")
"""Names of the scripted novices, usable wherever an agent's model is named."""

WITHOUT_ENDPOINT = (POCKET, *PACKAGED, *ADAPTERS, *SCRIPTED_MODELS)
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


LEAST_TOKENS = 16
"""Fewest tokens that a reply may be limited to."""

Role = Literal["agent", "analyzer", "optimizer", "judge"]
"""Role of a model; the judge is a critic that writes: of --reasoning and of --refine-rounds."""

ReplyTokens = dict[Role, Annotated[int, Field(ge=LEAST_TOKENS)]]
"""Most tokens of a reply, by role."""


def _variable(name: str) -> str:
    """Check the name of the variable with a key. A key in its place is concealed, and is not quoted."""
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
        conceal(name)
        raise ValueError("names the variable that holds the key, in capitals: the key itself stands in no file")
    return name


class NamedModel(Frozen):
    """A model of a named endpoint and how it is asked, under a short name of the user's.

    `model` is its name at the endpoint, None for the short name. `max_tokens` are the most of a reply in every role;
    the others are as the options of these names.
    """

    model: str | None = None
    reasoning_effort: str = ""
    template_args: dict[str, JsonValue] = Field(default_factory=dict)
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)
    max_tokens: Annotated[int, Field(ge=LEAST_TOKENS)] | None = None


class NamedEndpoint(Frozen):
    """An endpoint in the user's file: its URL, the environment variable with its key, and what it can bear.

    `concurrency` is the maximum number of requests at once, `timeout` the seconds for one request and its answer.
    `prices` are by model, in US dollars per million tokens, `max_tokens` by role, `models` by short name.
    """

    url: str
    key: Annotated[str, AfterValidator(_variable)] | None = None
    concurrency: Annotated[int, Field(ge=1)] | None = None
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    prices: dict[str, Price] = Field(default_factory=dict)
    max_tokens: ReplyTokens = Field(default_factory=dict)
    models: dict[str, NamedModel] = Field(default_factory=dict)


@dataclass(frozen=True)
class Endpoint:
    """Where chat models are asked: a base URL, the `user:password` that it was given with ("" for none), and its entry
    in the user's file (`settings`) if it was named.
    """

    url: str
    account: str = field(default="", repr=False)
    settings: NamedEndpoint | None = field(default=None, hash=False)

    @property
    def key_variables(self) -> Sequence[str]:
        """Environment variables that the key may come from; none with a user and a password in the URL."""
        if self.account:
            return ()
        return (self.settings.key,) if self.settings is not None and self.settings.key else KEY_VARIABLES

    def authorization(self, api_key: str | None) -> str | None:
        """Return the `Authorization` header: user and password, else the key; None without either.

        The key of a named endpoint comes from its own variable alone. Raises as `resolve_key`, and `UsageError` if that
        variable is not set.
        """
        if self.settings is not None and self.settings.key and not api_key:
            key: str | None = os.environ.get(self.settings.key, "").strip()
            if not key:
                raise UsageError(f"the key of {self.url} is read from ${self.settings.key}, which is not set")
            key = _checked(key, f"the key in ${self.settings.key}")
        else:
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

    A name of the user's file (`named_endpoints`) stands for its URL. No other code reads the variable. Raises
    `UsageError` for an invalid URL or file, without repeating a password.
    """
    if isinstance(base_url, Endpoint):
        return base_url
    variable = "" if base_url else os.environ.get(URL_VARIABLE, "")
    address = (base_url or variable or DEFAULT_BASE_URL).strip()
    named = f"the base URL in ${URL_VARIABLE}" if variable else "the base URL"
    if _NAME.fullmatch(address) and (settings := named_endpoints().get(address)):
        return replace(_parse_url(settings.url, f"the URL of [{address}] in {endpoints_file()}"), settings=settings)
    return _parse_url(address, named, named_endpoints())


def _parse_url(address: str, named: str, names: Iterable[str] = ()) -> Endpoint:
    """Parse a URL, which messages call `named`; `names` could stand in its place. Raises as `read_endpoint`."""
    address = address.strip().rstrip("/")
    quoted_url = named if "@" in address else f"{named} {address!r}"
    if not address.startswith(("http://", "https://")):
        known = f", or be one of {', '.join(names)}" if names else ""
        raise UsageError(f"{quoted_url} must start with http:// or https://, such as http://localhost:8000/v1{known}")
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


FILE_VARIABLE = "ALIGN_ECHO_ENDPOINTS"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def endpoints_file() -> Path:
    """Return the user's file of endpoints: `$ALIGN_ECHO_ENDPOINTS`, else `align-echo/endpoints.toml` in the user's
    configuration folder. No file of a project is read unless the variable names it: an entry decides where keys go.
    """
    base = os.environ.get("XDG_CONFIG_HOME")
    default = (Path(base) if base else Path.home() / ".config") / "align-echo" / "endpoints.toml"
    return Path(os.environ.get(FILE_VARIABLE) or default)


def named_endpoints() -> Mapping[str, NamedEndpoint]:
    """Read the endpoints of the user's file by name; none without a file.

    Each is a table `[NAME]` with the fields of `NamedEndpoint`. Raises `UsageError` for an unreadable file.
    """
    path = endpoints_file()
    if not path.is_file() and not os.environ.get(FILE_VARIABLE):
        return {}
    try:
        return _ENDPOINTS.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        why = first_wrong(error) if isinstance(error, ValidationError) else first_line(error)
        raise UsageError(f"the file of endpoints {path} is not readable: {why}") from None


_ENDPOINTS = TypeAdapter(dict[str, NamedEndpoint])


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
