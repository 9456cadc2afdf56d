"""Chat models behind an OpenAI-compatible endpoint (OpenAI, Gemini, vLLM, Ollama ...), on the `openai` package.

Owns what a long run needs: keys, retries with backoff, deadlines, a limit on requests in flight, token counts and cost,
and parameters that a model takes by another name or not at all. Left out: one request's way there and back
(`client.py`), how an answer is read (`openai_body.py`), caching and logging (`recording.py`), streaming, tools and
images.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import openai

from align_echo.errors import (
    ContextOverflowError,
    ModelError,
    ReplyWithheldError,
    RequestRejectedError,
    UsageError,
    did_you_mean,
)
from align_echo.halting import pause
from align_echo.models.choosing import MAX_TOKENS, listed_choice, more_to_read, word_choice
from align_echo.models.client import Client
from align_echo.models.endpoint import DEFAULT_BASE_URL, resolve_authorization, resolve_base_url, resolve_timeout
from align_echo.models.names import WITHOUT_ENDPOINT
from align_echo.models.openai_body import CHARACTERS_PER_TOKEN, Body, read_body
from align_echo.models.prices import Price, price_of
from align_echo.models.retry import PassingFault, RetryPolicy, ask, ask_all, is_overflow, judged, said_by, timed
from align_echo.redaction import without_secrets
from align_echo.types import Completion, Message, Usage, WordChoice

LISTED = 20
"""Most first tokens whose probabilities an endpoint lists."""

NAMES_WITHIN = 5.0
"""Seconds that are waited for the names of an endpoint's models, when one was asked for that it does not know."""

NAMES_READ = 1000
LONGEST_NAME = 100

PATIENCE = 2
"""All attempts at one reply together wait for at most so many deadlines: unanswered requests may be paid for."""

OPTIONAL = ("max_tokens", "temperature")
"""Fields of a request that some models do not take."""

_REFUSED = re.compile(
    r"(?:un|not |n't )(?:support|known|recogni[sz]|expect|permitted|allowed)|extra (?:field|input)|deprecat|instead",
    re.IGNORECASE,
)
"""How endpoints say that a field is none of theirs, beside naming it: "unsupported", "does not support" ..."""


class OpenAICompatibleModel:
    """A chat model at `base_url`.

    The key comes from `ALIGN_ECHO_API_KEY` or `OPENAI_API_KEY`; endpoints other than OpenAI's work without one, or
    with `user:password@` in their URL. `timeout` is the deadline of one request and its whole answer in seconds
    (default: `ALIGN_ECHO_TIMEOUT`, else 600). `wait` replaces the pauses between attempts in tests. Raises `UsageError`
    at construction when OpenAI's own host has no key, and for a key or URL that cannot be used.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        max_concurrency: int = 8,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
        prices: Mapping[str, Price] | None = None,
        wait: Callable[[float], None] = pause,
    ) -> None:
        self._model = model
        self._base_url = resolve_base_url(base_url)
        authorization = resolve_authorization(base_url, api_key)
        if authorization is None and self._base_url == DEFAULT_BASE_URL:
            raise UsageError(
                f"the model {model} at {DEFAULT_BASE_URL} needs a key: {did_you_mean(model, WITHOUT_ENDPOINT)}"
                "set OPENAI_API_KEY, or give the base URL of an endpoint of your own"
            )
        self._retry = retry or RetryPolicy()
        self._wait = wait
        self._most = max_concurrency
        self._slots = threading.BoundedSemaphore(max_concurrency)
        self._price = price_of(model, prices)
        self._refused: frozenset[str] = frozenset()  # those of `OPTIONAL` that the model does not take
        self._takes_n = True
        self._lists_tokens = True
        self._client = Client(self._base_url, authorization=authorization, timeout=resolve_timeout(timeout))

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""
        return self._model

    @property
    def base_url(self) -> str:
        """Where it is asked."""
        return self._base_url

    @property
    def identity(self) -> str:
        """Endpoint and name: what tells this model from another of the same name."""
        return f"{self._base_url} {self._model}"

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """The model's reply, cut where it goes on far beyond `max_tokens`. Waits and asks again on 408, 409, 429, 5xx,
        dropped connections and bodies that cannot be read, and once after a deadline that ran out.

        Raises `ModelError` when the attempts are spent, `RequestRejectedError` when the endpoint refuses this request
        (`ContextOverflowError` where it says that the context is too long), `ReplyWithheldError` when its answer holds
        no reply, and `UsageError` when it refuses the key or does not know the model.
        """
        (reply,) = self._replies(self._ask(messages, temperature, max_tokens), 1, max_tokens)
        if isinstance(reply, ModelError):
            raise reply
        return reply

    def draw(
        self, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
    ) -> list[Completion | ModelError]:
        """One reply for each sample, all by one request (`n`): see `models/drawing.py`.

        Its prompt is counted once, with the first reply; endpoints count the replies' tokens together, so they are
        split evenly. Where an endpoint refuses `n` or gives fewer, what is missing is asked for one by one, and so is
        all from then on. Greedy replies are always asked for one by one.
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

    def choose(
        self, conversations: Sequence[Sequence[Message]], words: Sequence[str]
    ) -> list[WordChoice | ModelError]:
        """What the endpoint lists of the words as the first token of each next reply: see `models/choosing.py`.

        One request of one token each. An endpoint that refuses or gives no log-probabilities is asked for short
        replies, now and from then on.
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
                lasting = bool(body.text(0))  # what was filtered has no log-probabilities anywhere
        reply = self.complete(messages, temperature=0.0, max_tokens=MAX_TOKENS)
        self._lists_tokens = self._lists_tokens and not lasting
        return word_choice(reply.model_copy(update={"usage": spent + reply.usage}), words)

    def _ask(
        self, messages: Sequence[Message], temperature: float, max_tokens: int, more: Mapping[str, Any] | None = None
    ) -> Body:
        """The endpoint's answer to a request with these fields, asked again while faults may pass."""

        def attempt() -> Body:
            with self._slots, timed():
                return read_body(self._send(messages, temperature, max_tokens, more or {}))

        patience, notices = PATIENCE * self._client.timeout, self._client.notices
        return ask(attempt, self._retry, self._wait, self._where, patience, notices)

    @property
    def _where(self) -> str:
        return f"{self._model} at {self._base_url}"

    def _send(self, messages: Sequence[Message], temperature: float, max_tokens: int, more: Mapping[str, Any]) -> str:
        """The body of one answer. A model that names its limit otherwise or takes no temperature is asked once more
        for each; what it then answers to is remembered.
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
                    # Not "from error": what it holds of the answer is in the message as far as it may be told.
                    problem = judged(error, self._where)
                    hint = self._nearest() if error.status_code == 404 else ""
                    raise UsageError(f"{problem}; {hint}".rstrip()) if hint else problem from None
                refused |= {field}
            else:
                self._refused = refused
                return text
        raise RequestRejectedError(f"{self._model} refuses the request's parameters")

    def _nearest(self) -> str:
        """A question about the nearest of the names that the endpoint lists and of models that need none; or ""."""
        try:
            listed = json.loads(self._client.get(f"{self._base_url}/models", within=NAMES_WITHIN))["data"]
            names = [str(model["id"]) for model in listed[:NAMES_READ]]
        except (openai.APIStatusError, ModelError, PassingFault, ValueError, TypeError, LookupError):
            names = []
        readable = [name for name in names if name.isprintable() and len(name) <= LONGEST_NAME]
        return did_you_mean(self._model, [name for name in (*readable, *WITHOUT_ENDPOINT) if name != self._model])

    def _replies(self, body: Body, most: int, max_tokens: int) -> list[Completion | ModelError]:
        """Up to so many replies of one answer, whose usage is split among them; an error for what was withheld."""
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
    """Whether a plainer request may fare better."""
    return isinstance(error, RequestRejectedError) and not isinstance(error, ContextOverflowError)


def _refused_fields(error: openai.APIStatusError) -> list[str]:
    """The fields that a refusal says are none of the model's: the one that it names as such, else those in its words.

    A limit that is too high is none of them, though a refusal names `max_tokens` there too.
    """
    if error.status_code not in (400, 422) or is_overflow(error):
        return []
    message = said_by(error)
    if not (_REFUSED.search(message) or _REFUSED.search(str(error.code))):
        return []
    return [str(error.param)] if error.param else [name for name in OPTIONAL if re.search(rf"\b{name}\b", message)]
