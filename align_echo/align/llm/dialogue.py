"""A conversation with a model that must answer in a given form, with a bounded number of tries for each answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from align_echo.align.llm.replies import Findings
from align_echo.errors import InterfaceError, NoAnswerError, ReplyFormatError
from align_echo.models.drawing import model_for_sample
from align_echo.prompts import render
from align_echo.types import ChatModel, Message

Parsed = TypeVar("Parsed")
EMPTY = "(empty message)"

SAMPLES_PER_ROUND = 1000
"""Sample numbers between one round of tries and the next, so that a round draws anew."""

MOST_ROUNDS = 100
WARMTH = 0.5
"""Temperature, at least, of a round after the first: what was greedy would only say the same again."""


class Dialogue:
    """Keeps the messages. `ask` sends one more and returns what `parse` makes of the answer; `sample` is the model's.
    """

    def __init__(
        self, model: ChatModel, system: str, *, temperature: float, max_tokens: int, sample: int = 0
    ) -> None:
        self._model = model
        self._sample = sample
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._messages = [Message(role="system", content=system)]

    def ask(self, prompt: str, parse: Callable[[str], Parsed], *, tries: int) -> Parsed:
        """The parsed answer. An answer that was cut off, or that `parse` refuses with `ReplyFormatError` or
        `InterfaceError`, goes back with the reason. So do findings of which some are wrong (`Findings.dropped`); if
        some stay wrong, the others are taken after the last try.

        A round of tries that an earlier run has spent is not the end: a run that is resumed draws another, and finds
        the earlier ones in its cache. Raises `NoAnswerError` with the last reason after a new round, and `ModelError`.
        """
        length = len(self._messages)
        for number in range(MOST_ROUNDS):
            del self._messages[length:]
            problem, new = "", False
            partly: Parsed | None = None
            model = model_for_sample(self._model, self._sample + number * SAMPLES_PER_ROUND)
            message = prompt
            for _ in range(tries):
                self._messages.append(Message(role="user", content=message))
                completion = model.complete(
                    self._messages,
                    temperature=max(self._temperature, WARMTH) if number else self._temperature,
                    max_tokens=self._max_tokens,
                )
                new = not completion.cached
                self._messages.append(Message(role="assistant", content=completion.text.strip() or EMPTY))
                try:
                    if completion.finish_reason == "length":
                        raise ReplyFormatError(f"it was cut off after {self._max_tokens} tokens; be shorter")
                    parsed = parse(completion.text)
                    if not isinstance(parsed, Findings) or not parsed.dropped:
                        return parsed
                    partly, problem = parsed, ". ".join(parsed.dropped)
                except (ReplyFormatError, InterfaceError) as error:
                    problem = str(error)
                message = render("shared/again", {"problem": problem})
            if partly is not None:
                return partly
            if new:
                break
        raise NoAnswerError(f"no usable answer in {tries} tries; the last problem: {problem}")
