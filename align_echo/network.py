"""The way to an HTTP server: proxies and certificates from the environment, and what a connection failed on.

Clients are made with `trust_env=False` and the values of a `Route`, so that no library reads a variable that is not
checked here, and nothing for this machine leaves it. A variable that cannot be used is a `UsageError` with its name,
before anything is sent. Left out: requests (`models/client.py`, `wrappers/searchqa/client.py`).
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

from align_echo.errors import UsageError, first_line
from align_echo.redaction import conceal

LOGGER = logging.getLogger("align_echo")
"""Takes lines for the user about work that goes on; the command line prints them on standard error."""

AUTHORITIES = CERTIFICATE_FILE, CERTIFICATE_FOLDER = "SSL_CERT_FILE", "SSL_CERT_DIR"
"""Variables that name certificates of authorities."""

KEY_LOG = "SSLKEYLOGFILE"

SOCKS = ("socks5", "socks5h")
PROXY_SCHEMES = ("http", "https", *SOCKS)

QUIET = 20.0
"""Seconds without an answer after which a client says that it waits."""

SHORTEST_WAIT = 0.1
"""Seconds below which no wait counts as longer than another."""

_PASSING_TLS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_OTHER_HOST, _OTHER_ADDRESS = 62, 64
"""OpenSSL's codes of certificates that are for another host name or address."""

_UNKNOWN_HOST = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}

Answer = TypeVar("Answer")


# ---------------------------------------------------------------- the way there


@dataclass(frozen=True)
class Route:
    """How a URL is reached: by which proxy (None: directly), and whether by TLS anywhere.

    `variable` is the environment variable that names the proxy, with its "$".
    """

    proxy: str | None = None
    variable: str = ""
    tls: bool = False

    @property
    def through(self) -> str:
        """Return words for the proxy that follow a server's name, without its password; "" without a proxy."""
        return f" through the proxy of {self.variable}" if self.proxy else ""

    def certificates(self) -> ssl.SSLContext | bool:
        """Return httpx's `verify`: the authorities of `$SSL_CERT_FILE` or `$SSL_CERT_DIR`, else True for its own.

        Without TLS it is a context that trusts nobody, which costs no time. Raise `UsageError` for a variable that
        cannot be used.
        """
        return _named_authorities() if self.tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def find_route(url: str) -> Route:
    """Return the way to a server by the environment: directly to this machine, else by `$HTTPS_PROXY` and the like.

    Raise `UsageError` for what can be no host, and with the name of a variable that holds no proxy. A proxy's password
    is concealed.
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
    """Return whether a name can be looked up at all. What is not ASCII is left to the clients."""
    try:
        return bool(not name.isascii() or name.encode("idna"))
    except UnicodeError:
        return False


def is_this_machine(host: str) -> bool:
    """Return whether a host is this machine by its name or address alone: a loopback, in any spelling."""
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
    """Return whether `$NO_PROXY` lists a host, by its name, a domain above it, its address or network; "*" lists all.

    Entries are divided by commas or spaces. What is none of these lists nothing, as with curl.
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
    """Return the environment variable that holds a proxy, in whichever case it is written."""
    found = [key for key, text in os.environ.items() if key.lower() == name and text == value]
    return f"${found[0]}" if found else "the system's settings"


def _checked_proxy(value: str, variable: str) -> str:
    """Return a proxy's URL. Raise `UsageError`, without its password, for what no client can use."""
    url = value.strip() if "://" in value else f"http://{value.strip()}"
    advice = "name one as http://HOST:PORT, or unset the variable"
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        parts, usable = SplitResult("", "", "", "", ""), False
    _conceal_account(parts.netloc.rpartition("@")[0])
    if not usable or not _is_host(parts.hostname or ""):
        shown = "" if "@" in url else f" {value!r}"
        raise UsageError(f"{variable} holds{shown or ' a text'} that is no address of a proxy: {advice}")
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
    """Return the authorities that the environment names; True where it names none."""
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
    """Raise `UsageError` if Python's TLS could not write the keys of its sessions where it is told to."""
    name = os.environ.get(KEY_LOG, "")
    file = Path(name)
    writable = os.access(file if file.exists() else file.parent, os.W_OK) and not (file.is_dir() or file.is_fifo())
    if name and not writable:
        raise UsageError(f"${KEY_LOG} names {name!r}, which cannot be written: correct it, or unset it")


# ---------------------------------------------------------------- what a connection failed on


@dataclass(frozen=True)
class Failure:
    """Why no connection came about, in words. `hopeless`: asking again cannot help; else it is worth a brief try."""

    reason: str
    hopeless: bool


def find_failure(error: BaseException) -> Failure | None:
    """Return what an error of an HTTP client says of its connection; None for an error of another kind."""
    causes = list(_causes(error))
    refused = next((str(cause) for cause in causes if type(cause).__name__ == "ProxyError"), "")
    if refused:
        asked = refused.startswith("407")
        return Failure("the proxy asks for a user and a password (407)", hopeless=True) if asked else None
    if not any(type(cause).__name__ == "ConnectError" for cause in causes):
        return None
    return next((failure for cause in causes if (failure := _failure(cause)) is not None), None)


def _failure(cause: BaseException) -> Failure | None:
    if isinstance(cause, ssl.SSLError):
        return None if isinstance(cause, _PASSING_TLS) else Failure(_tls_reason(cause), hopeless=True)
    if isinstance(cause, socket.gaierror):
        unknown = cause.errno in _UNKNOWN_HOST
        return Failure(f"the host's name {'is unknown' if unknown else 'cannot be looked up now'}", hopeless=unknown)
    if isinstance(cause, ConnectionRefusedError):
        return Failure("nothing listens there (connection refused)", hopeless=False)
    if isinstance(cause, OSError) and cause.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        return Failure(f"no way leads there ({cause.strerror})", hopeless=False)
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
    """Yield an error and what led to it, from the outermost on."""
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
    """Lines for the user about waits for one server: the first of each kind, then each ten times as long as the last.

    A line says what is waited for and how long. Thread-safe.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._longest: dict[str, float] = {}
        self._lock = threading.Lock()

    def pausing(self, seconds: float, why: str, then: str) -> None:
        """Say that nothing is asked for so many seconds, why, and what comes then."""
        self._say("pause", seconds, f"{' '.join(why.split())}; waiting {seconds:,.0f} s, {then}")

    def unanswered(self, seconds: float, deadline: float) -> None:
        """Say that a request has no whole answer after so many seconds."""
        self._say("answer", seconds, f"no whole answer after {seconds:,.0f} s; given up after {deadline:,.0f} s")

    def _say(self, kind: str, seconds: float, text: str) -> None:
        with self._lock:
            if seconds < 10 * self._longest.get(kind, 0):
                return
            self._longest[kind] = max(seconds, SHORTEST_WAIT)
        LOGGER.warning("%s: %s (Ctrl-C stops)", self._server, text)


async def attended(asking: Awaitable[Answer], after: float, notice: Callable[[], object]) -> Answer:
    """Return what is awaited, and call `notice` once if that takes longer than so many seconds."""
    waiting = asyncio.get_running_loop().call_later(after, notice)
    try:
        return await asking
    finally:
        waiting.cancel()
