"""Chat models behind an OpenAI-compatible endpoint (OpenAI, Gemini, vLLM, Ollama ...), on the `openai` package.

Owns what a long run needs: keys, retries with backoff, a limit on requests in flight, a strict reading of the reply,
token counts and cost. Left out: caching and logging (`recording.py`), streaming, tools and images.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import openai
from openai.types.chat import ChatCompletionMessageParam

from align_echo.errors import ContextOverflowError, ModelError, RequestRejectedError, UsageError
from align_echo.halting import pause
from align_echo.models.choosing import MAX_TOKENS, listed_choice, word_choice
from align_echo.models.endpoint import DEFAULT_BASE_URL, NO_KEY, resolve_base_url, resolve_key
from align_echo.models.openai_body import Body, read_body
from align_echo.models.prices import Price, price_of
from align_echo.models.retry import RetryPolicy, ask, ask_all, judged
from align_echo.types import Completion, Message, Usage, WordChoice

LISTED = 20
"""Most first tokens whose probabilities an endpoint lists."""


class OpenAICompatibleModel:
    """A chat model at `base_url`.

    The key comes from `ALIGN_ECHO_API_KEY` or `OPENAI_API_KEY`; endpoints other than OpenAI's work without one.
    `wait` replaces the pauses between attempts in tests. Raises `UsageError` at construction when OpenAI's own host
    has no key.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        max_concurrency: int = 8,
        timeout: float = 180.0,
        retry: RetryPolicy | None = None,
        prices: Mapping[str, Price] | None = None,
        wait: Callable[[float], None] = pause,
    ) -> None:
        self._model = model
        self._base_url = resolve_base_url(base_url)
        key = resolve_key(api_key)
        if key is None and self._base_url == DEFAULT_BASE_URL:
            raise UsageError(
                f"the model {model} at {DEFAULT_BASE_URL} needs a key: set OPENAI_API_KEY, or give the base URL "
                "of an endpoint of your own"
            )
        if not self._base_url.startswith(("http://", "https://")):
            raise UsageError(f"the base URL {self._base_url!r} must start with http:// or https://")
        self._retry = retry or RetryPolicy()
        self._wait = wait
        self._most = max_concurrency
        self._slots = threading.BoundedSemaphore(max_concurrency)
        self._price = price_of(model, prices)
        self._length_field = "max_tokens"
        self._send_temperature = True
        self._takes_n = True
        self._lists_tokens = True
        self._client = openai.OpenAI(base_url=self._base_url, api_key=key or NO_KEY, max_retries=0, timeout=timeout)

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
        """The model's reply. Waits and asks again on 408, 409, 429, 5xx, timeouts, dropped connections and bodies
        that cannot be read.

        Raises `ModelError` when the attempts are spent, `RequestRejectedError` when the endpoint refuses this request
        (`ContextOverflowError` where it says that the context is too long), and `UsageError` when it refuses the key or
        does not know the model.
        """

        return self._replies(self._ask(messages, temperature, max_tokens), 1)[0]

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
                drawn += self._replies(self._ask(messages, temperature, max_tokens, {"n": count}), count)
            except ModelError as error:
                if not _refuses_fields(error):
                    return [error] * count
        missing = count - len(drawn)

        def single() -> Completion:
            return self.complete(messages, temperature=temperature, max_tokens=max_tokens)

        alone = ask_all([single] * missing, self._most)
        if count > 1 and temperature > 0 and alone and all(isinstance(one, Completion) for one in alone):
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
                    return listed_choice(listed, words).model_copy(update={"usage": spent})
                lasting = bool(body.text(0))  # what was filtered has no log-probabilities anywhere
        reply = self.complete(messages, temperature=0.0, max_tokens=MAX_TOKENS)
        self._lists_tokens = self._lists_tokens and not lasting
        return word_choice(reply.model_copy(update={"usage": spent + reply.usage}), words)

    def _ask(
        self, messages: Sequence[Message], temperature: float, max_tokens: int, more: Mapping[str, Any] | None = None
    ) -> Body:
        """The endpoint's answer to a request with these fields, asked again while faults may pass."""

        def attempt() -> Body:
            with self._slots:
                return read_body(self._send(messages, temperature, max_tokens, more or {}))

        return ask(attempt, self._retry, self._wait, self._where)

    @property
    def _where(self) -> str:
        return f"{self._model} at {self._base_url}"

    def _send(self, messages: Sequence[Message], temperature: float, max_tokens: int, more: Mapping[str, Any]) -> str:
        """The body of one answer, adapting once to models that name or refuse a parameter differently."""
        sent: list[ChatCompletionMessageParam] = [_as_param(message) for message in messages]
        for _ in range(3):
            parameters: dict[str, Any] = {self._length_field: max_tokens, **more}
            if self._send_temperature:
                parameters["temperature"] = temperature
            try:
                response = self._client.chat.completions.with_raw_response.create(
                    model=self._model, messages=sent, **parameters
                )
                return response.http_response.text
            except openai.BadRequestError as error:
                if not self._adapt(error, parameters):
                    raise judged(error, self._where) from error
            except openai.APIError as error:
                raise judged(error, self._where) from error
        raise RequestRejectedError(f"{self._model} refuses the request's parameters")

    def _adapt(self, error: openai.BadRequestError, sent: Mapping[str, Any]) -> bool:
        """Newer models want `max_completion_tokens`, and some take no temperature: remember it."""
        if error.param not in sent:
            return False
        if error.param == "max_tokens":
            self._length_field = "max_completion_tokens"
        elif error.param == "temperature":
            self._send_temperature = False
        else:
            return False
        return True

    def _replies(self, body: Body, most: int) -> list[Completion]:
        """Up to so many replies of one answer, whose usage is split among them."""
        count = min(len(body.choices), most)
        prompt, completion = body.spent
        share, rest = divmod(completion, count)
        return [
            Completion(
                text=body.text(place),
                finish_reason=body.finish_reason(place),
                usage=self._usage(0 if place else prompt, share + (place < rest)),
            )
            for place in range(count)
        ]

    def _usage(self, prompt: int, completion: int) -> Usage:
        cost = self._price.cost(prompt, completion) if self._price else 0.0
        return Usage(prompt_tokens=prompt, completion_tokens=completion, cost_usd=cost)


def _refuses_fields(error: ModelError) -> bool:
    """Whether a plainer request may fare better."""
    return isinstance(error, RequestRejectedError) and not isinstance(error, ContextOverflowError)


def _as_param(message: Message) -> ChatCompletionMessageParam:
    if message.role == "system":
        return {"role": "system", "content": message.content}
    if message.role == "user":
        return {"role": "user", "content": message.content}
    return {"role": "assistant", "content": message.content}
