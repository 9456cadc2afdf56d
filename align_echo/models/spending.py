"""Limits on what a run spends at endpoints: US dollars, requests and tokens, over all its models and sessions.

A request is only sent if its highest possible cost and tokens fit beside those of the requests under way. Replies from
the cache are free. A verdict counts as one request, and what is asked again after a fault or a refusal is not counted:
an endpoint that bills these is not known here. Not here: the budget of a generation (`align/budget.py`), and prices
(`prices.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from align_echo.base.halting import pause
from align_echo.errors import UsageError
from align_echo.models.choosing import ModelName
from align_echo.models.drawing import THINKING_TOKENS
from align_echo.models.prices import PRICES_VARIABLE, Price, find_price
from align_echo.models.recording import Call
from align_echo.types import Completion, Frozen, Usage, WordChoice

CHARACTERS_PER_TOKEN = 2
"""Fewest characters of an average token: bounds the tokens of a prompt from above."""


VERDICT_REQUESTS = 3
"""Most requests for one verdict: for its first token, for a word, and with room to think."""

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

    `calls` are those of earlier sessions of the run, `prices` those of its models, by name, as far as they are known.
    """

    def __init__(
        self, limits: SpendingLimits, calls: Sequence[Call] = (), prices: Mapping[str, Price] | None = None
    ) -> None:
        self.limits = limits
        self._spent, self._reserved = _Amount(), _Amount()
        self._lock = threading.Lock()
        for call in calls:
            if not call.cached:
                self._spent.add(_amount(call, call.usage, call.reply, (prices or {}).get(call.model)))

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
        self.spending.settle(self._most(call), _amount(call, reply.usage, text, self.price))

    def after_fault(self, call: Call) -> None:
        """Count a request without a reply."""
        self.spending.settle(self._most(call), _amount(call, Usage(), None, self.price))

    def _most(self, call: Call) -> _Amount:
        """Return the most that a call may spend; a judge that thinks is asked up to `VERDICT_REQUESTS` times."""
        times, reply = (VERDICT_REQUESTS, THINKING_TOKENS) if call.words else (1, 0)
        return _priced(times * _most_tokens(call), reply + call.max_tokens, self.price)


def _most_tokens(call: Call) -> int:
    return sum(len(message.content) // CHARACTERS_PER_TOKEN + CHARACTERS_PER_TOKEN for message in call.messages)


def _amount(call: Call, usage: Usage, reply: str | None, price: Price | None) -> _Amount:
    """Compute what a call spent, nothing but a request without a reply. Token counts that were not reported are bounded
    by the characters.
    """
    if reply is None:
        return _Amount(requests=1)
    prompt = _most_tokens(call) if usage.prompt_tokens is None else usage.prompt_tokens
    completion = len(reply) // CHARACTERS_PER_TOKEN if usage.completion_tokens is None else usage.completion_tokens
    amount = _priced(prompt, completion, price)
    return amount if usage.cost_usd is None else replace(amount, cost=usage.cost_usd)


def _priced(prompt: int, completion: int, price: Price | None) -> _Amount:
    return _Amount(price.cost(prompt, completion) if price else 0.0, 1, prompt + completion)


# ---------------------------------------------------------------- limits of a run's models


def price_of(name: ModelName) -> Price | None:
    """Look up the price of a model at an endpoint; None if it is unknown."""
    settings = name.endpoint.settings if name.endpoint else None
    return find_price(name.text, settings.prices if settings else None)


def check_limits(limits: SpendingLimits, models: Sequence[ModelName]) -> None:
    """Raise `UsageError` for limits without a model at an endpoint, and for a limit of cost without a price."""
    asked = [name for name in models if name.endpoint and not name.is_local]
    if limits and not asked:
        options = ", ".join(_OPTIONS)
        raise UsageError(f"no model of this run is asked at an endpoint: leave {options} out")
    for name in asked:
        if limits.cost is not None and price_of(name) is None:
            raise UsageError(
                f"--max-cost needs the price of {name}, which is not known: give it in ${PRICES_VARIABLE} or with the "
                "endpoint's name, or use --max-tokens-total"
            )
