"""Draw replies to one conversation: one per sample number, all at once if the model supports it.

`ScriptedModel` says the replies of a script. A sample number distinguishes draws of one request (`model_for_sample`).
The reply for a number does not depend on the other numbers drawn with it. Not here: asking with the same messages
(`agents/conversation.py`), and selecting among replies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from align_echo.errors import ModelError, UsageError
from align_echo.models.choosing import word_choice
from align_echo.types import ChatModel, Completion, Message, WordChoice


def model_for_sample(model: ChatModel, sample: int) -> ChatModel:
    """Return the model for one sample number, using its method `with_sample`.

    A model without this method has no memory and serves as its own sample.
    """
    with_sample: Callable[[int], ChatModel] | None = getattr(model, "with_sample", None)
    return with_sample(sample) if with_sample is not None else model


@runtime_checkable
class BatchChatModel(ChatModel, Protocol):
    """A model that draws replies for multiple sample numbers at once, as `draw_each` does."""

    def draw(
        self, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
    ) -> list[Completion | ModelError]: ...


def draw(
    model: ChatModel, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
) -> list[Completion]:
    """Draw one reply per sample, in order, each equal to `model_for_sample(model, sample).complete(...)`.

    If one request draws all of them, its usage is split among the replies, so the sum is right. Raises the first
    `ModelError`.
    """
    drawn = []
    for reply in draw_each(model, messages, samples, temperature=temperature, max_tokens=max_tokens):
        if isinstance(reply, ModelError):
            raise reply
        drawn.append(reply)
    return drawn


def draw_each(
    model: ChatModel, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int
) -> list[Completion | ModelError]:
    """Draw one reply per sample as `draw` does, with a `ModelError` in place of a failed reply.

    A model without the protocol `BatchChatModel` is asked one sample at a time, and no more after the first failure.
    """
    if not samples:
        return []
    if isinstance(model, BatchChatModel):
        return model.draw(messages, samples, temperature=temperature, max_tokens=max_tokens)
    drawn: list[Completion | ModelError] = []
    for sample in samples:
        try:
            drawn.append(
                model_for_sample(model, sample).complete(messages, temperature=temperature, max_tokens=max_tokens)
            )
        except ModelError as error:
            left = len(samples) - len(drawn) - 1
            return [*drawn, error, *[ModelError(f"not asked, since another sample failed: {error}")] * left]
    return drawn


# ---------------------------------------------------------------- models that say what a script says

Written = str | Completion | WordChoice
Script = Sequence[Written | Exception] | Callable[[Sequence[Message]], Written]


class ScriptedModel:
    """Replies from a list, in order, or from a function of the messages. `requests` holds the received messages.

    An exception in the list is raised in its turn. Raises `ModelError` when the list is used up. A `WordChoice`
    answers only `choose`, which parses any other reply with `word_choice`.
    """

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self._script = script
        self._name = name
        self._lock = threading.Lock()
        self.requests: list[tuple[Message, ...]] = []

    @property
    def name(self) -> str:
        """Name set at construction."""
        return self._name

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """Return the next reply; temperature and length are ignored."""
        reply = self._next(messages)
        if isinstance(reply, WordChoice):
            raise UsageError(f"the script of {self._name} has a choice of words where a reply is asked for")
        return reply

    def choose(self, conversations: Sequence[Sequence[Message]], words: Sequence[str]) -> list[WordChoice | ModelError]:
        """Return the next replies, one per conversation."""
        chosen: list[WordChoice | ModelError] = []
        for messages in conversations:
            try:
                reply = self._next(messages)
            except ModelError as error:
                chosen.append(error)
            else:
                chosen.append(word_choice(reply, words) if isinstance(reply, Completion) else reply)
        return chosen

    def _next(self, messages: Sequence[Message]) -> Completion | WordChoice:
        with self._lock:
            turn = len(self.requests)
            self.requests.append(tuple(messages))
        if callable(self._script):
            reply: Written | Exception = self._script(messages)
        elif turn < len(self._script):
            reply = self._script[turn]
        else:
            raise ModelError(f"the script of {self._name} has {len(self._script)} replies; another was asked for")
        if isinstance(reply, Exception):
            raise reply
        return Completion(text=reply) if isinstance(reply, str) else reply
