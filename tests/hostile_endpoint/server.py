"""A TCP server on this machine that reads chat requests and lets a fault write whatever it likes in answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Exchange:
    """One request and the connection that waits for an answer. `headers` is their text; `number` counts from 1.

    `over` is set when the server is closed: what stalls, stalls until then.
    """

    connection: socket.socket
    headers: str
    request: dict[str, Any]
    number: int
    over: threading.Event

    def send(self, data: bytes) -> None:
        """Write these bytes as they are."""
        self.connection.sendall(data)

    def answer(self, body: bytes, status: str = "200 OK", headers: str = "") -> None:
        """Write a whole HTTP answer; `headers` are lines of their own, each with its line break."""
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        self.send(head.encode("latin-1") + body)

    def stall(self, seconds: float | None = None) -> bool:
        """Wait so long, or until the server is closed; whether it is."""
        return self.over.wait(seconds)


Answering = Callable[[Exchange], None]


class Server:
    """Answers every request by one fault. Keeps the headers and the JSON of each."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"
        self.headers: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.arrived = threading.Condition(self._lock)
        """Told of every request."""

    def run(self) -> None:
        """Take connections until `close`."""
        while not self._over.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Take no more, and let go of what stalls."""
        self._over.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def wait_for(self, requests: int, seconds: float = 180.0) -> bool:
        """Wait until so many requests came; whether they did."""
        with self.arrived:
            return self.arrived.wait_for(lambda: len(self.requests) >= requests, seconds)

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError), connection.makefile("rb") as stream:
            while headers := _headers(stream):
                length = next((line for line in headers.lower().splitlines() if line.startswith("content-length:")), "")
                body = stream.read(int(length.partition(":")[2] or 0))
                with self.arrived:
                    self.headers.append(headers)
                    self.requests.append(json.loads(body or b"{}"))
                    number = len(self.requests)
                    self.arrived.notify_all()
                self._answering(Exchange(connection, headers, json.loads(body or b"{}"), number, self._over))


def _headers(stream: Any) -> str:
    lines: list[bytes] = []
    while (line := stream.readline()).strip():
        lines.append(line)
    return b"".join(lines).decode("latin-1")


@contextmanager
def serving(answering: Answering) -> Iterator[Server]:
    """A server on a free port; its `url` is the base URL."""
    server = Server(answering)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()
