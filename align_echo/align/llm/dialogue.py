"""A conversation with a model that must answer in a given form, with a bounded number of tries for each answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from align_echo.errors import InterfaceError, ReplyFormatError
from align_echo.prompts import render
from align_echo.types import ChatModel, Message

Parsed = TypeVar("Parsed")
EMPTY = "(empty message)"


class Dialogue:
    """Keeps the messages. `ask` sends one more and returns what `parse` makes of the answer."""

    def __init__(self, model: ChatModel, system: str, *, temperature: float, max_tokens: int) -> None:
        self._model = model
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._messages = [Message(role="system", content=system)]

    def ask(self, prompt: str, parse: Callable[[str], Parsed], *, tries: int) -> Parsed:
        """The parsed answer. An answer that was cut off, or that `parse` refuses with `ReplyFormatError` or
        `InterfaceError`, goes back with the reason.

        Raises `ReplyFormatError` with the last reason after `tries` answers, and `ModelError`.
        """
        problem = ""
        for _ in range(tries):
            self._messages.append(Message(role="user", content=prompt))
            completion = self._model.complete(
                self._messages, temperature=self._temperature, max_tokens=self._max_tokens
            )
            self._messages.append(Message(role="assistant", content=completion.text.strip() or EMPTY))
            try:
                if completion.finish_reason == "length":
                    raise ReplyFormatError(f"it was cut off after {self._max_tokens} tokens; be shorter")
                return parse(completion.text)
            except (ReplyFormatError, InterfaceError) as error:
                problem = str(error)
            prompt = render("shared/again", {"problem": problem})
        raise ReplyFormatError(f"no usable answer in {tries} tries; the last problem: {problem}")
