"""Send one request to an endpoint and read the full answer, within a deadline, a size limit, and cancellable at any
time.

Requests run on the asyncio thread of the process (`halting.run_coroutine`). A caller that stops waiting (Ctrl-C, a
halt) cancels its request and closes the connection, so nothing waits for a stalled server. The deadline covers the
whole request, from connecting to the last byte, so a slow drip does not extend it. Answers are limited to `MOST_BYTES`
after decompression, and secrets are removed before any other code sees them. Not here: the
request's content and the meaning of the answer.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, TypeVar

import openai

from align_echo.base.halting import on_threads, run_coroutine
from align_echo.base.network import QUIET, WaitNotices, attended, find_failure, find_route
from align_echo.errors import (
    KEY_VARIABLES,
    ContextOverflowError,
    ModelError,
    RequestRejectedError,
    UsageError,
    first_line,
    redacted,
    without_secrets,
)
from align_echo.models.endpoint import NO_KEY, check_header_variables
from align_echo.models.wordings import Refusal, meaning
from align_echo.types import Frozen

# ---------------------------------------------------------------- which requests are repeated, and when

NOWHERE = (404, 405)
"""Statuses of an address without a model's answer."""

BRIEF = 3
"""Maximum number of attempts to connect to a server that has never answered."""

Answer = TypeVar("Answer")


class RetryPolicy(Frozen):
    """Number of attempts and their pauses. Seconds double from `first_wait` to `longest_wait`, times a jitter of 0.5
    to 1.

    A server's Retry-After takes precedence, up to `longest_retry_after`.
    """

    attempts: int = 7
    first_wait: float = 1.0
    longest_wait: float = 60.0
    longest_retry_after: float = 300.0

    def pause(self, attempt: int, after: float | None) -> float:
        """Return the seconds to wait before a retry (`attempt` 1 is the first). `after` is the server's Retry-After."""
        if after is not None:
            return min(after, self.longest_retry_after)
        longest = min(self.first_wait * 2.0 ** (attempt - 1), self.longest_wait)
        return longest * random.uniform(0.5, 1.0)


class PassingFault(Exception):
    """A failure that may pass. `after` is the server's requested wait in seconds.

    `waited` is the time spent waiting for the server, in seconds: see `timed`. `lost`: the request may have been
    answered, and billed.
    """

    def __init__(self, message: str, after: float | None = None, *, lost: bool = False) -> None:
        super().__init__(message)
        self.after = after
        self.lost = lost
        self.waited = 0.0


class UnreachableFault(PassingFault):
    """No connection to a server that has never answered. Worth `BRIEF` attempts, since it may be starting."""


@contextmanager
def timed() -> Iterator[None]:
    """Time the block as one request, and store the duration in a passing fault."""
    start = time.monotonic()
    try:
        yield
    except PassingFault as fault:
        fault.waited = time.monotonic() - start
        raise


def ask(
    attempt: Callable[[], Answer],
    policy: RetryPolicy,
    wait: Callable[[float], None],
    where: str,
    patience: float = float("inf"),
    notices: WaitNotices | None = None,
) -> Answer:
    """Retry until an attempt succeeds without a `PassingFault`. `notices` reports each pause.

    No new attempt starts after `patience` seconds of waiting for the server in total (pauses between attempts do not
    count): an unanswered request may still be billed. Raises `ModelError` when the attempts or the patience are used
    up, `UsageError` for a server that was never reached.
    """
    last, number, most = PassingFault("never asked"), 0, policy.attempts
    while number < most and patience > 0:
        if number:
            seconds = policy.pause(number, last.after)
            if notices is not None:
                notices.pausing(seconds, _reason(last, seconds), f"then attempt {number + 1} of {most}")
            wait(seconds)
        number += 1
        try:
            return attempt()
        except PassingFault as fault:
            last, patience = fault, patience - fault.waited
            if isinstance(fault, UnreachableFault):
                most = min(most, BRIEF)
    if isinstance(last, UnreachableFault):
        raise UsageError(f"{where} cannot be reached in {number} attempts: {last}; start it, or correct its address")
    raise ModelError(f"{where} gave no reply in {number} attempts; the last: {last}")


def _reason(fault: PassingFault, pause: float) -> str:
    longer = fault.after is not None and fault.after > pause
    return f"{fault}, to be asked again in {fault.after:,.0f} s" if longer else str(fault)


def ask_all(calls: Sequence[Callable[[], Answer]], most: int) -> list[Answer | ModelError]:
    """Run the calls, at most `most` at a time. Return each result, or the `ModelError` it raised.

    Any other exception propagates, and calls not yet started are dropped.
    """
    return [_answer(call) for call in calls] if len(calls) < 2 else on_threads(_answer, calls, min(most, len(calls)))


def _answer(call: Callable[[], Answer]) -> Answer | ModelError:
    try:
        return call()
    except ModelError as error:
        return error


def judged(
    refusal: Refusal,
    where: str,
    after: float | None = None,
    moved: str = "elsewhere",
    keys: Sequence[str] = KEY_VARIABLES,
) -> Exception:
    """Map a refusal to an exception: retry, reject this request, or tell the user.

    `after` is the wait in seconds that the endpoint asks for, `moved` where it sends on to. `keys` are the environment
    variables that the key may come from, none for a user and a password in the base URL.
    """
    status, message, about = refusal.status, refusal.line, meaning(refusal)
    if about == "route":
        status = 404
    if about == "no credit":
        return UsageError(f"the account for {where} has no credit left: {message}; --resume goes on once it has")
    if about == "overflow":
        return ContextOverflowError(f"{where}: {message}")
    if status in (408, 409, 429) or (status >= 500 and about in (None, "busy")):
        return PassingFault(message, after)
    if status in (401, 403) and about != "listed":
        if not keys:
            return UsageError(f"{where} refuses the user and the password ({status}): check them in the base URL")
        return UsageError(f"{where} refuses the key ({status}): check {' or '.join(keys)}; it says: {message}")
    if status == 407:
        return UsageError(f"a proxy on the way to {where} asks for a user and a password (407): see $HTTP_PROXY")
    if 300 <= status < 400:
        moved = moved[:200]
        return UsageError(f"{where} sends on to {moved} ({status}): give the address that answers as the base URL")
    if status in NOWHERE:
        return UsageError(f"{where} is not there ({status}): check the model's name and the base URL; {message}")
    return RequestRejectedError(f"{where} refuses the request ({status}): {message}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Parse the seconds of a Retry-After header, a number or a date; None if absent or invalid."""
    if (milliseconds := headers.get("retry-after-ms", "").strip()).isdecimal():  # Azure
        return int(milliseconds) / 1000
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if seconds == seconds and seconds != float("inf") else None


# ---------------------------------------------------------------- one request to an endpoint

MOST_BYTES = 16 * 2**20
"""Size limit of an answer in bytes. Models write far less; a longer answer is an endpoint fault and is discarded."""

READ_HEADERS = ("retry-after", "retry-after-ms", "location")
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
            raise PassingFault(f"no whole answer within {seconds:g} s", lost=True) from None
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
            return PassingFault(f"{error.message} ({detail})" if connection else error.message, lost=True)
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
        headers |= {name: response.headers[name] for name in READ_HEADERS if name in response.headers}
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
