"""Budget of a generation run: engine steps of experiments, seconds, and what its models spend.

The laboratory asks before each engine step, and a model before each request. A spent budget raises `BudgetSpentError`,
which the backends catch to end with what they have. Tokens count for all models here; what may be sent to endpoints at
most is limited by `models/spending.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from pydantic import Field

from align_echo.models.choosing import ModelName
from align_echo.models.recording import Call
from align_echo.models.spending import OPTIONS, Amount, LimitName, Spending, SpendingLimits, SpentError
from align_echo.registry import quantity
from align_echo.types import Completion, Frozen, Usage, WordChoice

Limit = Literal["engine-steps", "seconds"] | LimitName

CHARACTERS_PER_TOKEN = 4
"""Rough size of a token, for a server that reports none."""

WRITING_SHARE = 0.3
"""Share of the tokens that the `llm` backend's analysis leaves for writing the interface."""


class BudgetSpentError(Exception):
    """The budget is spent. It never leaves a backend."""


class BudgetLimits(Frozen):
    """Limits of a run; None for no limit. Steps are those of experiments."""

    engine_steps: int | None = Field(default=None, ge=1)
    seconds: float | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, ge=1)
    requests: int | None = Field(default=None, ge=1)
    cost: float | None = Field(default=None, gt=0)

    @property
    def of_endpoints(self) -> SpendingLimits:
        """Return the limits on what is spent at endpoints."""
        return SpendingLimits(cost=self.cost, requests=self.requests, tokens=self.tokens)

    def allow_more_than(self, record: BudgetRecord) -> bool:
        """Check if the limit that ended a run is larger here, or gone."""
        if not record.ended_by:
            return False
        old, new = (getattr(limits, record.ended_by.replace("-", "_")) for limits in (record.limits, self))
        return new is None or new > old


class BudgetRecord(Frozen):
    """Limits of a run and what it spent; seconds only with a limit of seconds, since they differ from run to run, else
    None. `tokens` are of all models, `requests` and `cost` of those at endpoints.

    `ended_by` names the limit that ended the run, "" for none.
    """

    limits: BudgetLimits = BudgetLimits()
    engine_steps: int = 0
    seconds: float | None = None
    tokens: int = 0
    requests: int = 0
    cost: float = 0.0
    ended_by: Limit | Literal[""] = ""

    @property
    def in_words(self) -> str:
        """Return what was spent of which limit, and the option that gives more, if the budget ended the run."""
        if not self.ended_by:
            return ""
        spent = {
            "engine-steps": (quantity(self.engine_steps, "engine step"), "--max-engine-steps"),
            "seconds": (f"{self.seconds or 0:.0f} seconds", "--max-seconds"),
            "tokens": (quantity(self.tokens, "token"), OPTIONS["tokens"]),
            "requests": (quantity(self.requests, "request"), OPTIONS["requests"]),
            "cost": (f"${self.cost:,.4f}", OPTIONS["cost"]),
        }
        words, option = spent[self.ended_by]
        return f"the budget ended the run after {words}; --resume with a larger {option} goes on"

    @property
    def refusal(self) -> SpentError | None:
        """Return the error of a run that a limit on what is spent at endpoints ended; None for another end."""
        ended = (SpentError(self.in_words, limit) for limit in OPTIONS if limit == self.ended_by)
        return next(ended, None)


class Budget:
    """Budget in use. `before` holds what earlier sessions of the run spent, `spending` what endpoints were asked."""

    def __init__(
        self,
        limits: BudgetLimits | None = None,
        *,
        clock: Callable[[], float] | None = None,
        before: BudgetRecord | None = None,
        spending: Spending | None = None,
    ) -> None:
        self.limits = limits or BudgetLimits()
        before = before or BudgetRecord()
        self._clock = clock or time.monotonic
        self._start = self._clock() - (before.seconds or 0.0)
        self._steps = before.engine_steps
        self._tokens = before.tokens
        self._spending = spending
        self._cut: Limit | Literal[""] = ""
        self._lock = threading.Lock()

    @property
    def cut(self) -> Limit | Literal[""]:
        """Name of the limit that ended something, "" for none."""
        return self._cut

    def is_spent(self, token_share: float = 1.0) -> bool:
        """Check if a limit is spent, or a share of the tokens: what asks ends then."""
        limits = self.limits
        cut: Limit | None = None
        if limits.seconds is not None and self.seconds >= limits.seconds:
            cut = "seconds"
        elif limits.engine_steps is not None and self._steps >= limits.engine_steps:
            cut = "engine-steps"
        elif limits.tokens is not None and self._tokens >= token_share * limits.tokens:
            cut = "tokens"
        if cut and self._cut not in OPTIONS:
            self._cut = cut
        return cut is not None

    @property
    def is_limited(self) -> bool:
        """True if engine steps or seconds have a limit."""
        return self.limits.engine_steps is not None or self.limits.seconds is not None

    @property
    def seconds(self) -> float:
        """Seconds since the start, with those of earlier sessions."""
        return self._clock() - self._start

    @property
    def record(self) -> BudgetRecord:
        """What is spent by now."""
        paid = self._spending.spent if self._spending else Amount()
        return BudgetRecord(
            limits=self.limits,
            engine_steps=self._steps,
            seconds=None if self.limits.seconds is None else round(self.seconds, 1),
            tokens=self._tokens,
            requests=paid.requests,
            cost=round(paid.cost, 6),
            ended_by=self._cut,
        )

    def check(self, token_share: float = 1.0) -> None:
        """Raise `BudgetSpentError` if a limit is spent, or a share of the tokens."""
        if self.is_spent(token_share):
            raise BudgetSpentError(str(self._cut))

    def end_by(self, limit: Limit) -> None:
        """Note the limit that ended something; it stays where another is spent later."""
        self._cut = limit

    def adopt(self, record: BudgetRecord) -> None:
        """Take over what a finished iteration had spent, and the limit that ended it."""
        self._steps, self._tokens = max(self._steps, record.engine_steps), max(self._tokens, record.tokens)
        self._cut = record.ended_by

    def take_step(self) -> None:
        """Take an engine step. Raises `BudgetSpentError` instead if a limit is spent."""
        self.check()
        self._steps += 1

    def add_steps(self, steps: int) -> None:
        """Add engine steps that a copy of this process took."""
        self._steps += steps

    def affords(self, steps: float, seconds: float) -> float:
        """Return the share of so many steps and seconds that is left, at most 1."""
        limits, shares = self.limits, [1.0]
        if limits.engine_steps is not None:
            shares.append((limits.engine_steps - self._steps) / max(steps, 1))
        if limits.seconds is not None:
            shares.append((limits.seconds - self.seconds) / max(seconds, 1e-9))
        return max(0.0, min(shares))

    def share_since(self, record: BudgetRecord, seconds: float) -> float:
        """Return the share of the limits spent since a record was taken, after so many seconds."""
        limits, shares = self.limits, [0.0]
        if limits.engine_steps is not None:
            shares.append((self._steps - record.engine_steps) / limits.engine_steps)
        if limits.seconds is not None:
            shares.append((self.seconds - seconds) / limits.seconds)
        return max(shares)

    def meter(self, name: ModelName) -> Spending | None:
        """Return the meter of a model at an endpoint; None for another."""
        return self._spending.meter(name) if self._spending else None

    def add_tokens(self, tokens: int) -> None:
        """Count the tokens of a reply."""
        with self._lock:
            self._tokens += tokens


@dataclass(frozen=True)
class RoleMeter:
    """Meter of a model's tokens. `share`: the part of all tokens from which on it is not asked; None: it always is.

    `paid` is the meter of a model at an endpoint.
    """

    budget: Budget
    share: float | None
    paid: Spending | None = None

    def before_requests(self, calls: Sequence[Call]) -> None:
        """Raise `BudgetSpentError` before requests beyond the budget; `SpentError` if it has no share, as an agent."""
        if self.share is not None:
            self.budget.check(self.share)
        if self.paid is not None:
            self._check(partial(self.paid.before_requests, calls))

    @property
    def most_calls(self) -> int | None:
        """Most calls to ask for at once."""
        return self.paid.most_calls if self.paid is not None else None

    def before_attempt(self, calls: Sequence[Call], asked: Sequence[Call], max_tokens: int) -> None:
        """Raise as `before_requests` if what was spent meanwhile leaves no room for another attempt."""
        if self.paid is not None:
            self._check(partial(self.paid.before_attempt, calls, asked, max_tokens))

    def _check(self, reserve: Callable[[], None]) -> None:
        try:
            reserve()
        except SpentError as error:
            self.budget.end_by(error.limit)
            if self.share is None:
                raise
            raise BudgetSpentError(error.limit) from error

    def after_lost(self, call: Call, usage: Usage) -> None:
        """Count no tokens of the budget for an attempt without a reply."""
        if self.paid is not None:
            self.paid.after_lost(call, usage)

    def after_reply(self, call: Call, reply: Completion | WordChoice) -> None:
        """Count the tokens of a request and its reply: those reported, else by the characters."""
        prompt, completion = reply.usage.prompt_tokens, reply.usage.completion_tokens
        if not prompt:
            prompt = sum(len(message.content) for message in call.messages) // CHARACTERS_PER_TOKEN
        if not completion and isinstance(reply, Completion):
            completion = len(reply.text) // CHARACTERS_PER_TOKEN
        self.budget.add_tokens(prompt + (completion or 0))
        if self.paid is not None:
            self.paid.after_reply(call, reply)

    def after_fault(self, call: Call) -> None:
        """Count no tokens for a request without a reply."""
        if self.paid is not None:
            self.paid.after_fault(call)

    def after_stop(self, call: Call) -> None:
        """Count no tokens for a request that is waited for no longer."""
        if self.paid is not None:
            self.paid.after_stop(call)
