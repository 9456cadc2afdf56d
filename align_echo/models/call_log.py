"""The log of every exchange with a model, one a line; a conversation is written once, however many calls it takes.

A call of an episode begins with the messages of the call before it. Its line leaves out those that the file already
holds and names the call they stand in:

    {..., "after": {"request": "<that call's request>", "messages": 12}, "messages": [the 13th and later ones]}

Lines of earlier versions hold all their messages and no `after`; one file may have both. A process names calls that it
wrote itself, so nothing that a kill takes is missed: the next process begins with whole messages. Left out: what is
asked and when (`recording.py`).
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
    """One exchange with a model. `reply` is None where the model gave none and `error` says why.

    A cached reply carries the usage of when it was paid for: add usage up over distinct `request` values. Where the
    model was asked which of `words` comes next, the reply is the word ("" for none of them) and `logprobs` are as in
    `WordChoice`.
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


class Beginning(Frozen):
    """The first so many messages of the call of a request that stands further up in the file."""

    request: str
    messages: int


class _Line(Call):
    """A call as it is written: `messages` are those that come after the ones named by `after`."""

    after: Beginning | None = None


class CallLog:
    """A file of calls. Appending is safe in several threads and processes; the file appears with the first call."""

    def __init__(self, path: Path) -> None:
        self._file = JsonlFile(path)
        self._lock = threading.Lock()
        self._written: dict[bytes, str] = {}
        """By the hash of the first messages of a call that this process wrote: the call's request."""

    def append(self, call: Call) -> None:
        """Add a call; it is with the operating system when this returns."""
        hashes = _hashes(call.messages)
        with self._lock:
            count = next((n for n in range(len(hashes), 0, -1) if hashes[n - 1] in self._written), 0)
            after = Beginning(request=self._written[hashes[count - 1]], messages=count) if count else None
        self._file.append(_Line(**{**dict(call), "messages": call.messages[count:]}, after=after))
        with self._lock:
            self._written |= dict.fromkeys(hashes[count:], call.request)

    def read(self) -> list[Call]:
        """All calls with all their messages; empty if there is no file.

        Raises `UsageError` for a line that is damaged, and for one whose beginning stands nowhere above it.
        """
        calls: list[Call] = []
        messages_of: dict[str, tuple[Message, ...]] = {}
        for number, line in enumerate(self._file.read(_Line), start=1):
            whole = line.messages
            if line.after is not None:
                above = messages_of.get(line.after.request, ())
                if not 0 < line.after.messages <= len(above):
                    missing = f"the call that it goes on from ({line.after.request[:12]}) is not above it"
                    raise UsageError(f"{self._file.path} line {number} is damaged: {missing}")
                whole = above[: line.after.messages] + whole
            messages_of[line.request] = whole
            calls.append(Call(**{name: value for name, value in line if name != "after"} | {"messages": whole}))
        return calls


def _hashes(messages: Sequence[Message]) -> list[bytes]:
    """For each number of messages from 1 on: a hash of that many first ones."""
    hashes: list[bytes] = []
    for message in messages:
        so_far = hashlib.blake2b(hashes[-1] if hashes else b"", digest_size=16)
        so_far.update(json.dumps([message.role, message.content]).encode())
        hashes.append(so_far.digest())
    return hashes
