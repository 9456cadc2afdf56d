"""Limits on what a run spends at endpoints: US dollars, requests and tokens, over all its models and sessions.

A request is only sent if its highest possible cost and tokens fit beside those of the requests under way. Replies from
the cache are free. A verdict counts as one request, and what is asked again after a fault or a refusal is not counted:
an endpoint that bills these is not known here. A limited run writes each request down before it is sent
(`under_way.jsonl`): one whose answer was lost with a killed process counts with the most that it may have cost. Not
here: the budget of a generation (`align/budget.py`), and prices (`prices.py`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from align_echo.base.halting import pause
from align_echo.base.jsonl import JsonlFile
from align_echo.errors import UsageError
from align_echo.models.choosing import ModelName
from align_echo.models.drawing import THINKING_TOKENS
from align_echo.models.prices import PRICES_VARIABLE, Price, find_price
from align_echo.models.recording import Call, CallLog
from align_echo.registry import quantity
from align_echo.types import Completion, Frozen, Usage, WordChoice

CHARACTERS_PER_TOKEN = 2
"""Fewest characters of an average token: bounds the tokens of a prompt from above."""

VERDICT_REQUESTS = 3
"""Most requests for one verdict: for its first token, for a word, and with room to think."""

POLLING = 0.05
"""Seconds between looks at the requests under way."""

UNDER_WAY = "under_way.jsonl"
"""File of a limited run: the requests that were sent, each with the most that it may spend."""

LimitName = Literal["cost", "requests", "tokens"]
OPTIONS: Mapping[LimitName, str] = {
    "cost": "--max-cost", "requests": "--max-requests", "tokens": "--max-tokens-total"
}  # fmt: skip


class SpentError(UsageError):
    """The next request could exceed the limit of this name."""

    def __init__(self, message: str, limit: LimitName) -> None:
        super().__init__(message)
        self.limit: LimitName = limit


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
class Amount:
    """Dollars, requests and tokens. Requests of an unknown price cost nothing here."""

    cost: float = 0.0
    requests: int = 0
    tokens: int = 0

    def add(self, other: Amount, sign: int = 1) -> None:
        """Add an amount, or subtract it with -1."""
        self.cost += sign * other.cost
        self.requests += sign * other.requests
        self.tokens += sign * other.tokens


class _Sent(Frozen):
    """A request that was sent, and the most that it may spend."""

    role: str
    request: str
    cost: float
    requests: int
    tokens: int


class Spending:
    """What a run has spent, and what the requests under way may spend yet. Thread-safe.

    `calls` are those of earlier sessions of the run, `prices` those of its models, by name, as far as they are known.
    `under_way` is the file of the requests that are sent, None to write none.
    """

    def __init__(
        self,
        limits: SpendingLimits,
        calls: Iterable[Call] = (),
        prices: Mapping[str, Price] | None = None,
        *,
        under_way: JsonlFile | None = None,
    ) -> None:
        self.limits = limits
        self._prices = dict(prices or {})
        self._spent, self._reserved = Amount(), Amount()
        self._by_role: dict[str, Amount] = {}
        self._unpriced: set[str] = set()
        self._lock = threading.Lock()
        self._under_way = under_way
        answered: Counter[str] = Counter()
        for call in calls:
            if not call.cached:
                answered[call.request] += 1
                price = self._prices.get(call.model)
                self._add(call.role, _amount(call, call.usage, call.reply, price), priced=price is not None)
        for sent in under_way.read(_Sent) if under_way else ():
            answered[sent.request] -= 1
            if answered[sent.request] < 0:
                self._add(sent.role, Amount(sent.cost, sent.requests, sent.tokens), priced=True)

    @property
    def spent(self) -> Amount:
        """What is spent by now."""
        with self._lock:
            return replace(self._spent)

    def meter(self, name: ModelName) -> SpendingMeter | None:
        """Return the meter of a model's requests; None for a model that is asked at no endpoint."""
        return SpendingMeter(self, self._prices.get(name.text)) if is_paid(name) else None

    def reserve(self, most: Amount, sent: Sequence[_Sent] = ()) -> None:
        """Reserve the highest amount of requests about to be sent. If it does not fit, wait for the requests under way,
        which may cost less than they could. Raises `SpentError` if it does not fit beside what is spent.
        """
        while True:
            under_way = self._reserved.requests
            limit = self._try_to_reserve(most)
            if limit is None:
                break
            if not under_way:
                raise self.refusal(limit)
            pause(POLLING)
        if self._under_way is not None:
            for request in sent:
                self._under_way.append(request)

    def refusal(self, limit: LimitName) -> SpentError:
        """Return the error that says what is spent of a limit and how to go on."""
        option = OPTIONS[limit]
        return SpentError(
            f"{option} {getattr(self.limits, limit):,g} leaves no room for the next request (spent: {self._in_words}); "
            f"what was played is saved: --resume with a larger {option} goes on",
            limit,
        )

    def _try_to_reserve(self, most: Amount) -> LimitName | None:
        """Reserve an amount and return None, or return the limit that it could exceed."""
        with self._lock:
            for name in OPTIONS:
                limit = getattr(self.limits, name)
                used = getattr(self._spent, name) + getattr(self._reserved, name)
                if limit is not None and used + getattr(most, name) > limit:
                    return name
            self._reserved.add(most)
            return None

    def settle(self, role: str, most: Amount, amount: Amount, *, priced: bool) -> None:
        """Replace the reserved amount of a role's request by what it spent; `priced`: its cost is known."""
        with self._lock:
            self._reserved.add(most, -1)
            self._add(role, amount, priced=priced)

    def _add(self, role: str, amount: Amount, *, priced: bool) -> None:
        self._spent.add(amount)
        self._by_role.setdefault(role, Amount()).add(amount)
        if not priced:
            self._unpriced.add(role)

    @property
    def _in_words(self) -> str:
        spent = self._spent
        dollars = "" if self.limits.cost is None else f", ${spent.cost:,.4f}"
        return f"{spent.requests:,} requests, {spent.tokens:,} tokens{dollars}"

    @property
    def in_short(self) -> str:
        """What the roles have spent at endpoints: dollars, or tokens without prices; "" for nothing."""
        with self._lock:
            roles = {
                role: f"{amount.tokens:,} tokens" if role in self._unpriced else f"${amount.cost:,.4f}"
                for role, amount in self._by_role.items()
                if amount.requests
            }
        return ", ".join(f"{role} {words}" for role, words in roles.items())

    @property
    def in_full(self) -> str:
        """Requests, tokens and dollars by role, over all sessions; "" for nothing."""
        with self._lock:
            parts = [
                f"{role} {quantity(amount.requests, 'request')}, {amount.tokens:,} tokens"
                + (", cost not known" if role in self._unpriced else f", ${amount.cost:,.4f}")
                for role, amount in self._by_role.items()
            ]
        return f"at endpoints: {'; '.join(parts)}" if parts else ""


@dataclass(frozen=True)
class SpendingMeter:
    """Meter of a model's requests (a `TokenMeter`). `price` is None for unknown prices."""

    spending: Spending
    price: Price | None

    def before_requests(self, calls: Sequence[Call]) -> None:
        """Reserve what new requests may cost at most. Raises `SpentError`, before any is sent."""
        total, sent = Amount(), []
        for call in calls:
            most = self._most(call)
            total.add(most)
            sent.append(
                _Sent(
                    role=call.role, request=call.request, cost=most.cost, requests=most.requests, tokens=most.tokens
                )
            )
        self.spending.reserve(total, sent)

    def after_reply(self, call: Call, reply: Completion | WordChoice) -> None:
        """Count a reply: the tokens reported, else as many as its characters make at most."""
        text = reply.text if isinstance(reply, Completion) else reply.said or ""
        amount = _amount(call, reply.usage, text, self.price)
        self.spending.settle(call.role, self._most(call), amount, priced=self.price is not None)

    def after_fault(self, call: Call) -> None:
        """Count a request without a reply."""
        amount = _amount(call, call.usage, None, self.price)
        self.spending.settle(call.role, self._most(call), amount, priced=self.price is not None)

    def _most(self, call: Call) -> Amount:
        """Return the most that a call may spend; a judge that thinks is asked up to `VERDICT_REQUESTS` times."""
        times, reply = (VERDICT_REQUESTS, THINKING_TOKENS) if call.words else (1, 0)
        return _priced(times * _most_tokens(call), reply + call.max_tokens, self.price)


def _most_tokens(call: Call) -> int:
    return sum(len(message.content) // CHARACTERS_PER_TOKEN + CHARACTERS_PER_TOKEN for message in call.messages)


def _amount(call: Call, usage: Usage, reply: str | None, price: Price | None) -> Amount:
    """Compute what a call spent: of one without a reply what the endpoint reported. Token counts that were not reported
    are bounded by the characters.
    """
    if reply is None and not usage.prompt_tokens:
        return Amount(requests=1)
    reply = reply or ""
    prompt = _most_tokens(call) if usage.prompt_tokens is None else usage.prompt_tokens
    completion = len(reply) // CHARACTERS_PER_TOKEN if usage.completion_tokens is None else usage.completion_tokens
    amount = _priced(prompt, completion, price)
    return amount if usage.cost_usd is None else replace(amount, cost=usage.cost_usd)


def _priced(prompt: int, completion: int, price: Price | None) -> Amount:
    return Amount(price.cost(prompt, completion) if price else 0.0, 1, prompt + completion)


# ---------------------------------------------------------------- limits of a run's models


def price_of(name: ModelName) -> Price | None:
    """Look up the price of a model at an endpoint; None if it is unknown."""
    settings = name.endpoint.settings if name.endpoint else None
    return find_price(name.text, settings.prices if settings else None, name.base_url or "")


def is_paid(name: ModelName) -> bool:
    """Check for a model that is asked at an endpoint, and takes no token ids."""
    return name.endpoint is not None and not name.is_local


def open_spending(limits: SpendingLimits, models: Iterable[ModelName], path: Path) -> Spending:
    """Read what all sessions of a run spent, in its folder and the folders below.

    Raises `UsageError` for damaged records of a limited run; without limits they are left out.
    """
    prices = {name.text: price for name in models if is_paid(name) and (price := price_of(name))}
    calls: list[Call] = []
    for file in sorted(path.rglob("calls.jsonl")):
        with suppress(*(() if limits else (UsageError,))):
            calls += CallLog(file).read()
    return Spending(limits, calls, prices, under_way=JsonlFile(path / UNDER_WAY) if limits else None)


def check_limits(limits: SpendingLimits, models: Sequence[ModelName]) -> None:
    """Raise `UsageError` for limits without a model at an endpoint, and for a limit of cost without a price."""
    asked = [name for name in models if is_paid(name)]
    if limits and not asked:
        options = ", ".join(OPTIONS.values())
        raise UsageError(f"no model of this run is asked at an endpoint: leave {options} out")
    for name in asked:
        if limits.cost is not None and price_of(name) is None:
            raise UsageError(
                f"--max-cost needs the price of {name}, which is not known: install align-echo[prices], give it in "
                f"${PRICES_VARIABLE} or with the endpoint's name, or use --max-tokens-total"
            )
