"""Several replies to one conversation: one for each sample number, drawn at once where the model can.

A sample number tells draws of one request apart (`sample_of`); the reply for a number does not depend on which others
are drawn with it. Left out: asking for them in the same words (`agents/conversation.py`), and choosing among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from align_echo.errors import ModelError
from align_echo.types import ChatModel, Completion, Message


def sample_of(model: ChatModel, sample: int) -> ChatModel:
    """The model for one of several draws of the same request, which its method `with_sample` gives; a model without
    that method has no memory, and is its own sample.
    """
    with_sample: Callable[[int], ChatModel] | None = getattr(model, "with_sample", None)
    return with_sample(sample) if with_sample is not None else model


@runtime_checkable
class Drawer(ChatModel, Protocol):
    """A model that draws the replies for several sample numbers at once, as `draw_each` does."""

    def draw(
        self, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
    ) -> list[Completion | ModelError]: ...


def draw(
    model: ChatModel, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
) -> list[Completion]:
    """What `sample_of(model, sample).complete(...)` gives for each of the samples, in order.

    Where one request draws several, the usage of all is split among them so that it adds up. Raises the first
    `ModelError` if one cannot be drawn.
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
    """As `draw`, with the error in the place of a reply that could not be drawn.

    A model that is no `Drawer` is asked for one after the other, and for no more after one that fails.
    """
    if not samples:
        return []
    if isinstance(model, Drawer):
        return model.draw(messages, samples, temperature=temperature, max_tokens=max_tokens)
    drawn: list[Completion | ModelError] = []
    for sample in samples:
        try:
            drawn.append(sample_of(model, sample).complete(messages, temperature=temperature, max_tokens=max_tokens))
        except ModelError as error:
            left = len(samples) - len(drawn) - 1
            return [*drawn, error, *[ModelError(f"not asked, since another sample failed: {error}")] * left]
    return drawn
