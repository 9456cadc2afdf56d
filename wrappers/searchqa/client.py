"""Search at a retrieval server: one request and its complete reply, within a time limit and a number of bytes.

Requests run on the asyncio thread of the process (`halting.answer_of`); a caller that stops waiting cancels its
request. Redirects are not followed. Any failure is a one-line `EngineError`, never the agent's fault. There is no retry
here; a rollout repeats the complete episode.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from align_echo.base.halting import run_coroutine
from align_echo.base.network import AUTHORITIES, QUIET, Route, WaitNotices, attended, find_failure, find_route
from align_echo.errors import EngineError, MissingDataError, UsageError, conceal, first_line
from align_echo.wrappers.searchqa.corpus import CORPUS, EMBEDDED, SearchCorpus, describe_skipped, open_corpus
from align_echo.wrappers.searchqa.env import Search
from align_echo.wrappers.searchqa.protocol import PATH, read_reply, request
from align_echo.wrappers.searchqa.subjects import Document

if TYPE_CHECKING:
    import ssl

    import httpx

SERVER_VARIABLE = "SEARCHQA_URL"
"""Environment variable with the address of a server."""

DEADLINE = 30.0
"""Seconds for a request and its complete reply."""

POOLS = 16
"""Connection pools shared by the threads of a process: with one pool of 64 busy connections, choosing a connection
takes four times as long as the request."""

MOST_BYTES = 4 * 2**20
"""Largest reply in bytes. Three documents are far less; more is a fault of the server and is not read."""


def request_url(server: str) -> str:
    """Return the address for requests, from that of a server (`http://host:port`), with or without `/retrieve`.

    Raises `UsageError` for an invalid address, without repeating a password, and for a conflicting environment
    variable.
    """
    address = server.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if valid and parts.username is not None:
        conceal(parts.password or parts.username)
        raise UsageError("the address of a retrieval server holds no user and no password")
    if not valid or parts.query or parts.fragment or not address.isprintable() or " " in address:
        raise UsageError(f"{server!r} is no address of a retrieval server, such as http://127.0.0.1:8000")
    find_route(address).certificates()
    return address if parts.path.endswith(PATH) else address + PATH


def search_at(url: str, query: str, topk: int, *, deadline: float = DEADLINE, quiet: float = QUIET) -> list[Document]:
    """Return the best documents for a query from the server at `url` (of `request_url`).

    After `quiet` seconds a notice reports the wait, once. Raises `EngineError`. Raises `UsageError` for a conflicting
    environment variable, or a server that never answered and cannot be reached at this address.
    """
    import httpx

    route = find_route(url)
    client = _client(os.getpid(), threading.get_native_id() % POOLS, route, *map(os.environ.get, AUTHORITIES))
    say = functools.partial(_notices(url).unanswered, quiet, deadline)
    try:
        status, body = run_coroutine(attended(_post(client, url, request(query, topk)), quiet, say), deadline)
    except TimeoutError:
        raise EngineError(f"the retrieval server at {url} gave no whole reply within {deadline:g} s") from None
    except httpx.HTTPError as error:
        raise _fault(error, url, route) from error
    _answered.add(url)
    text = body.decode("utf-8", "replace")
    if status != 200:
        message = " ".join(text.split())[:200]
        raise EngineError(f"the retrieval server at {url} answered with status {status}: {message}")
    try:
        return read_reply(text, topk)
    except ValueError as error:
        raise EngineError(f"the retrieval server at {url} does not speak the protocol: {error}") from None


async def _post(client: httpx.AsyncClient, url: str, body: bytes) -> tuple[int, bytes]:
    """Send a request; return (status, body) of the reply. Raises `EngineError` for a compressed or too long reply."""
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    async with client.stream("POST", url, content=body, headers=headers) as response:
        if response.headers.get("content-encoding", "identity") not in ("", "identity"):
            raise EngineError(f"the retrieval server at {url} packs its replies, which was not asked for")
        read = bytearray()
        async for part in response.aiter_raw():
            read += part
            if len(read) > MOST_BYTES:
                raise EngineError(f"the reply of the retrieval server at {url} is longer than {MOST_BYTES // 2**20} MB")
        return response.status_code, bytes(read)


def _fault(error: httpx.HTTPError, url: str, route: Route) -> Exception:
    """Build the error for a search without a reply."""
    failure, subject = find_failure(error), f"the retrieval server at {url} cannot be"
    if failure is None:
        return EngineError(f"{subject} asked: {type(error).__name__}: {first_line(error)}")
    hopeless = failure.hopeless and url not in _answered
    return (UsageError if hopeless else EngineError)(f"{subject} reached{route.through}: {failure.reason}")


_answered: set[str] = set()
"""Servers that have answered this process: their later failures may be temporary."""


@functools.cache
def _notices(url: str) -> WaitNotices:
    return WaitNotices(f"the retrieval server at {url}")


@functools.cache
def _client(process: int, pool: int, route: Route, *authorities: str | None) -> httpx.AsyncClient:
    """Make a connection pool of a process, for one route and the `authorities` in the environment variables."""
    import httpx

    verify = _certificates(process, route, *authorities)
    return httpx.AsyncClient(timeout=None, follow_redirects=False, trust_env=False, proxy=route.proxy, verify=verify)


@functools.cache
def _certificates(process: int, route: Route, *authorities: str | None) -> ssl.SSLContext:
    """Load the certificates, cached: loading takes longer than many searches."""
    import httpx

    return httpx.create_ssl_context(route.certificates(), trust_env=False)


# ---------------------------------------------------------------- choose the place of the search


def searcher(folder: Path | None) -> Callable[[], Search]:
    """Return a function that opens the search of a data folder (None: of the embedded documents) on first use.

    Raises `UsageError` for an invalid `$SEARCHQA_URL`, `MissingDataError` for a folder without documents.
    """
    server = os.environ.get(SERVER_VARIABLE)
    if server:
        at_server = functools.partial(search_at, request_url(server))
        return lambda: at_server
    file = None if folder is None else folder / CORPUS
    if file is not None and not file.is_file():
        raise MissingDataError(f"{folder} has no {CORPUS}: add it, or name a retrieval server in ${SERVER_VARIABLE}")
    return lambda: functools.partial(_search_in, open_corpus(file))


def label(folder: Path | None) -> str:
    """Describe the questions in use and the place of the search. Raises as `searcher` and `open_questions`."""
    server = os.environ.get(SERVER_VARIABLE)
    source = EMBEDDED if folder is None else f"questions at {folder.absolute()}"
    if folder is not None:
        source = ", ".join([source, *describe_skipped(folder)])
    return f"{source}, searched at {request_url(server)}" if server else source


def _search_in(corpus: SearchCorpus, query: str, topk: int) -> list[Document]:
    return [document for document, _ in corpus.search(query, topk)]
