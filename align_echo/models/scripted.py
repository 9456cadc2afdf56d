"""A chat model whose replies are written down beforehand, for tests and dry runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from align_echo.errors import ModelError
from align_echo.types import Completion, Message

Script = Sequence[str | Completion | Exception] | Callable[[Sequence[Message]], str | Completion]


class ScriptedModel:
    """Replies from a list, in order, or from a function of the messages. Keeps what it was sent in `requests`.

    An exception in the list is raised in its turn. Raises `ModelError` when the list is used up.
    """

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self._script = script
        self._name = name
        self._lock = threading.Lock()
        self.requests: list[tuple[Message, ...]] = []

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        """The next reply; temperature and length are ignored."""
        with self._lock:
            turn = len(self.requests)
            self.requests.append(tuple(messages))
        if callable(self._script):
            reply: str | Completion | Exception = self._script(messages)
        elif turn < len(self._script):
            reply = self._script[turn]
        else:
            raise ModelError(f"the script of {self._name} has {len(self._script)} replies; another was asked for")
        if isinstance(reply, Exception):
            raise reply
        return Completion(text=reply) if isinstance(reply, str) else reply
