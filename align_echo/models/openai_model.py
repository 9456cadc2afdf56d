"""Chat models behind an OpenAI-compatible endpoint (OpenAI, Gemini, vLLM, Ollama ...), on the `openai` package.

Owns what a long run needs: keys, retries with backoff, a limit on requests in flight, a strict reading of the reply,
token counts and cost. Left out: caching and logging (`recording.py`), streaming, tools and images.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import openai
from openai.types.chat import ChatCompletionMessageParam
from pydantic import BaseModel, ValidationError

from align_echo.errors import RequestRejectedError, UsageError
from align_echo.halting import pause
from align_echo.models.endpoint import DEFAULT_BASE_URL, NO_KEY, resolve_base_url, resolve_key
from align_echo.models.prices import Price, price_of
from align_echo.models.retry import PassingFault, RetryPolicy, ask, judged
from align_echo.types import Completion, Message, Usage


class _ReplyMessage(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _ReplyMessage
    finish_reason: str | None = None


class _Tokens(BaseModel):
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0


class _Body(BaseModel):
    choices: list[_Choice]
    usage: _Tokens | None = None


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
        self._slots = threading.BoundedSemaphore(max_concurrency)
        self._price = price_of(model, prices)
        self._length_field = "max_tokens"
        self._send_temperature = True
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

        def attempt() -> Completion:
            with self._slots:
                return self._read(self._send(messages, temperature, max_tokens))

        return ask(attempt, self._retry, self._wait, self._where)

    @property
    def _where(self) -> str:
        return f"{self._model} at {self._base_url}"

    def _send(self, messages: Sequence[Message], temperature: float, max_tokens: int) -> str:
        """The body of one answer, adapting once to models that name or refuse a parameter differently."""
        sent: list[ChatCompletionMessageParam] = [_as_param(message) for message in messages]
        for _ in range(3):
            parameters: dict[str, Any] = {self._length_field: max_tokens}
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

    def _read(self, text: str) -> Completion:
        try:
            body = _Body.model_validate_json(text)
        except ValidationError as error:
            raise PassingFault(f"the reply's body is not a chat completion: {text[:80]!r}") from error
        if not body.choices:
            raise PassingFault("the reply's body has no choices")
        choice = body.choices[0]
        tokens = body.usage or _Tokens()
        prompt, completion = tokens.prompt_tokens or 0, tokens.completion_tokens or 0
        cost = self._price.cost(prompt, completion) if self._price else 0.0
        return Completion(
            text=choice.message.content or choice.message.refusal or "",
            finish_reason="length" if choice.finish_reason == "length" else "stop",
            usage=Usage(prompt_tokens=prompt, completion_tokens=completion, cost_usd=cost),
        )


def _as_param(message: Message) -> ChatCompletionMessageParam:
    if message.role == "system":
        return {"role": "system", "content": message.content}
    if message.role == "user":
        return {"role": "user", "content": message.content}
    return {"role": "assistant", "content": message.content}
