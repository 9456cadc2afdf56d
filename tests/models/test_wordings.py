"""What endpoints say when they refuse a request, in the words of their servers, and the request that follows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from align_echo.errors import ContextOverflowError, RequestRejectedError
from align_echo.models.answers import read_body, read_refusal, stated_wait
from align_echo.models.client import PassingFault, RetryPolicy
from align_echo.models.openai_model import ForgettingWatch, OpenAICompatibleModel
from align_echo.models.wordings import (
    LEAST_TEMPERATURE,
    WORDINGS,
    Refusal,
    RequestForm,
    Window,
    adapt,
    meaning,
)
from align_echo.types import Completion, Message, WordChoice
from tests.align.endpoint import Answer, Endpoint, Raw, Reply, Script, Status, serve

OVERFLOWS = {
    "OpenAI": (400, "This model's maximum context length is 4096 tokens. However, your messages resulted in "
    "5000 tokens."),
    "OpenAI responses": (400, "Your input exceeds the context window of this model. Please adjust your input."),
    "Anthropic": (400, "prompt is too long: 209123 tokens > 200000 maximum"),
    "Gemini": (400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
    "Bedrock": (400, "Input is too long for requested model."),
    "xAI": (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens"),
    "Groq": (400, "Please reduce the length of the messages or completion."),
    "Cerebras": (400, "Please reduce the length of the messages or completion. Current length is 8227, limit is 8192"),
    "Mistral": (400, "Prompt contains 200213 tokens and 0 draft tokens, too large for model with 131072 maximum "
    "context"),
    "Cohere": (400, "too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs"),
    "Kimi": (400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"),
    "MiniMax": (400, "invalid params, context window exceeds limit (2013)"),
    "Z.ai": (400, "Prompt exceeds max length"),
    "DashScope": (400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]"),
    "Copilot": (400, "prompt token count of 130001 exceeds the limit of 128000"),
    "watsonx": (400, "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model"),
    "LiteLLM": (400, "litellm.ContextWindowExceededError: BadRequestError"),
    "LiteLLM, in words": (400, "litellm.BadRequestError: Context Window exceeded for given call. No models have "
    "context window large enough for this call."),
    "Azure": (400, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
    "509178 tokens."),
    "Perplexity": (400, "The total length of all messages is too long."),
    "OpenAI, a string": (400, "Invalid 'messages[0].content': string too long. Expected a string with maximum length "
    "1048576, but got a string with length 1200000 instead."),
    "llama.cpp": (400, "the request exceeds the available context size. try increasing the context size"),
    "llama.cpp, 500": (500, "the request exceeds the available context size, try increasing it"),
    "llama.cpp, while it writes": (500, "Context size has been exceeded."),
    "SGLang": (400, "The input (4100 tokens) is longer than the model's context length (4096 tokens)."),
    "vLLM": (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    "vLLM, too long to fit": (400, "The prompt (total length 5000) is too long to fit into the model (context "
    "length 4096)"),
    "vLLM, negative": (400, "max_tokens must be at least 1, got -904."),
    "TGI": (422, "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"),
    "LM Studio": (400, "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded"),
    "LM Studio, keep": (400, "The number of tokens to keep from the initial prompt is greater than the context length"),
    "Ollama": (400, "the input length exceeds the context length"),
    "TensorRT-LLM": (400, "Prompt length (5000) exceeds maximum input length (4096)."),
    "Fireworks": (400, "The prompt is too long: 140000, model maximum context length: 131071"),
    "Vertex": (400, "Unable to submit request because the input token count is 40000 but model only supports up to "
    "32768. Reduce the input token count and try again."),
    "SiliconFlow": (400, "length of prompt_tokens (40000) must be less than max_seq_len (32768)."),
    "Cerebras, in words": (400, "Current length is 9000 while limit is 8192"),
    "Snowflake": (400, "max tokens of 4096 exceeded"),
    "Xinference": (400, "inputs length 5000 exceeds the max_input_length 4096"),
    "an entity too large": (413, "Conversation too long: 5000 tokens is over the limit"),
    "nobody's words": (400, "Sorry, your messages hold more than 4096 tokens, the window of this model"),
    "nobody's words again": (500, "RuntimeError: exceeding the token budget"),
}  # fmt: skip


@pytest.mark.parametrize("server", OVERFLOWS)
def test_a_context_that_is_too_long_is_known_in_any_words_and_asked_once(server: str) -> None:
    status, message = OVERFLOWS[server]
    with serve({"m": [refusing(status, message)]}) as endpoint:
        with pytest.raises(ContextOverflowError, match=r"."):
            model_at(endpoint).complete(TALK, temperature=0.5, max_tokens=512)
        assert len(endpoint.requests) == 1


OTHERS = {
    "Groq's tokens per minute": (413, "Request too large for model `x` on tokens per minute (TPM): Limit 6000, "
    "Requested 8000"),
    "Bedrock": (429, "Too many tokens, please wait before trying again."),
    "OpenAI": (429, "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 4096."),
    "a validator": (400, "messages.0.content: Input should be a valid string"),
    "an image": (400, "image_url is not supported by this model"),
    "a server's fault": (500, "CUDA error: an illegal memory access was encountered"),
    "its memory": (500, "CUDA out of memory. Tried to allocate 2.00 GiB"),
    "a gateway": (502, "Bad gateway"),
    "too large": (400, "Request body too large"),
    "a model that is loaded yet": (503, "Model is loading"),
    "no machine": (400, "There is no available capacity for this model"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_faults_are_no_overflow(name: str) -> None:
    assert meaning(Refusal(*OTHERS[name])) in (None, "busy")


def test_every_listed_wording_is_alone_in_its_words() -> None:
    assert len({wording.pattern for wording in WORDINGS}) == len(WORDINGS)


# ---------------------------------------------------------------- one change of the request


def changed(
    message: str, sent: dict[str, Any], form: RequestForm | None = None, status: int = 400, **more: str
) -> dict[str, Any]:
    """The fields of the form that a refusal changed."""
    form = form or RequestForm()
    adapted = adapt(form, {"messages": [{"role": "system", "content": "x"}], **sent}, Refusal(status, message, **more))
    return {} if adapted is None else {name: value for name, value in adapted[0] if value != getattr(form, name)}


@pytest.mark.parametrize(
    ("message", "asked", "change"),
    [
        ("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is "
        "supported.",
         0.2, {"temperature": None}),
        ("Unsupported parameter: 'temperature' is not supported with this model.", 0.2, {"temperature": None}),
        ("invalid temperature: only 1 is allowed for this model", 0.2, {"temperature": 1.0}),
        ("invalid temperature: only 0.6 is allowed for this model", 0.0, {"temperature": 0.6}),
        ("`temperature` may only be set to 1 when thinking is enabled.", 0.0, {"temperature": 1.0}),
        ("Input validation error: `temperature` must be strictly positive", 0.0, {"coldest": LEAST_TEMPERATURE}),
        ("temperature: Input should be greater than 0", 0.0, {"coldest": LEAST_TEMPERATURE}),
        ("temperature should be in (0.0, 1.0)", 0.0, {"coldest": LEAST_TEMPERATURE}),
        ("temperature: range: 0..1", 1.5, {"hottest": 1.0}),
        ("'temperature' must be less than or equal to 1.", 1.2, {"hottest": 1.0}),
        ("temperature is deprecated for this model", 0.7, {"temperature": None}),
    ],
)  # fmt: skip
def test_a_refused_temperature_becomes_what_is_allowed(message: str, asked: float, change: dict[str, Any]) -> None:
    assert changed(message, {"temperature": asked}) == change


@pytest.mark.parametrize(
    ("message", "asked", "change"),
    [
        ("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1 "
        "instead.", 1, {"least": 16}),
        ("max_tokens should be in [16, 8192]", 1, {"least": 16}),
        ("max_tokens is too large: 9000. This model supports at most 4096 completion tokens, whereas you "
        "provided 9000.",
         9000, {"most": 4096}),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 9000, {"most": 8192}),
        ("Range of max_tokens should be [1, 8192]", 9000, {"most": 8192}),
        ("max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for m",
         100000, {"most": 8192}),
        ("The parameter `max_completion_tokens` specified in the request are not valid: integer above maximum value, "
         "expected a value <= 12288, but got 32000 instead.", 32000, {"most": 12288}),
        ("The maximum tokens you requested exceeds the model limit of 4096. Try a lower value.", 9000, {"most": 4096}),
        ("The supported range is from 1 (inclusive) to 65,537 (exclusive): maxOutputTokens", 70000, {"most": 65536}),
        ("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
         9000, {"length_field": "max_completion_tokens"}),
        ("max_tokens is too large", 8192, {"length_field": "max_completion_tokens"}),
    ],
)  # fmt: skip
def test_a_refused_length_becomes_what_is_allowed(message: str, asked: int, change: dict[str, Any]) -> None:
    assert changed(message, {"max_tokens": asked}) == change


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("Requested sample logprobs of 20, which is greater than max allowed: 5", {"listed": 5}),
        ("Invalid 'top_logprobs': 20. Expected an integer in range [0, 5]", {"listed": 5}),
        ("Cannot request more than 5 logprobs.", {"listed": 5}),
        ("top_logprobs must be between 0 and 8", {"listed": 8}),
        ("Invalid top_logprobs and logprobs value", {"listed": 10}),
        ("logprobs is not supported by this model", {"listed": 0}),
    ],
)
def test_fewer_first_tokens_are_listed_where_twenty_are_refused(message: str, change: dict[str, Any]) -> None:
    assert changed(message, {"logprobs": True, "top_logprobs": 20}) == change


NO_SYSTEM_ROLE = (
    "System role not supported",
    "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    "Developer instruction is not enabled for models/gemma-3-27b-it",
    "Only user, assistant and tool roles are supported, got system.",
    'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter',
    "messages.0.role: Input should be 'user' or 'assistant'",
    "Invalid role: system",
    "system messages are not supported by this model",
    "This model does not support system prompts",
    "messages[0].role: 'system' is not a valid role",
)


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("message", NO_SYSTEM_ROLE)
def test_without_a_system_role_its_text_opens_the_first_user_message(message: str, status: int) -> None:
    def picky(request: dict[str, Any]) -> Answer:
        roles = [sent["role"] for sent in request["messages"]]
        return refusing(status, message) if "system" in roles else Reply("Hi.")

    replies, endpoint = asked(picky, times=2)
    assert [reply.text for reply in replies] == ["Hi.", "Hi."]
    assert len(endpoint.requests) == 3, "refused once"
    assert endpoint.requests[-1]["messages"] == [
        {"role": "user", "content": "Be brief.\n\nHello?"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "And now?"},
    ]


@pytest.mark.parametrize("both", [False, True])
def test_roles_alternate_where_a_template_asks_for_it(both: bool) -> None:
    """Mistral's old template says so for a system message, too."""

    def picky(request: dict[str, Any]) -> Answer:
        roles = [sent["role"] for sent in request["messages"]]
        turns = roles if both else [role for role in roles if role != "system"]
        ordered = turns == ["user" if index % 2 == 0 else "assistant" for index in range(len(turns))]
        text = "Conversation roles must alternate user/assistant/user/assistant/..."
        return Reply("Hi.") if ordered else refusing(400, text)

    talk = (*TALK[:2], Message(role="user", content="Are you there?"))
    replies, endpoint = asked(picky, talk=talk)
    assert [reply.text for reply in replies] == ["Hi."]
    contents = [sent["content"] for sent in endpoint.requests[-1]["messages"]]
    assert contents == (
        ["Be brief.\n\nHello?\n\nAre you there?"] if both else ["Be brief.", "Hello?\n\nAre you there?"]
    )


def test_changes_are_remembered_together_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def picky(request: dict[str, Any]) -> Answer:
        if request["messages"][0]["role"] == "system":
            return refusing(400, "System role not supported")
        if request.get("temperature") == 0:
            return refusing(422, "`temperature` must be strictly positive")
        if request.get("max_tokens", 0) > 200:
            return refusing(400, "Range of max_tokens should be [1, 200]")
        return Reply("Hi.")

    _, endpoint = asked(picky, times=3, temperature=0.0)
    assert len(endpoint.requests) == 3 + 3
    assert len(caplog.messages) == 3
    assert {key: endpoint.requests[-1][key] for key in ("temperature", "max_tokens")} == {
        "temperature": LEAST_TEMPERATURE,
        "max_tokens": 200,
    }


def test_a_refusal_that_no_change_mends_ends() -> None:
    with serve({"m": lambda request: refusing(400, "temperature: no")}) as endpoint:
        with pytest.raises(RequestRejectedError, match="temperature: no"):
            model_at(endpoint).complete(TALK, temperature=0.5)
        assert len(endpoint.requests) == 2


# ---------------------------------------------------------------- what fits beside the context

FITS = {
    "vLLM": "'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context length is "
    "600 tokens "
    "and your request has 450 input tokens (512 > 600 - 450).",
    "vLLM, earlier": "This model's maximum context length is 600 tokens. However, you requested 962 tokens (450 in the "
    "messages, 512 in the completion). Please reduce the length of the messages or completion.",
    "vLLM, later": "You passed 450 input tokens and requested 512 output tokens. However, the model's context "
    "length is only "
    "600 tokens, resulting in a maximum input length of 88 tokens.",
    "OpenRouter": "This endpoint's maximum context length is 600 tokens. However, you requested about 962 "
    "tokens (450 of text "
    "input, 512 in the output). Please reduce the length of either one",
    "SGLang": "Requested token count exceeds the model's maximum context length of 600 tokens. You requested a "
    "total of 962 "
    "tokens: 450 tokens from the input messages and 512 tokens for the completion.",
    "Anthropic": "input length and `max_tokens` exceed context limit: 450 + 512 > 600, decrease input length or "
    "`max_tokens`",
    "TGI": "`inputs` tokens + `max_new_tokens` must be <= 600. Given: 450 `inputs` tokens and 512 `max_new_tokens`",
}


@pytest.mark.parametrize("server", FITS)
def test_a_reply_shrinks_to_what_is_free_beside_the_context(server: str) -> None:
    def full(request: dict[str, Any]) -> Answer:
        return refusing(400, FITS[server]) if request["max_tokens"] > 150 else Reply("Hi.")

    replies, endpoint = asked(full)
    assert replies[0].text == "Hi."
    assert [request["max_tokens"] for request in endpoint.requests] == [512, 150]


def test_a_context_that_leaves_no_room_for_an_action_is_too_long() -> None:
    nearly = FITS["TGI"].replace("450", "500")
    with pytest.raises(ContextOverflowError):
        asked([refusing(422, nearly)])
    told = nearly.replace("512", "101")
    with serve({"m": lambda asked: refusing(422, told) if asked["max_tokens"] > 100 else Reply("Hi.")}) as endpoint:
        reply = model_at(endpoint).complete(TALK, temperature=0, max_tokens=101)
    assert reply.text == "Hi.", "little was asked for"


@pytest.mark.parametrize("server", FITS)
def test_a_window_is_remembered_for_the_run_and_said_once(server: str, caplog: pytest.LogCaptureFixture) -> None:
    """A conversation grows by a token for four letters, until less than a short reply is free."""

    def full(request: dict[str, Any]) -> Answer:
        prompt = sum(len(message["content"]) for message in request["messages"]) // 4
        most = request["max_tokens"]
        if prompt + most <= 600:
            return Reply("Hi.", prompt_tokens=prompt)
        told = FITS[server].replace("450", str(prompt)).replace("512", str(most)).replace("962", str(prompt + most))
        return refusing(400, told)

    ended = 0
    with serve({"m": full}) as endpoint:
        model = model_at(endpoint)
        for turn in range(1, 60):
            messages = [Message(role="user", content="x" * 40) for _ in range(turn)]
            try:
                model.complete(messages, temperature=0, max_tokens=512)
            except ContextOverflowError:
                ended = turn
                break
        assert ended == 48, "480 tokens leave less than 128"
        assert len(endpoint.requests) <= ended + 2, "one turn showed the window"
        model.complete([Message(role="user", content="x")], temperature=0, max_tokens=512)
    assert endpoint.requests[-1]["max_tokens"] == 512, "a short conversation has all tokens"
    assert caplog.text.count("its context holds 600 tokens") == 1


def test_a_server_whose_count_of_the_prompt_stands_still_is_asked_once_a_turn() -> None:
    told = FITS["vLLM"]
    with serve({"m": lambda asked: refusing(400, told) if asked["max_tokens"] > 150 else "Hi."}) as endpoint:
        model = model_at(endpoint)
        for turn in range(1, 40):
            model.complete([Message(role="user", content="x" * 40 * turn)], temperature=0, max_tokens=512)
    assert len(endpoint.requests) == 39 + 1


def test_a_window_bounds_no_reply_below_a_short_one() -> None:
    window = Window(tokens=600, prompt=450, characters=1800)
    lengths = {length: window.fit([Message(role="user", content="x" * length)], 512) for length in (0, 900, 1800, 9999)}
    assert lengths == {0: 512, 900: 319, 1800: 150, 9999: 128}
    assert window.fit([Message(role="user", content="x" * 9999)], 20) == 20


# ---------------------------------------------------------------- streams, thinking, forgetting


def stream(*events: Any, end: bool = True) -> Raw:
    lines = [f"data: {json.dumps(event)}" for event in events] + ["data: [DONE]"] * end
    return Raw(": a comment\n\n" + "\n\n".join(lines) + "\n\n")


def part(text: str, reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}], **more}


def test_a_model_that_only_streams_is_streamed() -> None:
    def picky(request: dict[str, Any]) -> Answer:
        if not request.get("stream"):
            return refusing(400, "This model only support stream mode, please enable the stream parameter to access it")
        if "stream_options" in request:
            return refusing(400, "Unknown parameter: 'stream_options'.", param="stream_options")
        usage = {"usage": {"prompt_tokens": 7, "completion_tokens": 2}}
        return stream(part("Hi"), part("."), part("", "stop"), {"choices": [], **usage})

    replies, endpoint = asked(picky, times=2)
    assert [(reply.text, reply.usage.prompt_tokens) for reply in replies] == [("Hi.", 7)] * 2
    assert len(endpoint.requests) == 4


def test_a_stream_that_breaks_off_is_asked_again() -> None:
    replies, endpoint = asked([stream(part("Hi"), end=False), stream(part("Hi."), part("", "stop"))])
    assert (replies[0].text, len(endpoint.requests)) == ("Hi.", 2)


@pytest.mark.parametrize(
    "broken",
    [
        Raw('{"error": {"message": "Provider returned error", "code": 429}}'),
        Raw('[{"error": {"message": "later", "status": "UNAVAILABLE", "code": 503}}]'),
        Raw('{"object": "error", "message": "engine died", "code": 500}'),
        Reply("Hal", finish_reason="error"),
        Raw(
            '{"choices": [{"message": {"content": ""}, "finish_reason": "stop", '
            '"error": {"code": 502, "message": "no"}}]}'
        ),
        Reply("Hal", finish_reason="abort"),
    ],
)
def test_an_error_within_an_answer_is_asked_again(broken: Answer) -> None:
    replies, endpoint = asked([broken, Reply("Hi.")])
    assert (replies[0].text, len(endpoint.requests)) == ("Hi.", 2)


def test_an_overflow_within_an_answer_is_an_overflow() -> None:
    raw = {
        "error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "prompt is too long: 9 > 8"}}
    }
    with (
        serve({"m": [Raw(json.dumps(raw))]}) as endpoint,
        pytest.raises(ContextOverflowError, match="prompt is too long"),
    ):
        model_at(endpoint).complete(TALK, temperature=0.5)


def thought(text: str, **choice: Any) -> Raw:
    message = {"role": "assistant", "content": choice.pop("content", ""), "reasoning_content": text}
    return Raw(json.dumps({"choices": [{"message": message, "finish_reason": "stop", **choice}]}))


def test_a_reply_that_stands_in_the_thinking_alone_is_read_there_and_counted() -> None:
    (reply,), _ = asked([thought("Action: look", content=None)])
    assert (reply.text, reply.in_thinking) == ("Action: look", True)
    (reply,), _ = asked([thought("I wonder", content="Action: look")])
    assert (reply.text, reply.in_thinking) == ("Action: look", False)
    (reply,), _ = asked([thought("I wonder whether", finish_reason="length")])
    assert (reply.text, reply.finish_reason, reply.in_thinking) == ("", "length", False), "it thought to its limit"


def test_a_judge_that_thinks_is_given_room_from_then_on() -> None:
    def thinking(request: dict[str, Any]) -> Answer:
        short = request["max_tokens"] < 100
        return Reply("<think>\nLet me", finish_reason="length") if short else Reply("<think>so</think>\nwrong")

    with serve({"m": thinking}) as endpoint:
        choices = model_at(endpoint).choose([TALK, TALK], ("correct", "wrong"))
        assert [choice.said for choice in choices if isinstance(choice, WordChoice)] == ["wrong", "wrong"]
        before = len(endpoint.requests)
        model_at_once = model_at(endpoint)
        model_at_once.choose([TALK], ("correct", "wrong"))
        model_at_once.choose([TALK], ("correct", "wrong"))
        assert len(endpoint.requests) == before + 3 + 1


def test_a_judge_with_a_least_length_gives_verdicts_with_probabilities() -> None:
    listed = {"content": [{"token": "wrong", "logprob": -0.1, "top_logprobs": [{"token": "wrong", "logprob": -0.1}]}]}

    def picky(request: dict[str, Any]) -> Answer:
        if request["max_tokens"] < 16:
            text = (
                "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead."
            )
            return refusing(400, text, param="max_output_tokens")
        if request["top_logprobs"] > 5:
            return refusing(400, "Requested sample logprobs of 20, which is greater than max allowed: 5")
        message = {"content": "wrong"}
        return Raw(json.dumps({"choices": [{"message": message, "finish_reason": "stop", "logprobs": listed}]}))

    with serve({"m": picky}) as endpoint:
        (choice,) = model_at(endpoint).choose([TALK], ("correct", "wrong"))
        assert isinstance(choice, WordChoice)
        assert choice.said == "wrong"
        assert choice.logprobs is not None
        assert len(endpoint.requests) == 3


def test_a_server_that_forgets_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def forgetting(request: dict[str, Any]) -> Answer:
        words = sum(len(message["content"].split()) for message in request["messages"])
        return Reply("look", prompt_tokens=min(words, 420))

    with serve({"m": forgetting}) as endpoint:
        model = model_at(endpoint)
        for turns in range(1, 30):
            model.complete(TALK + (Message(role="user", content="you see a lamp " * 10),) * turns, temperature=0)
    assert [line for line in caplog.messages if "may forget the start" in line and "420" in line]
    assert len(caplog.messages) == 1


def test_a_server_that_remembers_is_not_suspected() -> None:
    watch = ForgettingWatch()
    for turns in (1, 20, 3, 40, 40, 2):
        talk = [Message(role="user", content=f"{turns} goes on {index}" * 30) for index in range(turns)]
        assert not watch.stands_still(talk, sum(len(message.content) // 4 for message in talk))
    assert not any(watch.stands_still(TALK * times, 1) for times in (20, 40, 60)), "no count of tokens"
    assert not watch.stands_still(TALK, 1000)
    assert not watch.stands_still([*TALK, Message(role="user", content="x" * 1000)], 12), (
        "cached tokens are not counted"
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please retry in 0.5s.", 0.5),
        ("Please try again in 6m0s.", 360),
        ("Please try again in 320ms", 0.32),
        ("try again in 20 seconds", 20),
        ('{"retryDelay": "31s"}', 31),
        ("Try again in 2 minutes", 120),
        ("try again in 1h2m3s", 3723),
        ("try again later", None),
        ("Limit 6000, Requested 8000", None),
    ],
)
def test_a_wait_is_read_from_the_text(text: str, seconds: float | None) -> None:
    assert stated_wait(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('{"error": {"message": "no", "code": "bad", "param": "n"}}', "no"),
        ('{"error": "no"}', "no"),
        ('{"detail": "no"}', "no"),
        ('{"detail": [{"loc": ["body", "messages"], "msg": "no"}]}', "body.messages: no"),
        ('{"message": "no", "object": "error"}', "no"),
        ('[{"error": {"message": "no"}}]', "no"),
        ("<html>no</html>", "status 400: <html>no</html>"),
        ("", "status 400"),
        ("[]", "status 400: []"),
    ],
)
def test_an_error_is_read_in_every_form(body: str, says: str) -> None:
    assert read_refusal(400, body).line == says


# ---------------------------------------------------------------- help

TALK = (
    Message(role="system", content="Be brief."),
    Message(role="user", content="Hello?"),
    Message(role="assistant", content="Hi."),
    Message(role="user", content="And now?"),
)


def refusing(status: int, message: str, **more: Any) -> Status:
    return Status(status, body=json.dumps({"error": {"message": message, **more}}))


def model_at(endpoint: Endpoint) -> OpenAICompatibleModel:
    retry = RetryPolicy(attempts=2)
    return OpenAICompatibleModel("m", base_url=endpoint.url, api_key="x", retry=retry, wait=lambda seconds: None)


def asked(
    script: Script, talk: tuple[Message, ...] = TALK, times: int = 1, temperature: float = 0.5
) -> tuple[list[Completion], Endpoint]:
    with serve({"m": script}) as endpoint:
        model = model_at(endpoint)
        return [model.complete(talk, temperature=temperature, max_tokens=512) for _ in range(times)], endpoint


def streamed(*events: object) -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in (*events,)) + "data: [DONE]\n\n"


def test_calls_of_a_stream_without_numbers_are_read() -> None:
    pieces = [{"index": None, "id": "c", "function": {"name": "act", "arguments": part}} for part in ('{"a"', ": 1}")]
    pieces[1]["function"] = {"arguments": ": 1}"}
    body = read_body(streamed(*({"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces)))
    (call,) = body.calls(0)
    assert (call.name, call.arguments, call.id) == ("act", '{"a": 1}', "c")


@pytest.mark.parametrize("event", [[1], {"choices": [3]}, {"choices": [{"delta": {"tool_calls": [7]}}]}])
def test_events_of_no_known_form_are_no_reply(event: object) -> None:
    with pytest.raises(PassingFault):
        read_body(streamed(event))
