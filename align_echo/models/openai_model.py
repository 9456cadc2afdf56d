"""Chat models behind an OpenAI-compatible endpoint (OpenAI, Gemini, vLLM, Ollama ...), using the `openai` package.

Handles the needs of long runs: keys, retries with backoff, deadlines, a limit on concurrent requests, token counts and
cost, and parameters that a model renames or rejects. Not here: a single request (`client.py`), caching and logging
(`recording.py`), streaming, tools and images.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import openai
from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError

from align_echo.base.halting import pause
from align_echo.errors import (
    ContextOverflowError,
    ModelError,
    ReplyWithheldError,
    RequestRejectedError,
    UsageError,
    did_you_mean,
    without_secrets,
)
from align_echo.models.cache import Price, find_price
from align_echo.models.client import (
    EndpointClient,
    PassingFault,
    RetryPolicy,
    ask,
    ask_all,
    is_overflow,
    judged,
    said_by,
    timed,
)
from align_echo.models.drawing import MAX_TOKENS, listed_choice, more_to_read, word_choice
from align_echo.models.endpoint import DEFAULT_BASE_URL, WITHOUT_ENDPOINT, Endpoint, read_endpoint, resolve_timeout
from align_echo.types import Completion, Message, Usage, WordChoice

# ---------------------------------------------------------------- bodies of requests and answers

HIGHEST_LOGPROB = 1e-3
"""Largest log-probability accepted as a rounding error above 0."""

MOST_TOKENS = 10**9
"""Largest accepted token count."""

CHARACTERS_PER_TOKEN = 16
"""Upper bound of the average. A longer reply went beyond the requested tokens and is cut there."""


def _joined(content: Any) -> str | None:
    """Return the text of a message's content: a string, or a list whose text parts are joined."""
    if isinstance(content, list):
        texts = [_joined(part) for part in content]
        return "".join(text for text in texts if text is not None) if any(text is not None for text in texts) else None
    if isinstance(content, dict):
        content = content.get("text") if content.get("type", "text") in ("text", "output_text") else None
    return _whole_letters(content) if isinstance(content, str) else None


def _count(tokens: Any) -> int | None:
    """Parse a token count, also from text or a float with fraction 0; None if it is invalid."""
    try:
        count = float(tokens)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(count) if 0 <= count <= MOST_TOKENS and count == int(count) and not isinstance(tokens, bool) else None


def _whole_letters(text: str) -> str:
    """Replace each half of a surrogate pair, which cannot be written to a file."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


Text = Annotated[str | None, BeforeValidator(_joined)]


class _Message(BaseModel):
    content: Text = None
    refusal: Text = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: Text = None
    logprobs: Any = None


class _Listed(BaseModel):
    """A token of a reply, or a likely alternative in its place. Only the first has `top_logprobs`."""

    token: str
    logprob: float
    top_logprobs: list[_Listed] = []


_POSITIONS = TypeAdapter(list[_Listed])
"""Tokens of a full reply, in order."""


class ChatReply(BaseModel):
    """A chat completion with at least one choice. Other fields are ignored."""

    choices: list[_Choice]
    usage: Annotated[dict[str, Any], BeforeValidator(lambda usage: usage if isinstance(usage, dict) else {})] = {}

    @property
    def spent(self) -> tuple[int | None, int | None]:
        """Token counts of the prompt and of all replies together; None if the endpoint does not report them."""
        return _count(self.usage.get("prompt_tokens")), _count(self.usage.get("completion_tokens"))

    def text(self, choice: int) -> str:
        """Return the reply; "" if it is empty or withheld."""
        return self.choices[choice].message.content or ""

    def finish_reason(self, choice: int) -> Literal["stop", "length"]:
        """Return "length" if the reply was cut off, else "stop"."""
        return "length" if self.choices[choice].finish_reason == "length" else "stop"

    def withheld(self, choice: int) -> str:
        """Explain why there is no reply; "" if there is a reply, even an empty one.

        A reply cut off before its first character, as by thinking, counts as a reply: see `finish_reason`.
        """
        message, reason = self.choices[choice].message, self.choices[choice].finish_reason
        if reason == "content_filter":
            return "the endpoint's filter withheld the reply"
        if self.text(choice).strip() or reason == "length":
            return ""
        if message.refusal:
            return f"the model refuses: {' '.join(message.refusal.split())[:200]}"
        if message.tool_calls or message.function_call or reason in ("tool_calls", "function_call"):
            return "the reply is a tool call that nobody asked for, without text"
        return "the reply has no content" if message.content is None else ""

    def first_tokens(self) -> list[tuple[str, float]]:
        """Return the most likely first tokens of the first reply with log-probabilities; empty if unreadable."""
        logprobs = self.choices[0].logprobs
        try:
            positions = _POSITIONS.validate_python(logprobs.get("content") if isinstance(logprobs, dict) else None)
        except ValidationError:
            return []
        if not positions or not positions[0].top_logprobs:
            return []
        drawn, listed = positions[0], positions[0].top_logprobs
        if drawn.token not in [entry.token for entry in listed]:
            listed = [drawn, *listed]
        return [(entry.token, entry.logprob) for entry in listed] if all(map(_is_logprob, listed)) else []


def read_body(text: str) -> ChatReply:
    """Parse the body of an answer. Raises `PassingFault` for any other text, and for a body without a choice."""
    try:
        # Not `model_validate_json`: it refuses half a letter anywhere.
        body = ChatReply.model_validate(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise PassingFault(f"the reply's body is not a chat completion: {text[:80]!r}") from error
    if not body.choices:
        raise PassingFault("the reply's body has no choices")
    return body


def _is_logprob(listed: _Listed) -> bool:
    return listed.logprob <= HIGHEST_LOGPROB  # NaN is not


# ---------------------------------------------------------------- the model at an endpoint

LISTED = 20
"""Maximum number of first tokens listed with probabilities."""

NAMES_WITHIN = 5.0
"""Deadline in seconds for an endpoint's list of models, fetched after it rejected an unknown name."""

NAMES_READ = 1000
LONGEST_NAME = 100

PATIENCE = 2
"""Limit on the total wait of all attempts at one reply, in deadlines: unanswered requests may be billed."""

OPTIONAL = ("max_tokens", "temperature")
"""Request fields that some models reject."""

_REFUSED = re.compile(
    r"(?:un|not |n't )(?:support|known|recogni[sz]|expect|permitted|allowed)|extra (?:field|input)|deprecat|instead",
    re.IGNORECASE,
)
"""Wordings of endpoints that reject a field: "unsupported", "does not support" ..."""


class OpenAICompatibleModel:
    """A chat model at `base_url`.

    The key comes from `ALIGN_ECHO_API_KEY` or `OPENAI_API_KEY`. Endpoints other than OpenAI's work without one, or
    with `user:password@` in their URL. `timeout` is the deadline of one request and its full answer in seconds
    (default: `ALIGN_ECHO_TIMEOUT`, else 600). `wait` replaces the pauses between attempts in tests. Construction
    raises `UsageError` if OpenAI's host has no key, and for an unusable key or URL.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | Endpoint | None = None,
        api_key: str | None = None,
        max_concurrency: int = 8,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
        prices: Mapping[str, Price] | None = None,
        wait: Callable[[float], None] = pause,
    ) -> None:
        self._model = model
        endpoint = read_endpoint(base_url)
        self._base_url = endpoint.url
        authorization = endpoint.authorization(api_key)
        if authorization is None and self._base_url == DEFAULT_BASE_URL:
            raise UsageError(
                f"the model {model} at {DEFAULT_BASE_URL} needs a key: {did_you_mean(model, WITHOUT_ENDPOINT)}"
                "set OPENAI_API_KEY, or give the base URL of an endpoint of your own"
            )
        self._retry = retry or RetryPolicy()
        self._wait = wait
        self._most = max_concurrency
        self._slots = threading.BoundedSemaphore(max_concurrency)
        self._price = find_price(model, prices)
        self._refused: frozenset[str] = frozenset()  # the fields of `OPTIONAL` that the model rejects
        self._takes_n = True
        self._lists_tokens = True
        self._client = EndpointClient(self._base_url, authorization=authorization, timeout=resolve_timeout(timeout))

    @property
    def name(self) -> str:
        """Name of the model at its endpoint."""
        return self._model

    @property
    def base_url(self) -> str:
        """Base URL of the endpoint."""
        return self._base_url

    @property
    def identity(self) -> str:
        """Endpoint and name, unique to this model."""
        return f"{self._base_url} {self._model}"

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """Ask for a reply, cut if it goes far beyond `max_tokens`.

        Waits and retries on 408, 409, 429, 5xx, dropped connections and unreadable bodies, and once after a missed
        deadline.

        Raises `ModelError` when the attempts are used up, `RequestRejectedError` if the endpoint rejects this request
        (`ContextOverflowError` for a context beyond its limit), `ReplyWithheldError` if its answer has no reply, and
        `UsageError` if it rejects the key or does not know the model.
        """
        (reply,) = self._replies(self._ask(messages, temperature, max_tokens), 1, max_tokens)
        if isinstance(reply, ModelError):
            raise reply
        return reply

    def draw(
        self, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
    ) -> list[Completion | ModelError]:
        """Draw one reply per sample with a single request (`n`); see `models/drawing.py`.

        The prompt's usage is counted once, with the first reply. Endpoints report the replies' tokens in total, so
        they are split evenly. If an endpoint rejects `n` or returns fewer replies, the missing ones are requested one
        by one, and so are all later draws. Greedy replies are always requested one by one.
        """
        count = len(samples)
        drawn: list[Completion | ModelError] = []
        if count > 1 and temperature > 0 and self._takes_n:
            try:
                drawn += self._replies(self._ask(messages, temperature, max_tokens, {"n": count}), count, max_tokens)
            except ModelError as error:
                if not _refuses_fields(error):
                    return [error] * count
        missing = count - len(drawn)

        def single() -> Completion:
            return self.complete(messages, temperature=temperature, max_tokens=max_tokens)

        alone = ask_all([single] * missing, self._most)
        if count > 1 and temperature > 0 and alone and all(isinstance(reply, Completion) for reply in alone):
            self._takes_n = False
        return [*drawn, *alone]

    def choose(self, conversations: Sequence[Sequence[Message]], words: Sequence[str]) -> list[WordChoice | ModelError]:
        """Choose among the words by the first-token probabilities of each next reply; see `models/drawing.py`.

        Sends one request of one token per conversation. If an endpoint rejects log-probabilities or omits them, this
        and later calls ask for short replies instead.
        """
        return ask_all([partial(self._choice, messages, words) for messages in conversations], self._most)

    def _choice(self, messages: Sequence[Message], words: Sequence[str]) -> WordChoice:
        spent, lasting = Usage(), True
        if self._lists_tokens:
            try:
                body = self._ask(messages, 0.0, 1, {"logprobs": True, "top_logprobs": LISTED})
            except ModelError as error:
                if not _refuses_fields(error):
                    raise
            else:
                spent = self._usage(*body.spent)
                if listed := body.first_tokens():
                    if most := more_to_read(listed, words):
                        reply = self.complete(messages, temperature=0.0, max_tokens=most)
                        return word_choice(reply.model_copy(update={"usage": spent + reply.usage}), words)
                    return listed_choice(listed, words).model_copy(update={"usage": spent})
                if why := body.withheld(0):
                    raise self._withheld(why)
                lasting = bool(body.text(0))  # filtered replies never have log-probabilities
        reply = self.complete(messages, temperature=0.0, max_tokens=MAX_TOKENS)
        self._lists_tokens = self._lists_tokens and not lasting
        return word_choice(reply.model_copy(update={"usage": spent + reply.usage}), words)

    def _ask(
        self, messages: Sequence[Message], temperature: float, max_tokens: int, more: Mapping[str, Any] | None = None
    ) -> ChatReply:
        """Send a request with these fields and return the answer, retrying passing faults."""

        def attempt() -> ChatReply:
            with self._slots, timed():
                return read_body(self._send(messages, temperature, max_tokens, more or {}))

        patience, notices = PATIENCE * self._client.timeout, self._client.notices
        return ask(attempt, self._retry, self._wait, self._where, patience, notices)

    @property
    def _where(self) -> str:
        return f"{self._model} at {self._base_url}"

    def _send(self, messages: Sequence[Message], temperature: float, max_tokens: int, more: Mapping[str, Any]) -> str:
        """Send a request and return the body.

        Retries once for each field that the model renames or rejects, and remembers what it accepted.
        """
        question = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
        }
        refused = self._refused
        for _ in range(3):
            length_field = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
            parameters: dict[str, Any] = {length_field: max_tokens, **more}
            if "temperature" not in refused:
                parameters["temperature"] = temperature
            try:
                text = self._client.post(f"{self._base_url}/chat/completions", {**question, **parameters})
            except openai.APIStatusError as error:
                field = next((name for name in _refused_fields(error) if name in parameters), "")
                if field not in OPTIONAL:
                    # Not "from error", whose text may hold secrets; the message has its printable part.
                    problem = judged(error, self._where)
                    hint = self._nearest() if error.status_code == 404 else ""
                    raise UsageError(f"{problem}; {hint}".rstrip()) if hint else problem from None
                refused |= {field}
            else:
                self._refused = refused
                return text
        raise RequestRejectedError(f"{self._model} refuses the request's parameters")

    def _nearest(self) -> str:
        """Suggest the most similar name among the endpoint's models and the package's models; "" if there is none."""
        try:
            listed = json.loads(self._client.get(f"{self._base_url}/models", within=NAMES_WITHIN))["data"]
            names = [str(model["id"]) for model in listed[:NAMES_READ]]
        except (openai.APIStatusError, ModelError, PassingFault, ValueError, TypeError, LookupError):
            names = []
        readable = [name for name in names if name.isprintable() and len(name) <= LONGEST_NAME]
        return did_you_mean(self._model, [name for name in (*readable, *WITHOUT_ENDPOINT) if name != self._model])

    def _replies(self, body: ChatReply, most: int, max_tokens: int) -> list[Completion | ModelError]:
        """Extract up to `most` replies of an answer, splitting its usage; an error in place of a withheld reply."""
        count = min(len(body.choices), most)
        prompt, completion = body.spent
        share, rest = divmod(completion or 0, count)
        replies: list[Completion | ModelError] = []
        for index in range(count):
            written = None if completion is None else share + (index < rest)
            usage = self._usage(0 if index else prompt, written)
            text, longest = without_secrets(body.text(index)), max_tokens * CHARACTERS_PER_TOKEN
            reason = "length" if len(text) > longest else body.finish_reason(index)
            why = body.withheld(index)
            reply = Completion(text=text[:longest], finish_reason=reason, usage=usage)
            replies.append(self._withheld(why) if why else reply)
        return replies

    def _withheld(self, why: str) -> ReplyWithheldError:
        return ReplyWithheldError(f"{self._where}: {why}")

    def _usage(self, prompt: int | None, completion: int | None) -> Usage:
        cost = None
        if self._price is not None and prompt is not None and completion is not None:
            cost = self._price.cost(prompt, completion)
        return Usage(prompt_tokens=prompt, completion_tokens=completion, cost_usd=cost)


def _refuses_fields(error: ModelError) -> bool:
    """Return True if a simpler request may succeed."""
    return isinstance(error, RequestRejectedError) and not isinstance(error, ContextOverflowError)


def _refused_fields(error: openai.APIStatusError) -> list[str]:
    """Return the fields that an error message rejects: the field it names explicitly, else those mentioned in its
    text.

    A limit that is too high does not count, although the error names `max_tokens` there too.
    """
    if error.status_code not in (400, 422) or is_overflow(error):
        return []
    message = said_by(error)
    if not (_REFUSED.search(message) or _REFUSED.search(str(error.code))):
        return []
    return [str(error.param)] if error.param else [name for name in OPTIONAL if re.search(rf"\b{name}\b", message)]
