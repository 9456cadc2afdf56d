"""What a call may spend at most, and what calls of earlier sessions spent."""

from __future__ import annotations

import pytest

from align_echo.models.drawing import THINKING_TOKENS
from align_echo.models.prices import Price
from align_echo.models.recording import Call
from align_echo.models.spending import Spending, SpendingLimits, SpendingMeter, SpentError
from align_echo.types import Completion, Message, Usage, WordChoice

PRICE = Price(prompt=1_000_000, completion=1_000_000)


UNREPORTED = Usage(prompt_tokens=None, completion_tokens=None, cost_usd=None)


def call(words: tuple[str, ...] = (), reply: str | None = None) -> Call:
    asked = (Message(role="user", content="x" * 100),)
    about = {"role": "judge", "model": "m", "request": "r", "temperature": 0, "max_tokens": 8, "usage": UNREPORTED}
    return Call.model_validate({**about, "messages": asked, "words": words, "reply": reply})


def test_a_verdict_leaves_room_for_a_judge_that_thinks() -> None:
    meter = SpendingMeter(Spending(SpendingLimits(tokens=THINKING_TOKENS)), None)
    meter.before_requests([call()])
    meter.after_reply(call(), Completion(text="look", usage=Usage(prompt_tokens=3, completion_tokens=1)))
    with pytest.raises(SpentError, match="1 requests, 4 tokens"):
        meter.before_requests([call(("correct", "wrong"))])


def test_what_was_not_reported_costs_the_same_in_the_next_session() -> None:
    before = Spending(SpendingLimits(cost=1000))
    meter = SpendingMeter(before, PRICE)
    for answer in (Completion(text="y" * 20, usage=UNREPORTED), WordChoice(said="wrong", usage=UNREPORTED)):
        meter.before_requests([call()])
        meter.after_reply(call(), answer)
    meter.before_requests([call()])
    meter.after_fault(call())
    calls = [call(reply="y" * 20), call(reply="wrong"), call()]
    assert before._spent == Spending(before.limits, calls, {"m": PRICE})._spent
    assert before._spent.requests == 3
    assert before._spent.cost == before._spent.tokens == 2 * (100 // 2 + 2) + 10 + 2
    assert before._reserved == Spending(before.limits)._reserved
