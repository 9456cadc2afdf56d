"""Chats to imitate in supervised training, with a weight for each assistant message."""

from __future__ import annotations

from pydantic import model_validator

from align_echo.types import Frozen, Message


class Demonstration(Frozen):
    """A chat to imitate. `weights` has a number for each assistant message: 1 to imitate, 0 not to (a mistake).

    `kind` names the lesson ("alfworld.expert"), for counts and mixing.
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
