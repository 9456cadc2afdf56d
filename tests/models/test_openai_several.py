"""Several things at once from an OpenAI-compatible endpoint: n replies by one request, words by their first tokens."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from align_echo.errors import ContextOverflowError, ModelError, RequestRejectedError, UsageError
from align_echo.models.client import RetryPolicy
from align_echo.models.drawing import MAX_TOKENS, THINKING_TOKENS, choose, draw, draw_each
from align_echo.models.openai_model import OpenAICompatibleModel
from align_echo.models.prices import Price
from align_echo.types import Completion, Message, Usage, WordChoice
from tests.align.endpoint import Answer, Endpoint, Raw, Reply, Script, Status, serve

HELLO = (Message(role="user", content="Hello?"),)
WORDS = ("correct", "wrong")
ASKED = [(Message(role="user", content=text),) for text in ("a", "b", "c")]
TOO_LONG = Status(400, body='{"error": {"message": "too long", "code": "context_length_exceeded"}}')


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ALIGN_ECHO_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def model_at(endpoint: Endpoint) -> OpenAICompatibleModel:
    return OpenAICompatibleModel(
        "m",
        base_url=endpoint.url,
        retry=RetryPolicy(attempts=2),
        wait=lambda seconds: None,
        prices={"m": Price(prompt=1_000_000, completion=2_000_000)},
    )


def body(*texts: str, listed: Any = None, spent: tuple[int, int] = (10, 7)) -> Raw:
    """A chat completion with these replies; `listed` stands in for the log-probabilities of each."""
    choices = [
        {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", "logprobs": listed}
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": spent[0], "completion_tokens": spent[1]}
    return Raw(json.dumps({"id": "1", "choices": choices, "usage": usage}))


def position(*tokens: tuple[str, float]) -> dict[str, Any]:
    """Log-probabilities of one position as endpoints write them: the drawn token, and the likeliest."""
    listed = [{"token": token, "logprob": logprob, "bytes": None} for token, logprob in tokens]
    return {"content": [{**listed[0], "top_logprobs": listed}], "refusal": None}


# ---------------------------------------------------------------- several replies


def drawn(script: Script, count: int = 3, temperature: float = 0.7) -> tuple[list[Completion], Endpoint]:
    with serve({"m": script}) as endpoint:
        return draw(model_at(endpoint), HELLO, range(count), temperature=temperature, max_tokens=9), endpoint


def test_several_replies_are_one_request_and_paid_for_once() -> None:
    replies, endpoint = drawn([body("a", "b", "c")])
    assert [reply.text for reply in replies] == ["a", "b", "c"]
    (request,) = endpoint.requests
    assert (request["n"], request["temperature"], request["max_tokens"]) == (3, 0.7, 9)
    assert [reply.usage.prompt_tokens for reply in replies] == [10, 0, 0]
    assert [reply.usage.completion_tokens for reply in replies] == [3, 2, 2]
    assert sum((reply.usage for reply in replies), Usage()) == Usage(prompt_tokens=10, completion_tokens=7, cost_usd=24)


def test_one_reply_and_greedy_replies_are_asked_for_as_ever() -> None:
    replies, endpoint = drawn([Reply("a")], count=1)
    assert [reply.text for reply in replies] == ["a"]
    assert "n" not in endpoint.requests[0]
    replies, endpoint = drawn([Reply("a"), Reply("a")], count=2, temperature=0.0)
    assert len(endpoint.requests) == len(replies) == 2
    assert all("n" not in request for request in endpoint.requests)


def test_an_endpoint_that_refuses_several_is_asked_one_by_one_from_then_on() -> None:
    def single(request: dict[str, Any]) -> Answer:
        return Status(400, body='{"error": {"message": "n must be 1"}}') if "n" in request else Reply("a")

    with serve({"m": single}) as endpoint:
        model = model_at(endpoint)
        for _ in range(2):
            replies = draw(model, HELLO, range(3), temperature=1.0)
            assert [reply.usage for reply in replies] == [Usage(prompt_tokens=10, completion_tokens=5, cost_usd=20)] * 3
        assert ["n" in request for request in endpoint.requests] == [True] + 6 * [False]


def test_an_endpoint_that_gives_fewer_is_asked_for_the_rest() -> None:
    replies, endpoint = drawn([body("a", "b"), Reply("c")])
    assert [reply.text for reply in replies] == ["a", "b", "c"]
    assert ["n" in request for request in endpoint.requests] == [True, False]
    assert sum((reply.usage for reply in replies), Usage()).prompt_tokens == 20


def test_more_than_was_asked_for_is_left_out_and_still_counted() -> None:
    replies, _ = drawn([body("a", "b", "c")], count=2)
    assert [reply.text for reply in replies] == ["a", "b"]
    assert sum((reply.usage for reply in replies), Usage()).completion_tokens == 7


@pytest.mark.parametrize("fault", [Status(500), Raw('{"choices": []}')])
def test_a_passing_fault_of_the_one_request_is_asked_again_and_a_lasting_one_fails_all(fault: Answer) -> None:
    assert len(drawn([fault, body("a", "b", "c")])[0]) == 3
    with pytest.raises(ModelError, match="no reply in 2 attempts"):
        drawn([fault, fault])


def test_a_context_that_is_too_long_is_not_asked_about_again() -> None:
    with serve({"m": [TOO_LONG]}) as endpoint:
        errors = draw_each(model_at(endpoint), HELLO, range(3), temperature=1.0, max_tokens=5)
        assert [type(error) for error in errors] == [ContextOverflowError] * 3
        assert len(endpoint.requests) == 1


def test_a_request_that_is_refused_either_way_is_refused_and_several_may_be_asked_for_again() -> None:
    filtered = Status(400, body='{"error": {"message": "filtered"}}')
    with serve({"m": [filtered] * 3 + [body("a", "b")]}) as endpoint:
        model = model_at(endpoint)
        with pytest.raises(RequestRejectedError, match="filtered"):
            draw(model, HELLO, range(2), temperature=1.0)
        assert [reply.text for reply in draw(model, HELLO, range(2), temperature=1.0)] == ["a", "b"]


# ---------------------------------------------------------------- words


def chosen(script: Script, count: int = 1) -> tuple[list[WordChoice | ModelError], Endpoint]:
    with serve({"m": script}) as endpoint:
        return choose(model_at(endpoint), ASKED[:count], WORDS), endpoint


def test_words_are_weighed_by_the_listed_first_tokens_of_one_request_of_one_token() -> None:
    listed = position((" Corr", math.log(0.5)), ("c", math.log(0.1)), ("wrong", math.log(0.3)), ("yes", math.log(0.1)))
    (answer,), endpoint = chosen([body(" Corr", listed=listed, spent=(12, 1))])
    assert isinstance(answer, WordChoice)
    assert answer.said == "correct"
    assert answer.logprobs == pytest.approx([math.log(0.6), math.log(0.3)])
    assert answer.usage == Usage(prompt_tokens=12, completion_tokens=1, cost_usd=14)
    (request,) = endpoint.requests
    assert (request["temperature"], request["max_tokens"]) == (0.0, 1)
    assert (request["logprobs"], request["top_logprobs"]) == (True, 20)


def test_many_conversations_are_asked_about_each_by_itself_and_answered_in_their_order() -> None:
    def answer(request: dict[str, Any]) -> Answer:
        question = request["messages"][-1]["content"]
        if question == "b":
            return TOO_LONG
        return body("w", listed=position(("w", -0.1 if question == "a" else -0.7), ("correct", -3.0)))

    (first, second, third), endpoint = chosen(answer, 3)
    assert isinstance(first, WordChoice)
    assert isinstance(second, ContextOverflowError)
    assert isinstance(third, WordChoice)
    assert first.logprobs == pytest.approx((-3.0, -0.1))
    assert third.logprobs == pytest.approx((-3.0, -0.7))
    assert len(endpoint.requests) == 3


def test_the_drawn_token_counts_even_where_the_endpoint_leaves_it_out_of_its_list() -> None:
    listed = position(("wrong", -0.1), ("correct", -3.0))
    listed["content"][0]["top_logprobs"].pop(0)
    ((answer,), _) = chosen([body("wrong", listed=listed)])
    assert isinstance(answer, WordChoice)
    assert answer.said == "wrong"
    assert answer.logprobs == pytest.approx((-3.0, -0.1))


@pytest.mark.parametrize(
    ("first", "reply", "most"),
    [("**", "**Wrong.**", MAX_TOKENS), ("<think>", "<think>It is correct? No.</think>\n\nWrong", THINKING_TOKENS)],
)
def test_behind_a_mark_or_a_thought_the_whole_reply_is_read(first: str, reply: str, most: int) -> None:
    def script(request: dict[str, Any]) -> Answer:
        return body(first, listed=position((first, -0.1), ("The", -3.0))) if "logprobs" in request else Reply(reply)

    ((answer,), endpoint) = chosen(script)
    assert isinstance(answer, WordChoice)
    assert (answer.said, answer.logprobs) == ("wrong", None)
    assert [request["max_tokens"] for request in endpoint.requests] == [1, most]


def refusing(request: dict[str, Any]) -> Answer:
    refused = Status(400, body='{"error": {"message": "logprobs are not supported", "param": "logprobs"}}')
    return refused if "logprobs" in request else Reply("Wrong.")


@pytest.mark.parametrize("script", [refusing, lambda request: Reply("Wrong.")], ids=["refuses", "ignores"])
def test_an_endpoint_without_log_probabilities_is_asked_for_a_word_from_then_on(script: Script) -> None:
    with serve({"m": script}) as endpoint:
        model = model_at(endpoint)
        for _ in range(2):
            (answer,) = choose(model, ASKED[:1], WORDS)
            assert isinstance(answer, WordChoice)
            assert (answer.said, answer.logprobs) == ("wrong", None)
        assert ["logprobs" in request for request in endpoint.requests] == [True, False, False]
        assert {request["max_tokens"] for request in endpoint.requests[1:]} == {MAX_TOKENS}


def test_what_is_asked_twice_is_paid_twice() -> None:
    ((answer,), _) = chosen([Reply("W", prompt_tokens=9, completion_tokens=1), Reply("wrong")])
    assert isinstance(answer, WordChoice)
    assert answer.usage == Usage(prompt_tokens=19, completion_tokens=6, cost_usd=31)


NO_LOGPROBS: dict[str, Any] = {
    "null": None,
    "no positions": {"content": []},
    "no list": {"content": [{"token": "wrong", "logprob": -0.1, "top_logprobs": []}]},
    "another shape": [{"wrong": -0.1}],
    "no number": position(("wrong", math.nan)),
    "above 0": position(("wrong", 3.0)),
}


@pytest.mark.parametrize("listed", NO_LOGPROBS.values(), ids=NO_LOGPROBS)
def test_log_probabilities_that_cannot_be_read_are_none(listed: Any) -> None:
    ((answer,), _) = chosen([body("wrong", listed=listed), body("correct", listed=listed)])
    assert isinstance(answer, WordChoice)
    assert (answer.said, answer.logprobs) == ("correct", None)


def test_a_reply_that_was_filtered_does_not_mean_that_there_are_no_log_probabilities() -> None:
    listed = position(("wrong", -0.1))
    with serve({"m": [body(""), body(""), body("wrong", listed=listed)]}) as endpoint:
        model = model_at(endpoint)
        ((filtered,), (answer,)) = (choose(model, ASKED[:1], WORDS) for _ in range(2))
        assert filtered == WordChoice(said=None, usage=Usage(prompt_tokens=20, completion_tokens=14, cost_usd=48))
        assert isinstance(answer, WordChoice)
        assert answer.logprobs == pytest.approx((math.log(1 - math.exp(-0.1)), -0.1))


def test_a_model_that_names_its_parameters_otherwise_is_adapted_to_here_too() -> None:
    def picky(request: dict[str, Any]) -> Answer:
        for name in ("max_tokens", "temperature"):
            if name in request:
                return Status(400, body=f'{{"error": {{"message": "unsupported", "param": "{name}"}}}}')
        return body("wrong", listed=position(("wrong", -0.1)))

    ((answer,), endpoint) = chosen(picky)
    assert isinstance(answer, WordChoice)
    assert answer.logprobs is not None
    assert endpoint.requests[-1]["max_completion_tokens"] == 1


def test_a_refused_key_is_told_to_the_user() -> None:
    with pytest.raises(UsageError, match="refuses the key"):
        chosen(lambda request: Status(401), 3)
