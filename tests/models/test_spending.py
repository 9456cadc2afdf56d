"""What a call may spend at most, and what calls of earlier sessions spent or may have spent."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from align_echo.errors import ModelError, ReplyWithheldError, UsageError
from align_echo.models.answers import ChatReply
from align_echo.models.cache import ReplyCache
from align_echo.models.choosing import load_model, read_name
from align_echo.models.client import RetryPolicy
from align_echo.models.drawing import THINKING_TOKENS
from align_echo.models.openai_model import OpenAICompatibleModel
from align_echo.models.prices import Price
from align_echo.models.recording import Call, CallLog, RecordingModel
from align_echo.models.spending import (
    MESSAGE_TOKENS,
    NO_LIMITS,
    REQUEST_TOKENS,
    UNDER_WAY,
    Spending,
    SpendingLimits,
    SpentError,
    open_spending,
)
from align_echo.types import ChatModel, Completion, Message, Usage, WordChoice
from tests.align.endpoint import Drop, Raw, Reply, Status, serve
from tests.models.test_openai_several import body as several

PRICE = Price(prompt=1_000_000, completion=1_000_000)


PROMPT_BYTES = 100 + REQUEST_TOKENS + MESSAGE_TOKENS
UNREPORTED = Usage(prompt_tokens=None, completion_tokens=None, cost_usd=None)


def call(words: tuple[str, ...] = (), reply: str | None = None) -> Call:
    asked = (Message(role="user", content="x" * 100),)
    about = {"role": "judge", "model": "m", "request": "r", "temperature": 0, "max_tokens": 8, "usage": UNREPORTED}
    return Call.model_validate({**about, "messages": asked, "words": words, "reply": reply})


WORDS = ("correct", "wrong")


def test_a_judge_pays_for_its_thinking_once_it_thinks() -> None:
    meter = Spending(SpendingLimits(tokens=THINKING_TOKENS))
    meter.before_requests([call()])
    meter.after_reply(call(), Completion(text="look", usage=Usage(prompt_tokens=3, completion_tokens=1)))
    meter.before_requests([call(WORDS)])
    meter.before_attempt([call(WORDS)], [call(WORDS)], 8)
    with pytest.raises(SpentError, match=r"next request, at most \d,\d{3} tokens \(spent: 1 requests, 4 tokens"):
        meter.before_attempt([call(WORDS)], [call(WORDS)], THINKING_TOKENS)
    meter.after_reply(call(WORDS), WordChoice(said="wrong", usage=Usage(prompt_tokens=8, completion_tokens=2)))
    assert meter._reserved == Spending(meter.limits)._reserved


def test_thinking_that_is_lost_with_a_session_counts_once(tmp_path: Path) -> None:
    asked = call(WORDS)
    spending = opened(tmp_path)
    spending.before_requests([asked])
    for _ in range(2):  # its first attempt is asked again
        spending.before_attempt([asked], [asked], THINKING_TOKENS)
    lost = opened(tmp_path).spent
    assert lost.requests == 3
    assert lost.completion == 8 + 1 + THINKING_TOKENS


def test_a_batch_of_verdicts_within_a_limit_ends_and_does_not_wait_for_itself(tmp_path: Path) -> None:
    """Judges that think, more of them than may be asked at once, with room for some alone."""
    thought = Reply("<think>hm</think>correct", prompt_tokens=20, completion_tokens=9)
    cut = Reply("<think>", finish_reason="length", prompt_tokens=20, completion_tokens=1)
    talks = [(Message(role="user", content="x" * number),) for number in range(1, 31)]

    def answer(request: dict[str, Any]) -> Reply:
        return thought if request["max_tokens"] > 8 else cut

    with serve({"m": answer}) as endpoint:
        spending = opened(tmp_path, SpendingLimits(tokens=3000))
        model = recording(tmp_path, load_model(read_name("m", endpoint.url)), spending)
        with pytest.raises(SpentError, match=r"the next request, at most [\d,]+ tokens"):
            model.choose(talks, WORDS)
        answered = spending.spent.requests
        assert answered >= len(endpoint.requests) > 0, "what may have been paid counts"
        assert opened(tmp_path).spent.requests == answered
        later = opened(tmp_path, SpendingLimits(tokens=500_000))
        recording(tmp_path, load_model(read_name("m", endpoint.url)), later).choose(talks, WORDS)
        assert later.spent.requests >= len(endpoint.requests)


def test_requests_are_counted_as_they_are_sent(tmp_path: Path) -> None:
    """A verdict may take three, and several replies come with one."""
    cut = Reply("<think>", finish_reason="length", prompt_tokens=20, completion_tokens=1)
    with serve({"m": [cut, cut, "<think>hm</think>correct"]}) as endpoint:
        spending = opened(tmp_path)
        recording(tmp_path, load_model(read_name("m", endpoint.url)), spending).choose([call().messages], WORDS)
        assert spending.spent.requests == opened(tmp_path).spent.requests == len(endpoint.requests) == 3
    with serve({"m": [several("look", "go", "open", "take")]}) as endpoint:
        spending = opened(tmp_path / "more")
        model = recording(tmp_path / "more", load_model(read_name("m", endpoint.url)), spending)
        model.draw(call().messages, range(4), temperature=1.0)
        assert spending.spent.requests == opened(tmp_path / "more").spent.requests == len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 610}, 610),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, None),
        ({"prompt_tokens": 100, "completion_tokens": 0, "total_tokens": 100}, None),
        ({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}, 110),
    ],
)
def test_thinking_beside_the_counts_is_counted_and_counts_of_zero_are_none(usage: dict[str, int], tokens: int | None):
    body = {"choices": [{"message": {"content": "look"}, "finish_reason": "stop"}], "usage": usage}
    spent = ChatReply.model_validate(body).spent
    assert (None if None in spent else sum(count or 0 for count in spent)) == tokens


def test_an_attempt_waits_for_the_requests_under_way_and_ends_if_all_of_them_wait(tmp_path: Path) -> None:
    first, second = (call(WORDS).model_copy(update={"request": name}) for name in "ab")
    spending = Spending(SpendingLimits(tokens=4 * PROMPT_BYTES + 18 + PROMPT_BYTES + THINKING_TOKENS))
    spending.before_requests([first, second])
    spending.before_attempt([first], [first], THINKING_TOKENS)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(spending.before_attempt, [second], [second], THINKING_TOKENS)
        while not spending._waiting:
            pass
        assert not waiting.done()
        spending.after_reply(first, WordChoice(said="wrong", usage=Usage(prompt_tokens=9, completion_tokens=9)))
        waiting.result(timeout=60)
    spending = Spending(SpendingLimits(tokens=4 * PROMPT_BYTES + 18))
    spending.before_requests([first, second])
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(spending.before_attempt, [first], [first], THINKING_TOKENS)
        with pytest.raises(SpentError):
            spending.before_attempt([second], [second], THINKING_TOKENS)
        spending.after_stop(second)
        with pytest.raises(SpentError):
            waiting.result(timeout=60)


def test_a_limit_that_is_too_small_for_any_request_says_that_nothing_was_asked() -> None:
    with pytest.raises(SpentError, match="nothing was asked: give a larger --max-tokens-total"):
        Spending(SpendingLimits(tokens=10)).before_requests([call()])


def test_what_was_not_reported_costs_the_same_in_the_next_session() -> None:
    meter = before = Spending(SpendingLimits(cost=9000), prices={"m": PRICE})
    for answer in (Completion(text="y" * 20, usage=UNREPORTED), WordChoice(said="wrong", usage=UNREPORTED)):
        meter.before_requests([call()])
        meter.after_reply(call(), answer)
    meter.before_requests([call()])
    meter.after_fault(call())
    calls = [call(reply="y" * 20), call(reply="wrong"), call()]
    assert before._spent == Spending(before.limits, calls, {"m": PRICE})._spent
    assert before._spent.requests == 2, "a fault is no request"
    assert before._spent.cost == before._spent.tokens == 2 * (PROMPT_BYTES // 2) + 10 + 2
    assert before._reserved == Spending(before.limits)._reserved


def test_a_withheld_reply_costs_what_the_endpoint_reports_also_in_later_sessions() -> None:
    meter = spending = Spending(SpendingLimits(cost=2000), prices={"m": PRICE})
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


# ---------------------------------------------------------------- requests that are lost with a session


class Asked:
    """A model that does something while a request is under way, and then answers."""

    name = "m"

    def __init__(self, meanwhile: Callable[[], object] = lambda: None, usage: Usage = UNREPORTED) -> None:
        self.meanwhile = meanwhile
        self.usage = usage

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        self.meanwhile()
        return Completion(text="look", usage=self.usage)


def opened(path: Path, limits: SpendingLimits = NO_LIMITS) -> Spending:
    return open_spending(limits, [read_name("m", "http://127.0.0.1:9/v1")], path)


def recording(path: Path, model: ChatModel, spending: Spending) -> RecordingModel:
    return RecordingModel(
        model, role="agent", cache=ReplyCache(path / "cache"), log=CallLog(path / "calls.jsonl"), meter=spending
    )


def ask(model: RecordingModel, text: str) -> None:
    model.complete((Message(role="user", content=text),), temperature=0, max_tokens=32)


@pytest.mark.parametrize("limits", [NO_LIMITS, SpendingLimits(requests=9)])
def test_a_request_that_was_lost_with_a_session_counts_in_all_later_ones(tmp_path, limits, monkeypatch):
    """The folder is as a kill leaves it while the second request is under way; the price became known later."""
    run, killed = tmp_path / "run", tmp_path / "killed"
    spending = opened(run, limits)
    ask(recording(run, Asked(), spending), "first")
    assert not (run / UNDER_WAY).exists(), "what is answered is not under way"
    ask(recording(run, Asked(lambda: shutil.copytree(run, killed)), spending), "second")
    assert not (run / UNDER_WAY).exists()
    monkeypatch.setenv("ALIGN_ECHO_PRICES", str(tmp_path / "prices.json"))
    (tmp_path / "prices.json").write_text('{"m": {"prompt": 1000000, "completion": 0}}')
    for text in ("second", "third"):  # in two sessions, each of which ends by itself
        after = opened(killed, SpendingLimits(requests=9))
        assert after.by_role["agent"].at_most
        assert after.spent.cost > PROMPT_BYTES - 100
        ask(recording(killed, Asked(), after), text)
    assert opened(killed).spent.requests == 4, "first, second, second again, third"


def test_a_request_that_broke_before_counts_when_it_is_lost_later(tmp_path):
    """Its first attempt broke, is in the log and was no request; the second was under way in the kill."""
    run, killed = tmp_path / "run", tmp_path / "killed"

    def fail() -> None:
        raise ModelError("no reply")

    with suppress(ModelError):
        ask(recording(run, Asked(fail), opened(run)), "first")
    ask(recording(run, Asked(lambda: shutil.copytree(run, killed)), opened(run)), "first")
    assert opened(killed).spent.requests == 1
    assert opened(run).spent.requests == 1


def test_a_request_that_a_stop_left_may_be_paid_and_one_that_was_refused_not(tmp_path):
    def stop(error: BaseException) -> Callable[[], None]:
        def raise_it() -> None:
            raise error

        return raise_it

    for error, tokens in ((KeyboardInterrupt(), 32 + PROMPT_BYTES - 95), (UsageError("no such model"), 0)):
        run = tmp_path / type(error).__name__
        spending = opened(run)
        with suppress(KeyboardInterrupt, UsageError):
            ask(recording(run, Asked(stop(error)), spending), "first")
        assert spending.spent.tokens == tokens
        assert opened(run).spent.tokens == tokens, "also in a later session"
        assert (run / UNDER_WAY).exists() == bool(tokens)


# ---------------------------------------------------------------- attempts whose reply is lost or discarded

QUICK = RetryPolicy(attempts=4, first_wait=0)


def at_endpoint(path: Path, url: str, spending: Spending) -> RecordingModel:
    model = OpenAICompatibleModel("m", base_url=url, api_key="k", retry=QUICK, timeout=1)
    return recording(path, model, spending)


BROKEN_OFF = json.dumps({"choices": [{"message": {"content": "lo"}, "finish_reason": "error"}]})
STATED = {"prompt_tokens": 700, "completion_tokens": 50}


@pytest.mark.parametrize("answer", [Drop(), Drop(halfway=True), Raw("<html>"), Raw(BROKEN_OFF)])
def test_an_attempt_whose_reply_is_lost_costs_its_bound_in_this_and_later_sessions(tmp_path, answer, monkeypatch):
    prices = tmp_path / "prices.json"
    prices.write_text('{"m": {"prompt": 1000000, "completion": 1000000}}')
    monkeypatch.setenv("ALIGN_ECHO_PRICES", str(prices))
    run, bound = tmp_path / "run", PROMPT_BYTES - 95 + 32
    with serve({"m": [answer, answer, Reply("look", prompt_tokens=10, completion_tokens=5)]}) as endpoint:
        spending = opened(run)
        ask(at_endpoint(run, endpoint.url, spending), "first")
    for told in (spending, opened(run)):
        assert (told.spent.requests, told.spent.tokens) == (3, 2 * bound + 15)
        assert told.spent.cost == pytest.approx(2 * bound + 15)
        assert told.by_role["agent"].at_most
        assert "at most $" in told.in_short


def test_a_request_that_is_given_up_costs_the_bounds_of_its_attempts_and_one_that_times_out_too(tmp_path):
    run, silent = tmp_path / "run", threading.Event()

    def say_nothing(request: dict[str, Any]) -> Drop:
        silent.wait()
        return Drop()

    spending = opened(run)
    with serve({"m": say_nothing}) as endpoint:
        with pytest.raises(ModelError, match="no whole answer"):
            ask(at_endpoint(run, endpoint.url, spending), "first")
        silent.set()
    assert spending.spent.requests == opened(run).spent.requests == 2, "it waits two deadlines"
    assert spending.spent.tokens == opened(run).spent.tokens == 2 * (PROMPT_BYTES - 95 + 32)


@pytest.mark.parametrize("limits", [SpendingLimits(requests=2), SpendingLimits(tokens=2 * (PROMPT_BYTES - 95 + 32))])
def test_a_limit_is_checked_before_each_attempt(tmp_path, limits):
    run = tmp_path / "run"
    with serve({"m": lambda request: Drop()}) as endpoint:
        spending = opened(run, limits)
        with pytest.raises(SpentError):
            ask(at_endpoint(run, endpoint.url, spending), "first")
        assert len(endpoint.requests) == 2
        with pytest.raises(SpentError):
            ask(at_endpoint(run, endpoint.url, opened(run, limits)), "first")
        assert len(endpoint.requests) == 2
    assert spending.spent.requests == 2


@pytest.mark.parametrize(
    "answer",
    [
        Raw(json.dumps({**json.loads(BROKEN_OFF), "usage": STATED})),
        Raw(json.dumps({"choices": [], "usage": STATED})),
        Raw(json.dumps({"error": {"message": "busy"}, "usage": STATED})),
        Status(503, body=json.dumps({"error": {"message": "busy"}, "usage": STATED})),
    ],
)
def test_a_discarded_reply_costs_what_its_server_counted(tmp_path, answer):
    run = tmp_path / "run"
    with serve({"m": [answer, Reply("look", prompt_tokens=10, completion_tokens=5)]}) as endpoint:
        spending = opened(run)
        ask(at_endpoint(run, endpoint.url, spending), "first")
    for told in (spending, opened(run)):
        assert (told.spent.requests, told.spent.tokens) == (2, 765)
        assert not told.by_role["agent"].at_most


@pytest.mark.parametrize("answer", [Status(429), Status(503), Raw('{"error": {"message": "busy"}}')])
def test_a_refusal_costs_nothing_and_is_no_request(tmp_path, answer):
    run = tmp_path / "run"
    with serve({"m": [answer, answer, "look"]}) as endpoint:
        spending = opened(run, SpendingLimits(requests=1))
        ask(at_endpoint(run, endpoint.url, spending), "first")
    assert spending.spent.requests == opened(run).spent.requests == 1


def test_a_withheld_reply_without_a_count_costs_its_bound(tmp_path):
    run = tmp_path / "run"
    filtered = json.dumps({"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]})
    with serve({"m": [Raw(filtered)]}) as endpoint:
        spending = opened(run)
        with pytest.raises(ReplyWithheldError):
            ask(at_endpoint(run, endpoint.url, spending), "first")
    for told in (spending, opened(run)):
        assert (told.spent.requests, told.spent.tokens) == (1, PROMPT_BYTES - 95 + 32)
        assert told.by_role["agent"].at_most


# ---------------------------------------------------------------- what a server counts beyond an estimate


def dense(call: Call, dice: random.Random) -> Usage:
    """A count near a token for each byte, and a reply of all tokens that it may have."""
    size = sum(len(message.content.encode()) for message in call.messages)
    return Usage(prompt_tokens=round(size * dice.uniform(0.7, 0.99)) + 40, completion_tokens=call.max_tokens)


def sparse(call: Call, dice: random.Random) -> Usage:
    size = sum(len(message.content) for message in call.messages)
    return Usage(prompt_tokens=round(size * dice.uniform(0.2, 0.28)), completion_tokens=3)


def hidden(call: Call, dice: random.Random) -> Usage:
    """A prompt of the server's own before each conversation, and thinking beyond the limit of a reply."""
    size = sum(len(message.content) for message in call.messages)
    return Usage(prompt_tokens=3000 + size, completion_tokens=call.max_tokens + 700)


@pytest.mark.parametrize("counts", [dense, sparse, hidden])
@pytest.mark.parametrize("text", ["look around here ", "\u770b\u770b\u5468\u56f4 "])
def test_a_limit_of_tokens_is_kept_whatever_a_server_counts(counts, text):
    """Four conversations at once grow until the limit, far beyond the first counts of what a server adds itself."""
    limit, dice = 60_000, random.Random(0)
    spending = Spending(SpendingLimits(tokens=limit))

    def play(number: int) -> None:
        for turn in range(1, 200):
            messages = [Message(role="user", content=f"{number} {text * 5}") for _ in range(turn)]
            asked = Call(
                role="agent", model="m", request=f"{number} {turn}", temperature=0, max_tokens=64,
                messages=tuple(messages), reply=None,
            )  # fmt: skip
            spending.before_requests([asked])
            spending.after_reply(asked, Completion(text="look", usage=counts(asked, dice)))

    with ThreadPoolExecutor(4) as threads:
        for played in [threads.submit(play, number) for number in range(4)]:
            assert isinstance(played.exception(), SpentError)
    assert limit * 0.75 < spending.spent.tokens <= limit
