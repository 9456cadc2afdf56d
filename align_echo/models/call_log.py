"""Log of every exchange with a model, one per line. Messages of a conversation are written once.

A call in an episode repeats the messages of the call before it. Its line omits the messages that the file already
holds and refers to the earlier call:

    {..., "after": {"request": "<that call's request>", "messages": 12}, "messages": [the 13th and later ones]}

Lines of earlier versions hold all their messages and no `after`; one file may mix both. A process refers only to calls
it wrote itself, so a kill loses no reference: the next process starts with full messages. Not here: what to ask and
when (`recording.py`).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path

from pydantic import ConfigDict

from align_echo.errors import UsageError
from align_echo.jsonl import JsonlFile
from align_echo.types import Frozen, Message, Usage


class Call(Frozen):
    """One exchange with a model. `reply` is None if the model gave none; `error` says why.

    A cached reply carries the usage of the original call: sum usage over distinct `request` values. For a choice among
    `words`, the reply is the chosen word ("" for none of them) and `logprobs` are as in `WordChoice`.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    role: str
    model: str
    request: str
    sample: int = 0
    temperature: float
    max_tokens: int
    messages: tuple[Message, ...]
    words: tuple[str, ...] = ()
    reply: str | None
    logprobs: tuple[float, ...] | None = None
    finish_reason: str = ""
    usage: Usage = Usage()
    cached: bool = False
    error: str = ""


class CallReference(Frozen):
    """Reference to the first `messages` messages of an earlier call in the file."""

    request: str
    messages: int


class _Line(Call):
    """A call as written: `messages` are those that follow the messages referred to by `after`."""

    after: CallReference | None = None


class CallLog:
    """A file of calls. Threads and processes may append at the same time; the first call creates the file."""

    def __init__(self, path: Path) -> None:
        self._file = JsonlFile(path)
        self._lock = threading.Lock()
        self._written: dict[bytes, str] = {}
        """Hash of the first messages of a call written by this process -> the call's request."""

    def append(self, call: Call) -> None:
        """Append a call. The data is with the operating system on return."""
        hashes = _hashes(call.messages)
        with self._lock:
            count = next((n for n in range(len(hashes), 0, -1) if hashes[n - 1] in self._written), 0)
            after = CallReference(request=self._written[hashes[count - 1]], messages=count) if count else None
        self._file.append(_Line(**{**dict(call), "messages": call.messages[count:]}, after=after))
        with self._lock:
            self._written |= dict.fromkeys(hashes[count:], call.request)

    def read(self) -> list[Call]:
        """Read all calls with all their messages; empty if there is no file.

        Raises `UsageError` for a damaged line, and for a line with a reference to a call not above it.
        """
        calls: list[Call] = []
        messages_by_request: dict[str, tuple[Message, ...]] = {}
        for number, line in enumerate(self._file.read(_Line), start=1):
            full_messages = line.messages
            if line.after is not None:
                earlier = messages_by_request.get(line.after.request, ())
                if not 0 < line.after.messages <= len(earlier):
                    missing = f"the call that it goes on from ({line.after.request[:12]}) is not above it"
                    raise UsageError(f"{self._file.path} line {number} is damaged: {missing}")
                full_messages = earlier[: line.after.messages] + full_messages
            messages_by_request[line.request] = full_messages
            calls.append(Call(**{name: value for name, value in line if name != "after"} | {"messages": full_messages}))
        return calls


def _hashes(messages: Sequence[Message]) -> list[bytes]:
    """Hash each prefix of the messages, from one message up to all."""
    hashes: list[bytes] = []
    for message in messages:
        so_far = hashlib.blake2b(hashes[-1] if hashes else b"", digest_size=16)
        so_far.update(json.dumps([message.role, message.content]).encode())
        hashes.append(so_far.digest())
    return hashes
