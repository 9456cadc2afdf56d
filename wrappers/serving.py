"""Shared parts of the library's small web servers: a free port, and silence about clients that disconnect."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from align_echo.errors import UsageError

HOST = "127.0.0.1"
"""This machine only."""


@contextmanager
def check_address(host: str, port: int) -> Iterator[None]:
    """Guard the start of a server. Raises `UsageError` if the address or the port cannot be used."""
    if not host.strip():
        raise UsageError("--host names no address: leave it out for this machine only, or write 0.0.0.0 for all")
    try:
        yield
    except (OSError, OverflowError) as error:
        where = f"port {port}" if host == HOST else f"port {port} of {host}"
        reason = error.strerror if isinstance(error, OSError) else "ports are 0-65535"
        raise UsageError(f"cannot serve on {where} ({reason}): take another one, 0 for any") from error


class QuietServer(ThreadingHTTPServer):
    """Server on a port; 0 picks a free one. It uses a thread for each connection and does not wait for them on close.
    """

    request_queue_size = 128

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int, host: str = HOST) -> None:
        """Bind the port. Raises `UsageError` if it cannot be used."""
        with check_address(host, port):
            super().__init__((host, port), handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect; report all other errors as Python does."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def content_length(length: str | None, most: int) -> int | None:
    """Parse a request's `Content-Length` in bytes; None if it is no number or more than `most`."""
    digits = length or ""
    return int(digits) if digits.isdecimal() and len(digits) < 10 and int(digits) <= most else None
