"""Send one request to an endpoint and read the full answer, within a deadline, a size limit, and cancellable at any
time.

Requests run on the asyncio thread of the process (`halting.run_coroutine`). A caller that stops waiting (Ctrl-C, a
halt) cancels its request and closes the connection, so nothing waits for a stalled server. The deadline covers the
whole request, from connecting to the last byte, so a slow drip does not extend it. Answers are limited to `MOST_BYTES`
after decompression, and secrets are removed before any other code sees them. Not here: retries (`retry.py`), the
request's content and the meaning of the answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any

import openai

from align_echo.errors import ModelError, UsageError, first_line
from align_echo.halting import run_coroutine
from align_echo.models.endpoint import NO_KEY, check_header_variables
from align_echo.models.retry import PassingFault, UnreachableFault
from align_echo.network import QUIET, WaitNotices, attended, find_failure, find_route
from align_echo.redaction import redacted, without_secrets

MOST_BYTES = 16 * 2**20
"""Size limit of an answer in bytes. Models write far less; a longer answer is an endpoint fault and is discarded."""

PACKED = ("gzip", "x-gzip", "deflate")


class EndpointClient:
    """HTTP client for the server at `base_url`, with this `Authorization` header (None: no key).

    `timeout` is the deadline of each request in seconds. After `quiet` seconds without an answer `notices` reports the
    wait. Raises `UsageError` for an unusable address or an interfering environment variable.
    """

    def __init__(self, base_url: str, *, authorization: str | None, timeout: float, quiet: float = QUIET) -> None:
        check_header_variables()
        headers = {"Authorization": authorization or f"Bearer {NO_KEY}", "Accept-Encoding": "identity"}
        self._base_url = base_url
        self._timeout = timeout
        self._quiet = quiet
        self._route = find_route(base_url)
        self._reached = False
        self.notices = WaitNotices(base_url)
        http = _WholeAnswers(
            timeout=timeout,
            follow_redirects=False,
            trust_env=False,
            proxy=self._route.proxy,
            verify=self._route.certificates(),
        )
        try:
            http.build_request("GET", base_url)
        except Exception as error:  # httpx raises no common base class
            raise UsageError(f"the base URL {base_url!r} cannot be asked: {first_line(error)}") from None
        self._openai = openai.AsyncOpenAI(
            api_key=NO_KEY,
            base_url="http://localhost",  # each request gives its full address
            default_headers=headers,
            max_retries=0,
            timeout=timeout,
            http_client=http,
        )

    @property
    def timeout(self) -> float:
        """Deadline of one request in seconds."""
        return self._timeout

    def get(self, url: str, *, within: float | None = None) -> str:
        """Send a GET request and return the body. Raises as `post`. `within` is a shorter deadline in seconds."""
        return self._answer(self._openai.get(url, cast_to=str), within)

    def post(self, url: str, body: Mapping[str, Any]) -> str:
        """Send a POST request and return the body.

        Raises `PassingFault` if there is no answer in time, `ModelError` for an answer with too many bytes or an
        unrequested encoding, `UsageError` for a server that cannot be reached at this address, and
        `openai.APIStatusError` for an error status.
        """
        return self._answer(self._openai.post(url, cast_to=str, body=dict(body)))

    def close(self) -> None:
        """Close all connections."""
        run_coroutine(self._openai.close(), self._timeout)

    def _answer(self, asking: Coroutine[Any, Any, str], within: float | None = None) -> str:
        seconds = min(self._timeout, within or self._timeout)
        try:
            answer = run_coroutine(attended(asking, self._quiet, partial(self._say_unanswered, seconds)), seconds)
        except TimeoutError:
            raise PassingFault(f"no whole answer within {seconds:g} s") from None
        except openai.APIStatusError:
            self._reached = True
            raise
        except openai.APIError as error:
            raise self._fault(error) from None
        self._reached = True
        return answer

    def _say_unanswered(self, deadline: float) -> None:
        self.notices.unanswered(self._quiet, deadline)

    def _fault(self, error: openai.APIError) -> Exception:
        """Return the exception for a request without a status. A server that answered before may recover."""
        cause = error.__cause__
        if isinstance(cause, ModelError):  # raised while reading the answer; older clients wrap it
            return cause
        failure = find_failure(error)
        if failure is None:
            detail = str(cause) or type(cause).__name__ if cause else "no connection"
            connection = isinstance(error, openai.APIConnectionError)
            return PassingFault(f"{error.message} ({detail})" if connection else error.message)
        reason = f"{failure.reason}{self._route.through}"
        if self._reached:
            return PassingFault(reason)
        if failure.hopeless:
            return UsageError(f"{self._base_url} cannot be reached{self._route.through}: {failure.reason}")
        return UnreachableFault(reason)


class _WholeAnswers(openai.DefaultAsyncHttpxClient):
    """The HTTP client of the `openai` package with a limit of `MOST_BYTES` per answer."""

    async def send(self, request: Any, **options: Any) -> Any:
        """Send as httpx does, then read and decompress the body."""
        response = await super().send(request, **{**options, "stream": True})
        try:
            body = await _read(response)
        finally:
            await response.aclose()
        headers = {"content-type": response.headers.get("content-type", "")}
        headers |= {name: response.headers[name] for name in ("retry-after", "location") if name in response.headers}
        # Keys are ASCII, and latin-1 decodes every byte.
        clean = redacted if response.status_code >= 400 else without_secrets
        content = clean(body.decode("latin-1")).encode("latin-1")
        return type(response)(response.status_code, headers=headers, content=content, request=request)


async def _read(response: Any) -> bytes:
    """Read and decompress the full body. Raises `ModelError` as `EndpointClient.post` documents."""
    packing = response.headers.get("content-encoding", "identity").strip().lower()
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32) if packing in PACKED else None
    if unpacking is None and packing not in ("", "identity"):
        raise ModelError(f"the endpoint packs its answers as {packing[:20]!r}, which was not asked for")
    body, sent = bytearray(), 0
    async for part in response.aiter_raw():
        sent += len(part)
        try:
            body += unpacking.decompress(part, MOST_BYTES + 1 - len(body)) if unpacking else part
        except zlib.error:
            raise ModelError(f"the endpoint's answer says that it is {packing}, and cannot be unpacked") from None
        if max(len(body), sent) > MOST_BYTES:
            raise ModelError(f"the endpoint's answer is longer than {MOST_BYTES // 2**20} MB: nothing of it is kept")
    return bytes(body)
