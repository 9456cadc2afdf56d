"""A real HTTP endpoint on this machine that speaks `POST /v1/chat/completions` with scripted answers and faults."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from align_echo.wrappers.serving import QuietServer


@dataclass(frozen=True)
class Reply:
    """An answer as a model gives it."""

    text: str | None
    finish_reason: str = "stop"
    prompt_tokens: int = 10
    completion_tokens: int = 5


@dataclass(frozen=True)
class Status:
    """An HTTP error."""

    code: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = '{"error": {"message": "scripted fault"}}'


@dataclass(frozen=True)
class Raw:
    """Status 200 with any body."""

    body: str


@dataclass(frozen=True)
class Drop:
    """The connection is closed: before an answer, or in the middle of it."""

    halfway: bool = False


Answer = str | Reply | Status | Raw | Drop
Script = Iterable[Answer] | Callable[[dict[str, Any]], Answer]


class Endpoint:
    """Answers by model name: the next of a list, or a function of the request's JSON. Keeps every request."""

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self._scripts = {name: script if callable(script) else iter(script) for name, script in scripts.items()}
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self.authorizations: list[str] = []
        self.url = ""

    @property
    def models(self) -> list[str]:
        """The names of its models."""
        return list(self._scripts)

    def asked(self, model: str) -> list[dict[str, Any]]:
        """The requests for one model, in order."""
        return [request for request in self.requests if request["model"] == model]

    def answer(self, request: dict[str, Any], authorization: str) -> Answer:
        """The answer to a request; 404 for a model without a script, 400 when its list is used up."""
        with self._lock:
            self.requests.append(request)
            self.authorizations.append(authorization)
            script = self._scripts.get(request["model"])
            if script is None:
                return Status(404, body='{"error": {"message": "no such model"}}')
            if isinstance(script, Iterator):
                return next(script, Status(400, body='{"error": {"message": "script used up"}}'))
            return script(request)


class _Handler(BaseHTTPRequestHandler):
    endpoint: Endpoint

    def do_GET(self) -> None:
        """`/v1/models`: the models with a script."""
        if self.path != "/v1/models":
            self._send(404, '{"detail": "Not Found"}', {})
            return
        self._send(200, json.dumps({"data": [{"id": name} for name in self.endpoint.models]}), {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.endpoint.answer(json.loads(body), self.headers.get("Authorization", ""))
        if isinstance(answer, str):
            answer = Reply(answer)
        if isinstance(answer, Drop):
            self._drop(answer)
        elif isinstance(answer, Status):
            self._send(answer.code, answer.body, answer.headers)
        elif isinstance(answer, Raw):
            self._send(200, answer.body, {})
        else:
            self._send(200, json.dumps(_completion(answer)), {})

    def _send(self, code: int, body: str, headers: Mapping[str, str]) -> None:
        data = body.encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _drop(self, drop: Drop) -> None:
        if drop.halfway:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{")
            self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _completion(reply: Reply) -> dict[str, Any]:
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": reply.text},
                "finish_reason": reply.finish_reason,
            }
        ],
        "usage": {
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
            "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        },
    }


@contextmanager
def serve(scripts: Mapping[str, Script]) -> Iterator[Endpoint]:
    """Run an endpoint on a free local port; `endpoint.url` is its base URL."""
    endpoint = Endpoint(scripts)
    handler = type("Handler", (_Handler,), {"endpoint": endpoint})
    server = QuietServer(handler, 0)
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
