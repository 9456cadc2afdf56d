"""Replies that were paid for, one file each, keyed by the whole request.

A file appears whole or not at all, so a killed run resumes without asking for a reply it has. A file that cannot be
read counts as absent. Sample and stage number are part of the key: they tell draws of the same request apart. What a
model holds of given words (`WordChoice`) is kept in the same way, under keys of its own. Left out: what is asked when.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from align_echo.files import write_atomically
from align_echo.types import Completion, Message, WordChoice

Stored = TypeVar("Stored", Completion, WordChoice)


def request_key(
    model: str,
    messages: Sequence[Message],
    *,
    temperature: float,
    max_tokens: int,
    sample: int = 0,
    stage: int = 0,
) -> str:
    """SHA-256 of a request in hex. `model` must tell endpoints apart (`OpenAICompatibleModel.identity`)."""
    request = {
        "model": model,
        "messages": [_identity(message) for message in messages],
        "temperature": temperature,
        "max_tokens": max_tokens,
        "sample": sample,
        "stage": stage,
    }
    return _hash(request)


def choice_key(model: str, messages: Sequence[Message], words: Sequence[str]) -> str:
    """SHA-256 in hex of the question which of the words comes next. It is never the key of a request for a reply."""
    return _hash({"model": model, "messages": [_identity(message) for message in messages], "words": list(words)})


def _hash(request: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _identity(message: Message) -> list[object]:
    """What tells a message from others: also the ids it was sampled as, of which the same text may have several."""
    return [message.role, message.content, *([message.tokens.sampled_ids] if message.tokens else [])]


class ReplyCache:
    """A folder of replies. Threads that ask the same question wait for the first one's answer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}

    def get(self, key: str, kind: type[Stored]) -> Stored | None:
        """The stored reply, marked as cached; None if there is none of this kind."""
        try:
            stored = kind.model_validate_json(self._file(key).read_bytes())
        except (OSError, ValidationError):
            return None
        return stored.model_copy(update={"cached": True})

    def put(self, key: str, reply: Completion | WordChoice) -> None:
        """Store a reply."""
        file = self._file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, reply.model_dump_json())

    @contextmanager
    def asking(self, keys: Iterable[str]) -> Iterator[None]:
        """Hold while looking up and asking, so that the same request is not sent twice at once."""
        with self._lock:
            locks = [self._asking.setdefault(key, threading.Lock()) for key in sorted(set(keys))]
        with ExitStack() as locked:
            for lock in locks:  # in one order, so that no two threads wait for each other
                locked.enter_context(lock)
            yield

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
