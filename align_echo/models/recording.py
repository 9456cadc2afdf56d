"""A model with a memory and a log: answers from the reply cache where it can, writes every exchange to a JSONL file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from align_echo.errors import ModelError
from align_echo.jsonl import JsonlFile
from align_echo.models.cache import ReplyCache, request_key
from align_echo.models.endpoint import base_url_of
from align_echo.types import ChatModel, Completion, Frozen, Message, Usage


@runtime_checkable
class Located(Protocol):
    """A model whose name alone does not say which one it is: `identity` also names the endpoint."""

    @property
    def identity(self) -> str: ...


@runtime_checkable
class Weighted(Protocol):
    """A model whose weights are known: `weights` is a hash of its files, "" where there is none."""

    @property
    def weights(self) -> str: ...


def weights_of(model: ChatModel) -> str:
    """The hash of a model's weights; "" for one that does not say."""
    return model.weights if isinstance(model, Weighted) else ""


@runtime_checkable
class Sampler(ChatModel, Protocol):
    """A model that answers the same request anew for another sample number."""

    def with_sample(self, sample: int) -> ChatModel: ...


def sample_of(model: ChatModel, sample: int) -> ChatModel:
    """The model for one of several draws of the same request; a model without memory is its own sample."""
    return model.with_sample(sample) if isinstance(model, Sampler) else model


class Call(Frozen):
    """One exchange with a model. `reply` is None where the model gave none and `error` says why.

    A cached reply carries the usage of when it was paid for: add usage up over distinct `request` values.
    """

    role: str
    model: str
    request: str
    sample: int = 0
    temperature: float
    max_tokens: int
    messages: tuple[Message, ...]
    reply: str | None
    finish_reason: str = ""
    usage: Usage = Usage()
    cached: bool = False
    error: str = ""


SAMPLES_PER_STAGE = 2**32
"""Apart from stage to stage, so that a model that draws by its sample number draws anew in each."""


class RecordingModel:
    """A chat model that asks `model` at most once for the same request and sample, and logs every exchange.

    `role` says whom it plays (agent, analyzer, optimizer); `sample` tells repeated draws of one request apart. At a
    temperature above 0 a request of another `stage` (the iteration of a run) is a new draw too.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        role: str,
        cache: ReplyCache,
        log: JsonlFile,
        sample: int = 0,
        stage: Callable[[], int] = lambda: 0,
    ) -> None:
        self._model = model
        self._role = role
        self._cache = cache
        self._log = log
        self._sample = sample
        self._stage = stage

    @property
    def name(self) -> str:
        """The model's own name."""
        return self._model.name

    @property
    def base_url(self) -> str:
        """Where the model is asked."""
        return base_url_of(self._model)

    @property
    def weights(self) -> str:
        """The hash of the model's weights."""
        return weights_of(self._model)

    def with_sample(self, sample: int) -> RecordingModel:
        """The same model, asked anew: its replies are stored apart from those of other samples."""
        model = sample_of(self._model, sample)
        return RecordingModel(
            model, role=self._role, cache=self._cache, log=self._log, sample=sample, stage=self._stage
        )

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """The stored reply, or the model's. Raises `ModelError` (logged, not stored)."""
        stage = self._stage() if temperature > 0 else 0
        key = request_key(
            self._model.identity if isinstance(self._model, Located) else self._model.name,
            messages,
            temperature=temperature,
            max_tokens=max_tokens,
            sample=self._sample,
            stage=stage,
        )
        call = Call(
            role=self._role,
            model=self._model.name,
            request=key,
            sample=self._sample,
            temperature=temperature,
            max_tokens=max_tokens,
            messages=tuple(message.model_copy(update={"tokens": None}) for message in messages),
            reply=None,
        )
        with self._cache.asking(key):
            completion = self._cache.get(key)
            if completion is None:
                completion = self._ask(call, messages, stage)
                self._cache.put(key, completion)
        self._log.append(
            call.model_copy(
                update={
                    "reply": completion.text,
                    "finish_reason": completion.finish_reason,
                    "usage": completion.usage,
                    "cached": completion.cached,
                }
            )
        )
        return completion

    def _ask(self, call: Call, messages: Sequence[Message], stage: int) -> Completion:
        model = sample_of(self._model, stage * SAMPLES_PER_STAGE + self._sample) if stage else self._model
        try:
            return model.complete(messages, temperature=call.temperature, max_tokens=call.max_tokens)
        except ModelError as error:
            self._log.append(call.model_copy(update={"error": str(error)}))
            raise
