"""Retries: how many, how long to wait, which faults are worth one; and concurrent calls.

Not here: the content of requests.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import openai

from align_echo.errors import ContextOverflowError, ModelError, RequestRejectedError, UsageError
from align_echo.halting import on_threads
from align_echo.network import WaitNotices
from align_echo.redaction import KEY_VARIABLES
from align_echo.types import Frozen

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

    `waited` is the time spent waiting for the server, in seconds: see `timed`.
    """

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after
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


def judged(error: openai.APIStatusError, where: str) -> Exception:
    """Map an error status to an exception: retry, reject this request, or tell the user."""
    status = error.status_code
    message = said_by(error)
    if status == 429 and error.code == "insufficient_quota":
        return ModelError(f"the account for {where} has no credit left: {message}")
    if status in (408, 409, 429) or status >= 500:
        return PassingFault(message, _retry_after(error.response.headers))
    if status in (401, 403):
        return UsageError(f"{where} refuses the key ({status}): check {' or '.join(KEY_VARIABLES)}")
    if status == 407:
        return UsageError(f"a proxy on the way to {where} asks for a user and a password (407): see $HTTP_PROXY")
    if 300 <= status < 400:
        moved = error.response.headers.get("location", "elsewhere")[:200]
        return UsageError(f"{where} sends on to {moved} ({status}): give the address that answers as the base URL")
    if status == 404:
        return UsageError(f"{where} is not there (404): check the model's name and the base URL; {message}")
    if is_overflow(error):
        return ContextOverflowError(f"{where}: {message}")
    return RequestRejectedError(f"{where} refuses the request ({status}): {message}")


def said_by(error: openai.APIStatusError) -> str:
    """Return an endpoint's error message as one short line."""
    return " ".join(error.message.split())[:300]


def is_overflow(error: openai.APIStatusError) -> bool:
    """Return True if the request was rejected because the context is too long."""
    return error.code == "context_length_exceeded" or "maximum context length" in error.message


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Parse the seconds of a Retry-After header, a number or a date; None if absent or invalid."""
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
