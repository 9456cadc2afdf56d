"""Limits on what a run spends at endpoints: US dollars, requests and tokens, over all its models and sessions.

A request is only sent if its highest possible cost and tokens fit beside those of the requests under way, so no limit
is exceeded, whatever the replies cost. Replies from the cache are free. Not here: the budget of a generation
(`align/budget.py`), and prices (`prices.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from align_echo.base.halting import pause
from align_echo.errors import UsageError
from align_echo.models.prices import Price
from align_echo.models.recording import Call
from align_echo.types import Completion, Frozen, Usage, WordChoice

CHARACTERS_PER_TOKEN = 2
"""Fewest characters of an average token: bounds the tokens of a prompt from above."""


POLLING = 0.05
"""Seconds between looks at the requests under way."""

_OPTIONS = {"--max-cost": "cost", "--max-requests": "requests", "--max-tokens-total": "tokens"}


class SpentError(UsageError):
    """The next request could exceed a limit."""


class SpendingLimits(Frozen):
    """Limits of a run; None for no limit. `cost` is in US dollars."""

    cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    requests: Annotated[int, Field(ge=1)] | None = None
    tokens: Annotated[int, Field(ge=1)] | None = None

    def __bool__(self) -> bool:
        """True if anything is limited."""
        return any(limit is not None for limit in (self.cost, self.requests, self.tokens))


NO_LIMITS = SpendingLimits()


@dataclass
class _Amount:
    cost: float = 0.0
    requests: int = 0
    tokens: int = 0

    def add(self, other: _Amount, sign: int = 1) -> None:
        self.cost += sign * other.cost
        self.requests += sign * other.requests
        self.tokens += sign * other.tokens


class Spending:
    """What a run has spent, and what the requests under way may spend yet. Thread-safe.

    `calls` are those of earlier sessions of the run.
    """

    def __init__(self, limits: SpendingLimits, calls: Sequence[Call] = ()) -> None:
        self.limits = limits
        self._spent, self._reserved = _Amount(), _Amount()
        self._lock = threading.Lock()
        for call in calls:
            if not call.cached:
                self._spent.add(_amount(call, call.usage, len(call.reply or "")))

    def reserve(self, most: _Amount) -> None:
        """Reserve the highest amount of requests about to be sent. If it does not fit, wait for the requests under way,
        which may cost less than they could. Raises `SpentError` if it does not fit beside what is spent.
        """
        while True:
            under_way = self._reserved.requests
            option = self._try_to_reserve(most)
            if not option:
                return
            if not under_way:
                break
            pause(POLLING)
        limit = getattr(self.limits, _OPTIONS[option])
        raise SpentError(
            f"{option} {limit:,g} leaves no room for the next request (spent: {self._in_words}); "
            f"what was played is saved: --resume with a larger {option} goes on"
        )

    def _try_to_reserve(self, most: _Amount) -> str:
        """Reserve an amount and return "", or return the option whose limit it could exceed."""
        with self._lock:
            for option, name in _OPTIONS.items():
                limit = getattr(self.limits, name)
                used = getattr(self._spent, name) + getattr(self._reserved, name)
                if limit is not None and used + getattr(most, name) > limit:
                    return option
            self._reserved.add(most)
            return ""

    def settle(self, most: _Amount, amount: _Amount) -> None:
        """Replace the reserved amount of a request by what it spent."""
        with self._lock:
            self._reserved.add(most, -1)
            self._spent.add(amount)

    @property
    def _in_words(self) -> str:
        spent = self._spent
        dollars = "" if self.limits.cost is None else f", ${spent.cost:,.4f}"
        return f"{spent.requests:,} requests, {spent.tokens:,} tokens{dollars}"


@dataclass(frozen=True)
class SpendingMeter:
    """Meter of a model's requests (a `TokenMeter`). `price` is None for unknown prices."""

    spending: Spending
    price: Price | None

    def before_requests(self, calls: Sequence[Call]) -> None:
        """Reserve what new requests may cost at most. Raises `SpentError`, before any is sent."""
        total = _Amount()
        for call in calls:
            total.add(self._most(call))
        self.spending.reserve(total)

    def after_reply(self, call: Call, reply: Completion | WordChoice) -> None:
        """Count a reply: the tokens reported, else as many as its characters make at most."""
        text = reply.text if isinstance(reply, Completion) else reply.said or ""
        self.spending.settle(self._most(call), _amount(call, reply.usage, len(text), self.price))

    def after_fault(self, call: Call) -> None:
        """Count a request without a reply."""
        self.spending.settle(self._most(call), _Amount(requests=1))

    def _most(self, call: Call) -> _Amount:
        prompt, reply = _most_tokens(call), call.max_tokens
        return _Amount(self.price.cost(prompt, reply) if self.price else 0.0, 1, prompt + reply)


def _most_tokens(call: Call) -> int:
    return sum(len(message.content) // CHARACTERS_PER_TOKEN + CHARACTERS_PER_TOKEN for message in call.messages)


def _amount(call: Call, usage: Usage, characters: int, price: Price | None = None) -> _Amount:
    """Compute what a call spent. Token counts that were not reported are bounded by the characters."""
    prompt = _most_tokens(call) if usage.prompt_tokens is None else usage.prompt_tokens
    reply = characters // CHARACTERS_PER_TOKEN if usage.completion_tokens is None else usage.completion_tokens
    cost = usage.cost_usd if usage.cost_usd is not None else price.cost(prompt, reply) if price else 0.0
    return _Amount(cost, 1, prompt + reply)
