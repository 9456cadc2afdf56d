"""Limits on what a run spends at endpoints: US dollars, requests and tokens, over all its models and sessions.

A request is only sent if its highest possible cost and tokens fit beside those of the requests under way. Replies from
the cache are free. A verdict may take several requests; room for a judge that thinks is reserved once it does. A
refusal counts as none: an endpoint that bills these is not known here. Each request is written down before it is sent
(`under_way.jsonl`). If its answer is lost with a killed process, a missed deadline or a dropped connection, it counts
with the most that it may have cost. So does a discarded reply unless its server counted the tokens. Not here: the
budget of a generation (`align/budget.py`), and prices (`prices.py`).
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from align_echo.base.files import write_atomically
from align_echo.base.halting import pause
from align_echo.base.jsonl import JsonlFile
from align_echo.errors import UsageError
from align_echo.models.choosing import ModelName
from align_echo.models.prices import PRICES_VARIABLE, Price, find_price
from align_echo.models.recording import Call, CallLog
from align_echo.registry import quantity
from align_echo.types import Completion, Frozen, Usage, WordChoice

VERDICT_REQUESTS = 2
"""Requests for one verdict of a judge that does not think: for its first token, and for a word."""

AT_ONCE = 8
"""Calls that are asked for at once within limits."""

POLLING = 0.05
"""Seconds between looks at the requests under way."""

UNDER_WAY = "under_way.jsonl"
"""File of a run that asks endpoints: the requests without an answer, each with the most that it may spend."""

LimitName = Literal["cost", "requests", "tokens"]
OPTIONS: Mapping[LimitName, str] = {
    "cost": "--max-cost", "requests": "--max-requests", "tokens": "--max-tokens-total"
}  # fmt: skip


class SpentError(UsageError):
    """The next request could exceed the limit of this name."""

    def __init__(self, message: str, limit: LimitName) -> None:
        super().__init__(message)
        self.limit: LimitName = limit


@dataclass(frozen=True)
class _NoRoom:
    """Why a request is not sent now. `last`: nothing under way could make room."""

    error: SpentError
    last: bool


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
    prompt: int = 0
    completion: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of prompts and replies together."""
        return self.prompt + self.completion

    def add(self, other: Amount, sign: int = 1) -> None:
        """Add an amount, or subtract it with -1."""
        self.cost += sign * other.cost
        self.requests += sign * other.requests
        self.prompt += sign * other.prompt
        self.completion += sign * other.completion


class RoleSpending(Frozen):
    """What a role's models were asked for at endpoints, over all sessions of a run. `cost_usd` is None without a price.

    `at_most`: of some requests no count came back, and they count with the most that they may have spent.
    """

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    at_most: bool = False


@dataclass
class _RoleTotal:
    """What a role spent, whether all of its prices are known, and whether all of it was counted by servers."""

    amount: Amount = field(default_factory=Amount)
    priced: bool = True
    counted: bool = True

    @property
    def dollars(self) -> str:
        at_most = "" if self.counted else "at most "
        return f"{at_most}${self.amount.cost:,.4f}"

    @property
    def tokens(self) -> str:
        return f"{'' if self.counted else 'at most '}{self.amount.tokens:,} tokens"


# ---------------------------------------------------------------- the most tokens that a request may take

REQUEST_TOKENS, MESSAGE_TOKENS = 64, 16
"""Most tokens that a chat template adds to a conversation, and to each message."""

MARGIN = 1.5
"""Factor on the largest share of tokens in the bytes of earlier prompts: other texts may have more."""

BYTES_PER_TOKEN = 2
"""Fewest bytes of an average token, for requests whose server reports no tokens."""


class TokenBounds:
    """Upper bounds of the tokens of a model's requests, narrowed by what its server counted.

    A token of a text has at least one byte. What a server counts beyond the bytes (a hidden prompt, thinking beyond the
    limit of a reply) is expected again.
    """

    def __init__(self) -> None:
        self._share: float | None = None
        self._more_prompt = self._more_reply = 0

    def learn(self, call: Call, usage: Usage) -> None:
        """Learn from a server's counts for a request."""
        if usage.prompt_tokens:
            most = _prompt_bytes(call)
            tokens = math.ceil(usage.prompt_tokens / max(1, call.requests))
            self._share = max(self._share or 0.0, min(1.0, tokens / most))
            self._more_prompt = max(self._more_prompt, tokens - most)
        self._more_reply = max(self._more_reply, (usage.completion_tokens or 0) - _reply_limit(call))

    def prompt(self, call: Call) -> int:
        """Return the most tokens of a request's prompt."""
        share = 1.0 if self._share is None else min(1.0, self._share * MARGIN)
        return math.ceil(_prompt_bytes(call) * share) + self._more_prompt

    def reply(self, call: Call) -> int:
        """Return the most tokens of a request's reply."""
        return _reply_limit(call) + self._more_reply


def _prompt_bytes(call: Call) -> int:
    """Return the bytes of a request's prompt, and what a template adds: no prompt has more tokens."""
    texts = [text for message in call.messages for text in (message.content, message.tools)]
    texts += [text for message in call.messages if message.call for text in message.call.model_dump().values()]
    return sum(len(text.encode()) for text in texts) + REQUEST_TOKENS + MESSAGE_TOKENS * len(call.messages)


def _reply_limit(call: Call) -> int:
    return call.max_tokens + (1 if call.words else 0)


# ---------------------------------------------------------------- what is spent


class _Sent(Frozen):
    """A request that was sent, and the most that it may spend.

    `before` is the number of earlier answers to the same request. `thinking` are the tokens that a judge may think with
    in one more request. `lost`: its answer was lost or discarded; `counted`: its tokens are those that the server
    counted.
    """

    role: str
    model: str
    request: str
    prompt: int
    completion: int
    before: int = 0
    thinking: int = 0
    requests: int = 1
    lost: bool = False
    counted: bool = False

    def most(self, price: Price | None) -> Amount:
        return _priced(self.requests, self.prompt, self.completion, price)


def _priced(requests: int, prompt: int, completion: int, price: Price | None) -> Amount:
    return Amount(price.cost(prompt, completion) if price else 0.0, requests, prompt, completion)


class _RequestsUnderWay:
    """The requests without an answer, in memory and in a file (None: in no file), which is gone when all are answered.

    The file is only written once a request is sent: until then another process may work in the folder.
    """

    def __init__(self, file: JsonlFile | None, lost: Sequence[_Sent]) -> None:
        self._file = file
        self._lost = [sent.model_copy(update={"lost": True}) for sent in lost]
        self._sent: dict[str, _Sent] = {}
        self._is_whole = False

    def __len__(self) -> int:
        return len(self._sent)

    def get(self, request: str) -> _Sent | None:
        """Return a request; None for one that is not waited for."""
        return self._sent.get(request)

    def add(self, sent: _Sent) -> None:
        """Add a request, or put it in the place of itself with less to spend."""
        if not self._is_whole:
            self._write_lost()
        self._sent[sent.request] = sent
        if self._file is not None:
            self._file.append(sent)

    def add_lost(self, sent: _Sent) -> None:
        """Add an attempt whose answer will not come."""
        if not self._is_whole:
            self._write_lost()
        self._lost.append(sent)
        if self._file is not None:
            self._file.append(sent)

    def take(self, request: str, *, lost: bool) -> _Sent:
        """Remove a request, and return it. `lost`: its answer will not come."""
        sent = self._sent.pop(request)
        if lost:
            self._lost.append(sent.model_copy(update={"lost": True}))
        if not self._sent:
            self._write_lost()
        return sent

    def _write_lost(self) -> None:
        self._is_whole = True
        if self._file is None:
            return
        if self._lost:
            write_atomically(self._file.path, (f"{sent.model_dump_json()}\n" for sent in self._lost))
        else:
            self._file.path.unlink(missing_ok=True)


class Spending:
    """What a run has spent, and what the requests under way may spend yet. Thread-safe.

    `calls` are those of earlier sessions of the run, `prices` those of its models, by name, as far as they are known.
    `under_way` is the file of the requests that are sent, None to write none; what it says is read first (`sent`).
    """

    def __init__(
        self,
        limits: SpendingLimits,
        calls: Iterable[Call] = (),
        prices: Mapping[str, Price] | None = None,
        *,
        sent: Sequence[_Sent] = (),
        under_way: JsonlFile | None = None,
    ) -> None:
        self.limits = limits
        self._prices = dict(prices or {})
        self._spent, self._reserved = Amount(), Amount()
        self._by_role: dict[str, _RoleTotal] = {}
        self._bounds: dict[str, TokenBounds] = {}
        self._lock = threading.Lock()
        self._answers: Counter[str] = Counter()
        for call in calls:
            if not call.cached:
                self._answers[call.request] += 1
                self._add(call, call.usage, call.reply)
        lost = [each for each in sent if each.lost]
        open_ends = {(each.request, each.before): each for each in sent if not each.lost}  # the last of each counts
        lost += [each for each in open_ends.values() if each.before >= self._answers[each.request]]
        for each in lost:
            self._add_most(each)
        self._under_way = _RequestsUnderWay(under_way, lost)
        self._waiting: set[str] = set()
        """Requests under way whose next attempt waits for room."""

    @property
    def spent(self) -> Amount:
        """What is spent by now."""
        with self._lock:
            return replace(self._spent)

    def meter(self, name: ModelName) -> Spending | None:
        """Return the meter of a model's requests; None for a model that is asked at no endpoint."""
        return self if is_paid(name) else None

    # ------------------------------------------------------------ a `TokenMeter`

    def before_requests(self, calls: Sequence[Call]) -> None:
        """Reserve what new requests may cost at most. If it does not fit, wait for the requests under way, which may
        cost less than they could. Raises `SpentError`, before any is sent, if it does not fit beside what is spent.
        """
        while (refusal := self._reserve_new(calls)) is not None:
            if refusal.last:
                raise refusal.error
            pause(POLLING)

    def _reserve_new(self, calls: Sequence[Call]) -> _NoRoom | None:
        with self._lock:
            sent = [self._at_most(call) for call in calls]
            limit = self._reserve(sent)
            if limit is not None:
                error = self._refusal(limit, sent, beside=self._reserved.requests)
                return _NoRoom(error, last=not self._reserved.requests)
            for each in sent:
                self._under_way.add(each)
            return None

    @property
    def most_calls(self) -> int | None:
        """Most calls to ask for at once: with limits few, each with the most that it may spend beside the others."""
        return AT_ONCE if self.limits else None

    def before_attempt(self, calls: Sequence[Call], asked: Sequence[Call], max_tokens: int) -> None:
        """Reserve what the calls `asked` may cost at most with this attempt, where that is more than was reserved: a
        judge may think for `max_tokens`. If it does not fit beside what was lost, wait as `before_requests` does.
        Raises `SpentError` if all requests under way wait for room.

        The calls are settled together: one that waits leaves no others of them to wait for.
        """
        requests = {call.request for call in calls}
        verdicts = [call for call in asked if call.words]
        try:
            while (refusal := self._reserve_attempt(verdicts, max_tokens, requests)) is not None:
                if refusal.last:
                    raise refusal.error
                pause(POLLING)
        finally:
            with self._lock:
                self._waiting -= requests

    def _reserve_attempt(self, calls: Sequence[Call], max_tokens: int, requests: set[str]) -> _NoRoom | None:
        with self._lock:
            more, limit = [], self._reserve([])
            for call in calls if limit is None else ():
                reserved = self._under_way.get(call.request)
                if reserved is not None and max_tokens > max(call.max_tokens, reserved.thinking):
                    sent = self._at_most(call, thinking=max_tokens).model_copy(update={"before": reserved.before})
                    self._reserved.add(self._most(reserved), -1)
                    limit = self._reserve([sent])
                    if limit is None:
                        self._under_way.add(sent)
                    else:
                        self._reserved.add(self._most(reserved))
                    more.append(sent)
            if limit is None:
                return None
            self._waiting |= requests
            own = [self._under_way.get(request) for request in requests]
            beside = self._reserved.requests - sum(each.requests for each in own if each)
            error = self._refusal(limit, more, beside=beside)
            return _NoRoom(error, last=len(self._waiting) >= len(self._under_way))

    def after_lost(self, call: Call, usage: Usage) -> None:
        """Count an attempt whose reply was lost or discarded: the tokens reported, else the most that it may cost."""
        with self._lock:
            if usage.prompt_tokens:
                self._bounds.setdefault(call.model, TokenBounds()).learn(call, usage)
            counts = {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens}
            known = {name: count for name, count in counts.items() if count is not None}
            sent = self._at_most(call).model_copy(update={**known, "lost": True, "counted": len(known) == len(counts)})
            self._under_way.add_lost(sent)
            self._add_most(sent)

    def after_reply(self, call: Call, reply: Completion | WordChoice) -> None:
        """Count a reply: the tokens reported, else as many as its bytes make at most."""
        self._settle(call, reply.usage, reply.text if isinstance(reply, Completion) else reply.said or "")

    def after_fault(self, call: Call) -> None:
        """Count a request without a reply: a refusal costs nothing, and is no request."""
        self._settle(call, call.usage, None)

    def after_stop(self, call: Call) -> None:
        """Count a request that is waited for no longer with the most that it may cost."""
        with self._lock:
            sent = self._under_way.take(call.request, lost=True)
            self._reserved.add(self._most(sent), -1)
            self._add_most(sent)

    def _settle(self, call: Call, usage: Usage, reply: str | None) -> None:
        with self._lock:
            sent = self._under_way.take(call.request, lost=False)
            self._reserved.add(self._most(sent), -1)
            self._answers[call.request] += 1
            self._add(call, usage, reply)

    def _reserve(self, sent: Sequence[_Sent]) -> LimitName | None:
        """Reserve the most that requests may spend and return None, or return the limit that it could exceed."""
        total = replace(self._reserved)
        for each in sent:
            total.add(self._most(each))
        for name in OPTIONS:
            limit = getattr(self.limits, name)
            if limit is not None and getattr(self._spent, name) + getattr(total, name) > limit:
                return name
        self._reserved = total
        return None

    def _at_most(self, call: Call, *, thinking: int = 0) -> _Sent:
        """Return a request with the most that it may spend. A judge may be asked `VERDICT_REQUESTS` times, and in one
        more request with tokens for `thinking`.
        """
        bounds = self._bounds.setdefault(call.model, TokenBounds())
        requests = VERDICT_REQUESTS + (thinking > 0) if call.words else 1
        return _Sent(
            role=call.role,
            model=call.model,
            request=call.request,
            requests=requests,
            prompt=requests * bounds.prompt(call),
            completion=max(bounds.reply(call), _reply_limit(call) + thinking),
            before=self._answers[call.request],
            thinking=thinking,
        )

    def _most(self, sent: _Sent) -> Amount:
        return sent.most(self._prices.get(sent.model))

    # ------------------------------------------------------------ totals

    def _add(self, call: Call, usage: Usage, reply: str | None) -> None:
        """Add what a call spent: of one without a reply what the endpoint reported. Token counts that were not reported
        are bounded by the bytes.
        """
        total = self._by_role.setdefault(call.role, _RoleTotal())
        amount = Amount()
        if reply is not None or usage.prompt_tokens:
            counts = usage.prompt_tokens, usage.completion_tokens
            bounds = call.requests * _prompt_bytes(call), len((reply or "").encode())
            total.counted = total.counted and None not in counts
            prompt, completion = (
                bound // BYTES_PER_TOKEN if count is None else count
                for count, bound in zip(counts, bounds, strict=True)
            )
            amount = _priced(call.requests, prompt, completion, self._prices.get(call.model))
            amount = amount if usage.cost_usd is None else replace(amount, cost=usage.cost_usd)
            self._bounds.setdefault(call.model, TokenBounds()).learn(call, usage)
        total.priced = total.priced and call.model in self._prices
        total.amount.add(amount)
        self._spent.add(amount)

    def _add_most(self, sent: _Sent) -> None:
        total = self._by_role.setdefault(sent.role, _RoleTotal())
        total.counted, most = total.counted and sent.counted, self._most(sent)
        total.priced = total.priced and sent.model in self._prices
        total.amount.add(most)
        self._spent.add(most)

    def refusal(self, limit: LimitName) -> SpentError:
        """Return the error that says what is spent of a limit and how to go on."""
        with self._lock:
            return self._refusal(limit, ())

    def _refusal(self, limit: LimitName, requests: Sequence[_Sent], *, beside: int = 0) -> SpentError:
        option, spent, most = OPTIONS[limit], self._spent, Amount()
        at_most = "" if all(total.counted for total in self._by_role.values()) else "at most "
        for each in requests:
            most.add(self._most(each))
        dollars = "" if self.limits.cost is None else f", ${spent.cost:,.4f}"
        in_words = f"spent: {at_most}{spent.requests:,} requests, {spent.tokens:,} tokens{dollars}"
        amounts = {"cost": f"${most.cost:,.4f}", "requests": f"{most.requests:,}", "tokens": f"{most.tokens:,} tokens"}
        under_way = f" beside {beside:,} under way" if beside else ""
        needs = f", at most {amounts[limit]}{under_way}" if requests else ""
        further = f"what was played is saved: --resume with a larger {option} goes on"
        return SpentError(
            f"{option} {getattr(self.limits, limit):,g} leaves no room for the next request{needs} ({in_words}); "
            + (further if spent.requests else f"nothing was asked: give a larger {option}"),
            limit,
        )

    @property
    def by_role(self) -> dict[str, RoleSpending]:
        """What each role has spent by now."""
        with self._lock:
            return {
                role: RoleSpending(
                    requests=total.amount.requests,
                    prompt_tokens=total.amount.prompt,
                    completion_tokens=total.amount.completion,
                    cost_usd=round(total.amount.cost, 6) if total.priced else None,
                    at_most=not total.counted,
                )
                for role, total in sorted(self._by_role.items())
            }

    @property
    def in_short(self) -> str:
        """What the roles have spent at endpoints: dollars, or tokens without prices; "" for nothing."""
        with self._lock:
            roles = {
                role: total.dollars if total.priced else total.tokens
                for role, total in self._by_role.items()
                if total.amount.requests
            }
        return ", ".join(f"{role} {words}" for role, words in roles.items())

    @property
    def in_full(self) -> str:
        """Requests, tokens and dollars by role, over all sessions; "" for nothing."""
        with self._lock:
            parts = [
                f"{role} {quantity(total.amount.requests, 'request')}, {total.tokens}, "
                + (total.dollars if total.priced else "cost not known")
                for role, total in self._by_role.items()
            ]
        return f"at endpoints: {'; '.join(parts)}" if parts else ""


# ---------------------------------------------------------------- limits of a run's models


def price_of(name: ModelName) -> Price | None:
    """Look up the price of a model at an endpoint; None if it is unknown."""
    settings = name.endpoint.settings if name.endpoint else None
    return find_price(name.source, settings.prices if settings else None, name.base_url or "")


def is_paid(name: ModelName) -> bool:
    """Check for a model that is asked at an endpoint, and takes no token ids."""
    return name.endpoint is not None and not name.is_local


def open_spending(limits: SpendingLimits, models: Iterable[ModelName], path: Path) -> Spending:
    """Read what all sessions of a run spent on `models` at endpoints, in its folder and the folders below.

    Raises `UsageError` for damaged records of a limited run; without limits they are left out.
    """
    paid = {name.source: name for name in models if is_paid(name)}
    prices = {source: price for source, name in paid.items() if (price := price_of(name))}
    calls: list[Call] = []
    sent: list[_Sent] = []
    under_way = JsonlFile(path / UNDER_WAY)
    for file in sorted(path.rglob("calls.jsonl")):
        with suppress(*(() if limits else (UsageError,))):
            calls += (call for call in CallLog(file).read() if call.model in paid)
    with suppress(*(() if limits else (UsageError,))):
        sent = [each for each in under_way.read(_Sent) if each.model in paid]
    return Spending(limits, calls, prices, sent=sent, under_way=under_way)


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
