"""Cache of paid replies, one per line of one file, keyed by the full request.

    replies.jsonl      {"request": key, "reply": a `Completion` or `WordChoice`}, in order of arrival
    <kk>/<key>.json    one reply each, written by earlier versions: still read, no longer written

A line counts once it is complete, so a killed run resumes without asking again for a stored reply; an unreadable line
counts as absent. Processes may share a folder: on a miss each reads the lines appended since. The key includes sample
and stage numbers, which distinguish draws of the same request. A model's choice among words (`WordChoice`) is stored
the same way, under its own keys. Not here: when to ask.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from align_echo.base.files import open_file, read_bytes
from align_echo.base.jsonl import append_line
from align_echo.types import Completion, Message, WordChoice

Stored = TypeVar("Stored", Completion, WordChoice)

REPLIES = "replies.jsonl"

_LINE = re.compile(rb'\{"request":"([^"\\]*)","reply":(.*)\}\n')


def request_key(
    model: str,
    messages: Sequence[Message],
    *,
    temperature: float,
    max_tokens: int,
    sample: int = 0,
    stage: int = 0,
) -> str:
    """Return the SHA-256 of a request in hex. `model` must distinguish endpoints (`OpenAICompatibleModel.identity`)."""
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
    """Return the SHA-256 in hex of a choice among words. It never equals the key of a request for a reply."""
    return _hash({"model": model, "messages": [_identity(message) for message in messages], "words": list(words)})


def _hash(request: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _identity(message: Message) -> list[object]:
    """Return the parts that identify a message, including its sampled ids: the same text may have different ids."""
    return [*message.identity, *([message.tokens.sampled_ids] if message.tokens else [])]


class ReplyCache:
    """A folder of replies. Threads with the same request wait for the first thread's answer.

    Memory holds only each reply's position in the file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}
        self._spans: dict[str, tuple[int, int]] = {}
        self._read_to = 0

    def get(self, key: str, kind: type[Stored]) -> Stored | None:
        """Return the stored reply, marked as cached; None if there is none of this kind."""
        try:
            stored = kind.model_validate_json(self._read_reply(key))
        except (OSError, ValidationError):
            return None
        return stored.model_copy(update={"cached": True})

    def put(self, key: str, reply: Completion | WordChoice) -> None:
        """Store a reply, replacing an earlier one."""
        append_line(self._folder / REPLIES, f'{{"request":{json.dumps(key)},"reply":{reply.model_dump_json()}}}')
        with self._lock:
            self._read_on()

    @contextmanager
    def asking(self, keys: Iterable[str]) -> Iterator[None]:
        """Lock these keys while looking up and asking, so that no request is sent twice at once."""
        with self._lock:
            locks = [self._asking.setdefault(key, threading.Lock()) for key in sorted(set(keys))]
        with ExitStack() as locked:
            for lock in locks:  # in a fixed order, to avoid deadlock
                locked.enter_context(lock)
            yield

    def _read_reply(self, key: str) -> bytes:
        """Read a stored reply as bytes. Raises `OSError` if there is none."""
        with self._lock:
            if key not in self._spans:
                self._read_on()
            span = self._spans.get(key)
        if span is None:
            return read_bytes(self._folder / key[:2] / f"{key}.json")
        start, end = span
        with open_file(self._folder / REPLIES, folder=self._folder) as stream:
            stream.seek(start)
            return stream.read(end - start)

    def _read_on(self) -> None:
        """Index the lines appended since the last read, by any process. The caller holds the lock."""
        file = self._folder / REPLIES
        size = file.stat().st_size if file.exists() else 0
        if size < self._read_to:  # the file was replaced
            self._spans, self._read_to = {}, 0
        if size == self._read_to:
            return
        with open_file(file, folder=self._folder) as stream:
            stream.seek(self._read_to)
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                if match := _LINE.fullmatch(line):
                    begin, end = match.span(2)
                    self._spans[match[1].decode()] = self._read_to + begin, self._read_to + end
                self._read_to += len(line)
