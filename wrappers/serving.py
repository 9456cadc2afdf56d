"""What the small web servers of the library have in common: a port that is free, and nothing said of a client that goes
away. Left out: what they serve."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from align_echo.errors import UsageError

HOST = "127.0.0.1"
"""This machine only."""


@contextmanager
def usable(host: str, port: int) -> Iterator[None]:
    """Around what begins to listen there. Raises `UsageError` if the address or the port cannot be used."""
    if not host.strip():
        raise UsageError("--host names no address: leave it out for this machine only, or write 0.0.0.0 for all")
    try:
        yield
    except (OSError, OverflowError) as error:
        where = f"port {port}" if host == HOST else f"port {port} of {host}"
        reason = error.strerror if isinstance(error, OSError) else "ports are 0-65535"
        raise UsageError(f"cannot serve on {where} ({reason}): take another one, 0 for any") from error


class QuietServer(ThreadingHTTPServer):
    """Listens on a port; 0 is any free one. A thread for each connection; none of them is waited for when it is closed.
    """

    request_queue_size = 128

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int, host: str = HOST) -> None:
        """Raises `UsageError` if the port cannot be used."""
        with usable(host, port):
            super().__init__((host, port), handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that went away; of all else, what Python says."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def content_length(length: str | None, most: int) -> int | None:
    """How many bytes a request's `Content-Length` announces; None for what is no number or more than `most`."""
    digits = length or ""
    return int(digits) if digits.isdecimal() and len(digits) < 10 and int(digits) <= most else None
