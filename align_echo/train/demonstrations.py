"""What supervised training learns from: chats whose assistant messages are worth imitating, or not."""

from __future__ import annotations

from pydantic import model_validator

from align_echo.types import Frozen, Message


class Demonstration(Frozen):
    """A chat. `weights` has one number per assistant message: 1 is imitated, 0 is not (a mistake and its recovery).

    `kind` says what it teaches ("alfworld.expert"), for counts and mixing.
    """

    kind: str
    messages: tuple[Message, ...]
    weights: tuple[float, ...]

    @model_validator(mode="after")
    def _one_weight_each(self) -> Demonstration:
        spoken = sum(message.role == "assistant" for message in self.messages)
        if spoken != len(self.weights):
            raise ValueError(f"{spoken} assistant messages and {len(self.weights)} weights")
        return self
