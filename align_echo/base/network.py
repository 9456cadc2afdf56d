"""Connect to HTTP servers: proxies and certificates from the environment, and reasons for failed connections.

Clients are made with `trust_env=False` and the values of a `Route`, so that no library reads an unchecked variable,
and requests to this machine never leave it. An unusable variable is a `UsageError` with its name, before anything is
sent. Not here: requests (`models/client.py`, `wrappers/searchqa/client.py`).
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar
from urllib.parse import SplitResult, quote, unquote, urlsplit
from urllib.request import getproxies

from align_echo.errors import UsageError, conceal, first_line

LOGGER = logging.getLogger("align_echo")
"""Logger for notices to the user about ongoing work; the command line prints them on standard error."""

AUTHORITIES = CERTIFICATE_FILE, CERTIFICATE_FOLDER = "SSL_CERT_FILE", "SSL_CERT_DIR"
"""Variables for certificates of authorities."""

KEY_LOG = "SSLKEYLOGFILE"

SOCKS = ("socks5", "socks5h")
PROXY_SCHEMES = ("http", "https", *SOCKS)

QUIET = 20.0
"""Seconds without an answer after which a client reports the wait."""

SHORTEST_WAIT = 0.1
"""Shortest wait in seconds considered in comparisons."""

_PASSING_TLS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_OTHER_HOST, _OTHER_ADDRESS = 62, 64
"""OpenSSL's codes for certificates of another host name or address."""

_UNKNOWN_HOST = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}

Answer = TypeVar("Answer")


# ---------------------------------------------------------------- routes


@dataclass(frozen=True)
class Route:
    """How to reach a URL: the proxy (None: directly), and whether TLS is used anywhere.

    `variable` is the environment variable of the proxy, with its "$".
    """

    proxy: str | None = None
    variable: str = ""
    tls: bool = False

    @property
    def through(self) -> str:
        """Return words about the proxy to follow a server's name, without password; "" without a proxy."""
        return f" through the proxy of {self.variable}" if self.proxy else ""

    def certificates(self) -> ssl.SSLContext | bool:
        """Return httpx's `verify`: the authorities of `$SSL_CERT_FILE` or `$SSL_CERT_DIR`, else True for its own.

        Without TLS it is a context without trusted authorities, which costs no time. Raises `UsageError` for an
        unusable variable.
        """
        return _named_authorities() if self.tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def find_route(url: str) -> Route:
    """Find the route to a server: directly for this machine, else by `$HTTPS_PROXY` and similar variables.

    Raises `UsageError` for an impossible host name, and for a variable with an invalid proxy. A proxy's password is
    concealed.
    """
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    if not _is_host(host):
        raise UsageError(f"{host!r} can be no host's name")
    if is_this_machine(host):
        return Route(tls=secure)
    known = getproxies()
    scheme = parts.scheme if known.get(parts.scheme) else "all"
    if not known.get(scheme) or _is_exempt(host, parts.port or (443 if secure else 80), known.get("no", "")):
        return Route(tls=secure)
    variable = _variable(f"{scheme}_proxy", known[scheme])
    proxy = _checked_proxy(known[scheme], variable)
    return Route(proxy, variable, secure or proxy.startswith("https:"))


def _is_host(name: str) -> bool:
    """Return True if a name can be looked up. Non-ASCII names are left to the clients."""
    try:
        return bool(not name.isascii() or name.encode("idna"))
    except UnicodeError:
        return False


def is_this_machine(host: str) -> bool:
    """Return True for a loopback host name or address, in any spelling, without a look-up."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(name))  # 127.1, 0x7f000001
        except (OSError, ValueError):
            return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


def _is_exempt(host: str, port: int, no_proxy: str) -> bool:
    """Return True if `$NO_PROXY` lists a host by name, domain, address or network; "*" lists all.

    Entries are separated by commas or spaces. Other entries match nothing, as in curl.
    """
    entries = (entry.rpartition("://")[2] for entry in re.split(r"[\s,]+", no_proxy.lower()) if entry)
    return any(_lists(entry, host.rstrip("."), port) for entry in entries)


def _lists(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    name, _, listed_port = entry.rpartition(":") if re.fullmatch(r".*[^:]:\d+", entry) else (entry, "", "")
    domain = name.strip("[]").lstrip("*").strip(".")
    return listed_port in ("", str(port)) and bool(domain) and (host == domain or host.endswith(f".{domain}"))


def _variable(name: str, value: str) -> str:
    """Return the environment variable of a proxy, in its actual letter case."""
    matches = [key for key, text in os.environ.items() if key.lower() == name and text == value]
    return f"${matches[0]}" if matches else "the system's settings"


def _checked_proxy(value: str, variable: str) -> str:
    """Validate a proxy's URL. Raises `UsageError`, without its password, if no client can use it."""
    url = value.strip() if "://" in value else f"http://{value.strip()}"
    advice = "name one as http://HOST:PORT, or unset the variable"
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        parts, usable = SplitResult("", "", "", "", ""), False
    _conceal_account(parts.netloc.rpartition("@")[0])
    if not usable or not _is_host(parts.hostname or ""):
        quoted_value = "" if "@" in url else f" {value!r}"
        raise UsageError(f"{variable} holds{quoted_value or ' a text'} that is no address of a proxy: {advice}")
    if parts.scheme not in PROXY_SCHEMES:
        raise UsageError(f"{variable} names a proxy of the kind {parts.scheme!r}, which is unknown: {advice}")
    if parts.scheme in SOCKS and find_spec("socksio") is None:
        raise UsageError(f"{variable} names a SOCKS proxy, which needs `pip install socksio`: do so, or {advice}")
    return url


def _conceal_account(account: str) -> None:
    user, _, password = account.partition(":")
    for secret in (password or user, quote(unquote(password or user))):
        conceal(secret)


def _named_authorities() -> ssl.SSLContext | bool:
    """Load the authorities named by the environment; True if it names none."""
    file, folder = os.environ.get(CERTIFICATE_FILE, ""), os.environ.get(CERTIFICATE_FOLDER, "")
    _check_key_log()
    if not file and not folder:
        return True
    if file and not Path(file).is_file():
        raise UsageError(f"${CERTIFICATE_FILE} names {file!r}, which is no file: name one of certificates, or unset it")
    if not file and not any(Path(part).is_dir() for part in folder.split(os.pathsep)):
        raise UsageError(f"${CERTIFICATE_FOLDER} names {folder!r}, which is no folder: correct it, or unset it")
    try:
        return ssl.create_default_context(cafile=file or None, capath=None if file else folder)
    except (OSError, ValueError) as error:
        name = CERTIFICATE_FILE if file else CERTIFICATE_FOLDER
        why = f"${name} names {file or folder!r}, which cannot be read as certificates"
        raise UsageError(f"{why} ({first_line(error)}): correct it, or unset it") from None


def _check_key_log() -> None:
    """Raise `UsageError` if Python's TLS could not write its session keys to the configured file."""
    name = os.environ.get(KEY_LOG, "")
    file = Path(name)
    writable = os.access(file if file.exists() else file.parent, os.W_OK) and not (file.is_dir() or file.is_fifo())
    if name and not writable:
        raise UsageError(f"${KEY_LOG} names {name!r}, which cannot be written: correct it, or unset it")


# ---------------------------------------------------------------- connection failures


@dataclass(frozen=True)
class ConnectionFailure:
    """Reason for a failed connection, in words. `hopeless`: retrying cannot help; otherwise a brief retry is
    worthwhile.
    """

    reason: str
    hopeless: bool


def find_failure(error: BaseException) -> ConnectionFailure | None:
    """Extract the connection failure from an HTTP client's error; None for other errors."""
    causes = list(_causes(error))
    refused = next((str(cause) for cause in causes if type(cause).__name__ == "ProxyError"), "")
    if refused:
        asked = refused.startswith("407")
        return ConnectionFailure("the proxy asks for a user and a password (407)", hopeless=True) if asked else None
    if not any(type(cause).__name__ == "ConnectError" for cause in causes):
        return None
    return next((failure for cause in causes if (failure := _failure(cause)) is not None), None)


def _failure(cause: BaseException) -> ConnectionFailure | None:
    if isinstance(cause, ssl.SSLError):
        return None if isinstance(cause, _PASSING_TLS) else ConnectionFailure(_tls_reason(cause), hopeless=True)
    if isinstance(cause, socket.gaierror):
        unknown = cause.errno in _UNKNOWN_HOST
        return ConnectionFailure(
            f"the host's name {'is unknown' if unknown else 'cannot be looked up now'}", hopeless=unknown
        )
    if isinstance(cause, ConnectionRefusedError):
        return ConnectionFailure("nothing listens there (connection refused)", hopeless=False)
    if isinstance(cause, OSError) and cause.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        return ConnectionFailure(f"no way leads there ({cause.strerror})", hopeless=False)
    return None


def _tls_reason(error: ssl.SSLError) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        without = error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL")
        hint = ": it seems to answer without TLS, so that its address begins with http://" if without else ""
        return f"no TLS comes about ({error.reason or first_line(error)}){hint}"
    other_name = error.verify_code in (_OTHER_HOST, _OTHER_ADDRESS)
    advice = f"; to trust its authority, let ${CERTIFICATE_FILE} name a file with the authority's certificate"
    return f"its certificate is not trusted ({error.verify_message}){'' if other_name else advice}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, from the outermost on."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        cause = waiting.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [*getattr(cause, "exceptions", ()), cause.__cause__ or cause.__context__]


# ---------------------------------------------------------------- waits


class WaitNotices:
    """Notices to the user about waits for one server: the first of each kind, then each ten times longer than the
    last.

    A notice says what is awaited and for how long. Thread-safe.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._longest: dict[str, float] = {}
        self._lock = threading.Lock()

    def pausing(self, seconds: float, why: str, then: str) -> None:
        """Report a pause, its reason, and the next step."""
        self._say("pause", seconds, f"{' '.join(why.split())}; waiting {seconds:,.0f} s, {then}")

    def unanswered(self, seconds: float, deadline: float) -> None:
        """Report a request without a complete answer after these seconds."""
        self._say("answer", seconds, f"no whole answer after {seconds:,.0f} s; given up after {deadline:,.0f} s")

    def _say(self, kind: str, seconds: float, text: str) -> None:
        with self._lock:
            if seconds < 10 * self._longest.get(kind, 0):
                return
            self._longest[kind] = max(seconds, SHORTEST_WAIT)
        LOGGER.warning("%s: %s (Ctrl-C stops)", self._server, text)


async def attended(asking: Awaitable[Answer], after: float, notice: Callable[[], object]) -> Answer:
    """Await a result, and call `notice` once if it takes longer than `after` seconds."""
    waiting = asyncio.get_running_loop().call_later(after, notice)
    try:
        return await asking
    finally:
        waiting.cancel()
