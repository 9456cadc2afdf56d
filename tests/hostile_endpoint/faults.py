"""Every fault that an endpoint was seen or feared to have, and what one request for a reply must come to.

What the server writes is in `answering`. `comes_to` is the name of the error that `complete` raises, or "reply";
`attempts` how many requests it may take: 1, or `AGAIN` for what is asked again until the attempts are spent, or `TWICE`
for what is given up once two deadlines were waited.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from tests.hostile_endpoint.server import Answering, Exchange

AGAIN, TWICE = "all attempts", "two deadlines"
ComesTo = Literal[
    "reply", "ModelError", "ReplyWithheldError", "RequestRejectedError", "ContextOverflowError", "UsageError"
]
ACTION = "look"
HUGE = 5 * 10**6
BOMB = 512 * 2**20


@dataclass(frozen=True)
class HostileAnswer:
    """A fault. `says` must stand in the error, or be the reply; `attempts` is a number, `AGAIN` or `TWICE`."""

    name: str
    answering: Answering
    comes_to: ComesTo
    says: str = ""
    attempts: int | str = 1


def completion(message: Any, finish_reason: Any = "stop", usage: Any = None, **more: Any) -> bytes:
    """A chat completion of one choice, as JSON."""
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage, **more}).encode()


def said(content: Any, **more: Any) -> bytes:
    """A chat completion with this content."""
    return completion({"role": "assistant", "content": content}, **more)


def refusal(message: str, **more: Any) -> bytes:
    """The body of an error."""
    return json.dumps({"error": {"message": message, **more}}).encode()


def _with(body: bytes, status: str = "200 OK", headers: str = "") -> Answering:
    return lambda exchange: exchange.answer(body, status, headers)


def _status(status: str, message: str = "scripted fault", headers: str = "", **more: Any) -> Answering:
    return _with(refusal(message, **more), status, headers)


def _closing(data: bytes, *, reset: bool = False) -> Answering:
    """These bytes, then the end of the connection: an orderly one, or a reset."""

    def answer(exchange: Exchange) -> None:
        exchange.send(data)
        if reset:
            exchange.connection.setsockopt(1, 13, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # SOL_SOCKET, SO_LINGER
        raise OSError("closed")

    return answer


def _dripping(data: bytes) -> Answering:
    """These bytes, then one letter more every 50 ms without end."""

    def answer(exchange: Exchange) -> None:
        exchange.send(data)
        while not exchange.stall(0.05):
            exchange.send(b" ")

    return answer


def _stalling(data: bytes = b"") -> Answering:
    def answer(exchange: Exchange) -> None:
        exchange.send(data)
        exchange.stall()

    return answer


def _endless(exchange: Exchange) -> None:
    exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not exchange.over.is_set():
        exchange.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")


def _refusing(field: str, says: Callable[[str], str], status: str = "400 Bad Request") -> Answering:
    """Refuses the field in words of its own, without naming it as `param`; answers without it."""

    def answer(exchange: Exchange) -> None:
        if field in exchange.request:
            exchange.answer(refusal(says(field)), status)
        else:
            exchange.answer(said(ACTION))

    return answer


def _echoing(status: str) -> Answering:
    """An error that holds all that was sent, headers and key included, in the words of a debugging proxy."""

    def answer(exchange: Exchange) -> None:
        pairs = dict(line.split(": ", 1) for line in exchange.headers.splitlines()[1:])
        text = f"bad request: {json.dumps(pairs)} / {exchange.headers}"
        exchange.answer(refusal(text), status, f"X-Echo: {pairs.get('Authorization', '')}\r\n")

    return answer


def _echoing_reply(exchange: Exchange) -> None:
    key = next(line for line in exchange.headers.splitlines() if line.lower().startswith("authorization"))
    hidden = "".join(f"\\u{ord(letter):04x}" for letter in key)
    exchange.answer(said("@@").replace(b"@@", f"{ACTION} {key} {hidden}".encode("latin-1")))


def _redirecting(exchange: Exchange) -> None:
    host = next(line for line in exchange.headers.splitlines() if line.lower().startswith("host")).split(": ")[1]
    exchange.answer(b"", "307 Temporary Redirect", f"Location: http://me:hunter22@{host}/elsewhere\r\n")


@cache
def _gzip_bomb() -> bytes:
    packing = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    block = b" " * 2**20
    parts = [packing.compress(b'{"choices": [')]
    parts += [packing.compress(block) for _ in range(BOMB // len(block))]
    return b"".join([*parts, packing.flush()])


def _bombing(exchange: Exchange) -> None:
    exchange.answer(_gzip_bomb(), headers="Content-Encoding: gzip\r\n")


_TOOL_CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "go"}}]}
_PARTS = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "lo"}, {"type": "text", "text": "ok"}]
_OVERFLOW = "This model's maximum context length is 4096 tokens. However, 'max_tokens' is too large"


def _faults() -> list[HostileAnswer]:
    again, twice = AGAIN, TWICE
    statuses = [
        HostileAnswer("400", _status("400 Bad Request"), "RequestRejectedError", "scripted fault"),
        HostileAnswer("401", _status("401 Unauthorized"), "UsageError", "refuses the key"),
        HostileAnswer("402", _status("402 Payment Required"), "RequestRejectedError", "scripted fault"),
        HostileAnswer("403", _status("403 Forbidden"), "UsageError", "refuses the key"),
        HostileAnswer("404", _status("404 Not Found"), "UsageError", "is not there", attempts=2),  # then the names
        HostileAnswer("408", _status("408 Request Timeout"), "ModelError", "no reply", again),
        HostileAnswer("409", _status("409 Conflict"), "ModelError", "no reply", again),
        HostileAnswer("422", _status("422 Unprocessable Entity"), "RequestRejectedError", "scripted fault"),
        HostileAnswer("429", _status("429 Too Many", headers="Retry-After: 7\r\n"), "ModelError", "no reply", again),
        HostileAnswer("429, no credit", _status("429 Too Many", code="insufficient_quota"), "UsageError", "no credit"),
        HostileAnswer("500", _status("500 Oops"), "ModelError", "no reply", again),
        HostileAnswer("502, HTML", _with(b"<html>bad gateway</html>", "502 Bad Gateway"), "ModelError", "", again),
        HostileAnswer("503", _status("503 Busy", headers="Retry-After: soon\r\n"), "ModelError", "no reply", again),
        HostileAnswer("context too long", _status("400 Bad Request", _OVERFLOW), "ContextOverflowError", "maximum"),
        HostileAnswer("a redirect", _redirecting, "UsageError", "give the address that answers"),
        HostileAnswer("headers echoed in a 400", _echoing("400 Bad Request"), "RequestRejectedError", "[redacted]"),
        HostileAnswer("headers echoed in a 500", _echoing("500 Oops"), "ModelError", "[redacted]", again),
    ]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    connections = [
        HostileAnswer("dropped at once", _closing(b""), "ModelError", "no reply", again),
        HostileAnswer("dropped halfway", _closing(head + b"Content-Length: 99\r\n\r\n{"), "ModelError", "", again),
        HostileAnswer("reset", _closing(b"", reset=True), "ModelError", "no reply", again),
        HostileAnswer("no HTTP", _closing(b"hello\r\n\r\n"), "ModelError", "no reply", again),
        HostileAnswer(
            "a header of 1 MB", _with(said(ACTION), headers=f"X: {'x' * 2**20}\r\n"), "ModelError", "", again
        ),
        HostileAnswer("silent", _stalling(), "ModelError", "no whole answer within", twice),
        HostileAnswer("silent after its headers", _stalling(head + b"\r\n{"), "ModelError", "no whole answer", twice),
        HostileAnswer("dripping body", _dripping(head + b"\r\n{"), "ModelError", "no whole answer within", twice),
        HostileAnswer("dripping headers", _dripping(head + b"X: "), "ModelError", "no whole answer within", twice),
    ]
    gzipped = "Content-Encoding: gzip\r\n"
    sizes = [
        HostileAnswer("reply of 5 MB", _with(said("x" * HUGE)), "reply", "x" * 20),
        HostileAnswer("error of 5 MB", _status("400 Bad Request", "x" * HUGE), "RequestRejectedError", "xxx"),
        HostileAnswer("body without end", _endless, "ModelError", "nothing of it is kept"),
        HostileAnswer("gzip bomb of 512 MB", _bombing, "ModelError", "nothing of it is kept"),
        HostileAnswer("gzip", _with(gzip.compress(said(ACTION)), headers=gzipped), "reply", ACTION),
        HostileAnswer("gzip that is none", _with(said(ACTION), headers=gzipped), "ModelError", "cannot be unpacked"),
        HostileAnswer(
            "packed otherwise", _with(b"..", headers="Content-Encoding: br\r\n"), "ModelError", "was not asked for"
        ),
    ]
    withheld = [
        HostileAnswer(
            "content filter", _with(said("a", finish_reason="content_filter")), "ReplyWithheldError", "filter"
        ),
        HostileAnswer("null content", _with(said(None)), "ReplyWithheldError", "no content"),
        HostileAnswer(
            "no content at all", _with(completion({"role": "assistant"})), "ReplyWithheldError", "no content"
        ),
        HostileAnswer(
            "tool call", _with(completion(_TOOL_CALL, finish_reason="tool_calls")), "ReplyWithheldError", "tool call"
        ),
        HostileAnswer(
            "refusal", _with(completion({"content": None, "refusal": "No."})), "ReplyWithheldError", "refuses: No."
        ),
        HostileAnswer("an image for content", _with(said([{"type": "image_url"}])), "ReplyWithheldError", "no content"),
    ]
    odd = {
        "negative": {"prompt_tokens": -5, "completion_tokens": -1},
        "texts": {"prompt_tokens": "12", "completion_tokens": "many"},
        "null": None,
        "a list": [1, 2],
    }
    read = [
        HostileAnswer("content in parts", _with(said(_PARTS)), "reply", ACTION),
        HostileAnswer("one part", _with(said({"type": "text", "text": ACTION})), "reply", ACTION),
        *(
            HostileAnswer(f"usage: {name}", _with(said(ACTION, usage=usage)), "reply", ACTION)
            for name, usage in odd.items()
        ),
        HostileAnswer("odd finish_reason", _with(said(ACTION, finish_reason=7)), "reply", ACTION),
        HostileAnswer("empty reply", _with(said("")), "reply", ""),
        HostileAnswer("cut off before a letter", _with(said(None, finish_reason="length")), "reply", ""),
        HostileAnswer("half a letter", _with(said("look\ud83d")), "reply", "look\ufffd"),
        HostileAnswer("the key in the reply", _echoing_reply, "reply", "look"),
    ]
    bodies = {
        "empty body": b"",
        "garbage": b"\xff\xfe\x00garbage",
        "HTML": b"<html>Sign in</html>",
        "half of JSON": said(ACTION)[:-9],
        "a text": b'"look"',
        "no choices": b'{"choices": []}',
        "choices: null": b'{"choices": null}',
        "choices: a text": b'{"choices": "look"}',
        "message: null": completion(None),
        "200,000 brackets": b"[" * 200_000,
    }
    unread = [
        HostileAnswer(name, _with(body), "ModelError", "the reply's body", again) for name, body in bodies.items()
    ]
    wordings = {
        "openai": lambda field: f"Unsupported parameter: '{field}' is not supported with this model. Use another.",
        "gateway": lambda field: f"UnsupportedParamsError: gpt-5 models don't support {field}=0.2.",
        "schema": lambda field: f"body.{field}: Extra inputs are not permitted",
    }
    fields = [
        HostileAnswer(f"refuses {field} ({name})", _refusing(field, words), "reply", ACTION, 2)
        for field in ("max_tokens", "temperature")
        for name, words in wordings.items()
    ]
    limit = "max_tokens is too large: 8192. This model supports at most 4096 completion tokens"
    fields.append(
        HostileAnswer("max_tokens too large", _status("400 Bad Request", limit), "RequestRejectedError", limit)
    )
    return [*statuses, *connections, *sizes, *withheld, *read, *unread, *fields]


FAULTS = {fault.name: fault for fault in _faults()}
"""All of them by name."""
