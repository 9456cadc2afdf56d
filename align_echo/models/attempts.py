"""Tell who pays of every attempt at a request, also of those that may be billed without a reply.

A model at an endpoint asks the payer of the moment (`paid_by`) before each attempt, and reports the attempts whose
reply was lost or discarded. Not here: what an attempt costs (`spending.py`), and which are repeated (`client.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from align_echo.types import Message


@dataclass(frozen=True)
class LostAttempt:
    """A request whose reply was lost or discarded. `max_tokens` are those of all replies that it asked for together.

    `prompt` and `completion` are the tokens that the server counted, None where it said nothing.
    """

    messages: Sequence[Message]
    max_tokens: int
    prompt: int | None = None
    completion: int | None = None


class Payer(Protocol):
    """Pays for the attempts at requests."""

    def before_attempt(self, messages: Sequence[Message], max_tokens: int) -> None:
        """Raise to keep an attempt from the endpoint. `max_tokens` are those of all its replies together."""

    def after_answer(self, messages: Sequence[Message]) -> None:
        """Count an attempt that was answered."""

    def after_lost(self, attempt: LostAttempt) -> None:
        """Count an attempt that may be billed without a reply."""


_payer: ContextVar[Payer | None] = ContextVar("payer", default=None)


@contextmanager
def paid_by(payer: Payer | None) -> Iterator[None]:
    """Let a payer count the attempts of the block, also those on threads of `halting.on_threads`."""
    token = _payer.set(payer)
    try:
        yield
    finally:
        _payer.reset(token)


def check_attempt(messages: Sequence[Message], max_tokens: int) -> None:
    """Ask the payer before an attempt. Raises what the payer raises."""
    if (payer := _payer.get()) is not None:
        payer.before_attempt(messages, max_tokens)


def report_answer(messages: Sequence[Message]) -> None:
    """Tell the payer of an attempt that was answered."""
    if (payer := _payer.get()) is not None:
        payer.after_answer(messages)


def report_lost(attempt: LostAttempt) -> None:
    """Tell the payer of an attempt that may be billed without a reply."""
    if (payer := _payer.get()) is not None:
        payer.after_lost(attempt)
