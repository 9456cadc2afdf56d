"""A chat model with prewritten replies, for tests and dry runs.

Not here: computed probabilities; a script supplies them (`WordChoice`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from align_echo.errors import ModelError, UsageError
from align_echo.models.choosing import word_choice
from align_echo.types import Completion, Message, WordChoice

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

    def choose(
        self, conversations: Sequence[Sequence[Message]], words: Sequence[str]
    ) -> list[WordChoice | ModelError]:
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
