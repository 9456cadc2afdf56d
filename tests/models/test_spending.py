"""What a call may spend at most, and what calls of earlier sessions spent."""

from __future__ import annotations

import pytest

from align_echo.errors import ReplyWithheldError
from align_echo.models.drawing import THINKING_TOKENS
from align_echo.models.openai_model import OpenAICompatibleModel
from align_echo.models.prices import Price
from align_echo.models.recording import Call
from align_echo.models.spending import Spending, SpendingLimits, SpendingMeter, SpentError
from align_echo.types import Completion, Message, Usage, WordChoice
from tests.align.endpoint import Reply, serve

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


def test_a_withheld_reply_costs_what_the_endpoint_reports_also_in_later_sessions() -> None:
    spending = Spending(SpendingLimits(cost=2000))
    meter = SpendingMeter(spending, PRICE)
    meter.before_requests([call()])
    withheld = call().model_copy(update={"usage": Usage(prompt_tokens=1000, completion_tokens=10, cost_usd=None)})
    meter.after_fault(withheld)
    cost = PRICE.cost(1000, 10)
    assert (spending.spent.requests, spending.spent.tokens) == (1, 1010)
    assert spending.spent.cost == pytest.approx(cost)
    later = Spending(SpendingLimits(cost=2000), [withheld], {withheld.model: PRICE})
    assert later.spent.cost == pytest.approx(cost)


def test_what_a_withheld_reply_was_paid_stands_in_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none-is-needed")
    withheld = Reply(None, finish_reason="content_filter", prompt_tokens=1000, completion_tokens=10)
    with serve({"m": [withheld]}) as endpoint, pytest.raises(ReplyWithheldError) as caught:
        OpenAICompatibleModel("m", base_url=endpoint.url).complete(call().messages, temperature=0)
    assert (caught.value.usage.prompt_tokens, caught.value.usage.completion_tokens) == (1000, 10)
