"""The OpenAI-compatible client against a real HTTP endpoint: what it sends, when it asks again, when it gives up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from align_echo.errors import ContextOverflowError, ModelError, RequestRejectedError, UsageError
from align_echo.models import load_model
from align_echo.models.client import RetryPolicy
from align_echo.models.openai_model import OpenAICompatibleModel, list_models
from align_echo.models.prices import Price
from align_echo.types import Completion, Message
from tests.align.endpoint import Answer, Drop, Endpoint, Raw, Reply, Status, serve

HELLO = (Message(role="system", content="Be brief."), Message(role="user", content="Hello?"))


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ALIGN_ECHO_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def ask(answers: list[Answer], waits: list[float] | None = None, attempts: int = 4) -> tuple[Completion, Endpoint]:
    slept: list[float] = [] if waits is None else waits
    with serve({"m": answers}) as endpoint:
        model = OpenAICompatibleModel(
            "m", base_url=endpoint.url, retry=RetryPolicy(attempts=attempts), wait=slept.append
        )
        return model.complete(HELLO, temperature=0.2, max_tokens=77), endpoint


def test_sends_the_request_and_reads_the_reply() -> None:
    completion, endpoint = ask([Reply("Hi.", prompt_tokens=12, completion_tokens=3)])
    assert completion.text == "Hi."
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (12, 3)
    assert completion.usage.cost_usd is None, "the model has no price"
    request = endpoint.requests[0]
    assert request["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello?"},
    ]
    assert (request["model"], request["temperature"], request["max_tokens"]) == ("m", 0.2, 77)


def test_a_cut_reply_says_so() -> None:
    assert ask([Reply("Hi", finish_reason="length")])[0].finish_reason == "length"


@pytest.mark.parametrize(
    "fault",
    [
        Status(429),
        Status(500),
        Status(503, body="<html>upstream</html>"),
        Status(408),
        Drop(),
        Drop(halfway=True),
        Raw(""),
        Raw("not json"),
        Raw('{"choices": []}'),
        Raw('{"choices": [{"message": null}]}'),
        Raw('"text"'),
    ],
)
def test_a_passing_fault_is_asked_again(fault: Answer) -> None:
    waits: list[float] = []
    completion, endpoint = ask([fault, fault, Reply("Hi.")], waits)
    assert completion.text == "Hi."
    assert len(endpoint.requests) == 3
    assert 0.5 <= waits[0] <= 1.0
    assert 1.0 <= waits[1] <= 2.0


@pytest.mark.parametrize("fault", [Status(500), Drop(), Raw("{")])
def test_a_lasting_fault_is_a_model_error(fault: Answer) -> None:
    with pytest.raises(ModelError, match="gave no reply in 4 attempts") as caught:
        ask([fault] * 4)
    assert "\n" not in str(caught.value)


def test_retry_after_in_seconds_is_obeyed_and_bounded() -> None:
    waits: list[float] = []
    ask([Status(429, {"Retry-After": "7"}), Status(503, {"Retry-After": "9999"}), Reply("Hi.")], waits)
    assert waits == [7.0, 300.0]


def test_retry_after_as_a_date_is_obeyed() -> None:
    waits: list[float] = []
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    ask([Status(429, {"Retry-After": later}), Status(429, {"Retry-After": "soon"}), Reply("Hi.")], waits)
    assert 60 < waits[0] <= 100
    assert waits[1] <= 2


@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_key_is_told_to_the_user_at_once(code: int) -> None:
    with pytest.raises(UsageError, match="refuses the key"):
        ask([Status(code), Reply("Hi.")])


def test_an_unknown_model_is_told_to_the_user_at_once() -> None:
    with serve({}) as endpoint, pytest.raises(UsageError, match="check the model's name"):
        OpenAICompatibleModel("nope", base_url=endpoint.url).complete(HELLO, temperature=0)


def test_an_unknown_model_is_answered_with_the_nearest_that_the_endpoint_lists() -> None:
    with serve({"qwen3-4b": [], "llama-9": [], "qwen\x1b3": []}) as endpoint:
        with pytest.raises(UsageError, match=r"; did you mean qwen3-4b\?$"):
            OpenAICompatibleModel("qwen-4b", base_url=endpoint.url).complete(HELLO, temperature=0)
        with pytest.raises(UsageError, match=r"; did you mean pocket\?$"):
            OpenAICompatibleModel("pockett", base_url=endpoint.url).complete(HELLO, temperature=0)


@pytest.mark.parametrize(
    "nowhere",
    [
        Status(404, body='{"detail": "Not Found"}'),
        Status(405, body='{"detail": "Method Not Allowed"}'),
        Raw('{"error": "Unexpected endpoint or method. (POST /chat/completions)"}'),
    ],
    ids=["vLLM", "Open WebUI", "LM Studio"],
)
def test_a_base_url_without_its_version_is_answered_with_the_one_that_lists_models(nowhere: Answer) -> None:
    with serve({"m": lambda request: nowhere, "other": [Status(404)]}) as endpoint:
        bare = endpoint.url.removesuffix("/v1")
        with pytest.raises(UsageError, match=rf"m at {bare} is not there .*; the base URL is {endpoint.url}$"):
            OpenAICompatibleModel("m", base_url=bare).complete(HELLO, temperature=0)
        with pytest.raises(UsageError, match=rf"^{bare} is not there \(404\): the base URL is {endpoint.url}$"):
            list_models(bare)
        with pytest.raises(UsageError, match=rf"; most servers answer under {bare}/api/v1$"):
            OpenAICompatibleModel("m", base_url=f"{bare}/api").complete(HELLO, temperature=0)
        with pytest.raises(UsageError) as caught:
            OpenAICompatibleModel("other", base_url=endpoint.url).complete(HELLO, temperature=0)
        assert "/v1/v1" not in str(caught.value)
        assert {request["model"] for request in endpoint.requests} == {"m", "other"}
        assert len(endpoint.requests) == 3, "each is asked once"


def test_a_refused_user_is_told_where_user_and_password_stand() -> None:
    refused = Status(401, body='{"error": {"message": "who is it?"}}')
    in_the_body = Raw('{"error": {"message": "who is it?", "code": 401}}')
    with serve({"m": [refused, in_the_body]}) as endpoint:
        model = OpenAICompatibleModel("m", base_url=endpoint.url.replace("//", "//me:pass-word-1@"))
        for _ in range(2):
            with pytest.raises(UsageError, match=r"the user and the password \(401\): check them in the base URL$"):
                model.complete(HELLO, temperature=0)
    with serve({"m": [in_the_body]}) as endpoint, pytest.raises(UsageError, match=r"\(401\): check ALIGN_ECHO_API_KEY"):
        OpenAICompatibleModel("m", base_url=endpoint.url).complete(HELLO, temperature=0)


def test_a_refused_request_is_not_sent_again() -> None:
    with pytest.raises(RequestRejectedError, match="too long"):
        ask([Status(400, body='{"error": {"message": "too long"}}'), Reply("Hi.")])


def test_a_context_that_is_too_long_is_told_apart_from_other_refusals() -> None:
    body = '{"error": {"message": "this model takes 8 tokens", "code": "context_length_exceeded"}}'
    with pytest.raises(ContextOverflowError, match="takes 8 tokens"):
        ask([Status(400, body=body), Reply("Hi.")])


def test_an_empty_account_is_not_asked_again() -> None:
    body = '{"error": {"message": "pay", "code": "insufficient_quota"}}'
    with pytest.raises(UsageError, match="no credit left: pay; --resume goes on once it has"):
        ask([Status(429, body=body), Reply("Hi.")])


def test_models_that_refuse_a_parameter_are_adapted_to_and_remembered() -> None:
    def picky(request: dict[str, object]) -> Answer:
        for name in ("max_tokens", "temperature"):
            if name in request:
                body = f'{{"error": {{"message": "unsupported", "param": "{name}", "code": "unsupported_parameter"}}}}'
                return Status(400, body=body)
        return Reply("Hi.")

    with serve({"m": picky}) as endpoint:
        model = OpenAICompatibleModel("m", base_url=endpoint.url)
        assert model.complete(HELLO, temperature=0.2, max_tokens=77).text == "Hi."
        assert model.complete(HELLO, temperature=0.2, max_tokens=77).text == "Hi."
        assert len(endpoint.requests) == 4
        assert endpoint.requests[-1]["max_completion_tokens"] == 77


def test_the_default_host_needs_a_key_in_one_line() -> None:
    with pytest.raises(UsageError, match="set OPENAI_API_KEY") as caught:
        load_model("gpt-4.1")
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="did you mean pocket"):
        load_model("pocke")


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "general")
    assert load_model("gpt-4.1").name == "gpt-4.1"
    monkeypatch.setenv("ALIGN_ECHO_API_KEY", "special")
    _, endpoint = ask([Reply("Hi.")])
    assert endpoint.authorizations == ["Bearer special"]


def test_a_base_url_must_be_a_url() -> None:
    with pytest.raises(UsageError, match="must start with http"):
        load_model("m", base_url="localhost:8000")


def test_known_prices_become_cost() -> None:
    with serve({"m": [Reply("Hi.", prompt_tokens=1_000_000, completion_tokens=500_000)]}) as endpoint:
        prices = {"m": Price(prompt=2, completion=8)}
        model = OpenAICompatibleModel("m", base_url=endpoint.url, prices=prices)
        assert model.complete(HELLO, temperature=0).usage.cost_usd == pytest.approx(6.0)
