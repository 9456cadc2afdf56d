"""Serve the page of some runs on a port of this machine; a reload shows new episodes.

Other accounts of the machine can reach the port, so the page requires the token in the server's address. There is no
cookie: browsers send cookies to every port of a host.

Not here: the page (`packing.py`).
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs

from align_echo.errors import AlignEchoError
from align_echo.report.view.packing import pack
from align_echo.rollout.episode_files import find_episodes
from align_echo.wrappers.serving import HOST, QuietServer

PARAMETER = "ticket"
"""Query parameter of the token. A typical key name would be redacted from the printed address."""


def make_viewer(paths: list[Path], port: int) -> ViewerServer:
    """Build a server for the page of these paths; port 0 takes a free one. Raises `UsageError` if the port cannot be
    used.
    """
    return ViewerServer(port, _fresh_page(paths))


def _fresh_page(paths: list[Path]) -> Callable[[], bytes]:
    """Return a function for the current page, rebuilt only after a file has changed."""
    lock = threading.Lock()
    cached: dict[str, object] = {}

    def page() -> bytes:
        with lock:
            parts = find_episodes(paths)
            files = [file for part in parts for file in (part.file, part.critiques) if file is not None]
            state = [(file, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
            if cached.get("state") != state:
                cached.update(page=pack(parts).html.encode(), state=state)
            content = cached["page"]
            assert isinstance(content, bytes)
            return content

    return page


class ViewerServer(QuietServer):
    """A server of one page, for requests with its token."""

    def __init__(self, port: int, page: Callable[[], bytes]) -> None:
        super().__init__(_ViewerHandler, port)
        self.page = page
        self._token = secrets.token_urlsafe(32)

    @property
    def address(self) -> str:
        """Return the address of the page; it differs for every server."""
        return f"http://{HOST}:{self.server_port}/?{PARAMETER}={self._token}"

    def admits(self, query: str) -> bool:
        """Return whether the query of a request has the token."""
        return any(
            hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())
            for token in parse_qs(query).get(PARAMETER, [])[:1]
        )


class _ViewerHandler(BaseHTTPRequestHandler):
    """Handles a request: the page at /, and nothing else. Other names of this machine are refused, since a foreign page
    could use one to read this page. Without the token no response depends on the content.
    """

    server: ViewerServer
    timeout = 60

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in (HOST, "localhost"):
            self.send_error(403, f"this page is at http://{HOST}:{self.server.server_port}/")
        elif not self.server.admits(query):
            self.send_error(403, "open the whole address that align-echo view printed, with its token")
        elif path != "/":
            self.send_error(404, "there is only /")
        else:
            self._answer()

    def _answer(self) -> None:
        try:
            content, status, kind = self.server.page(), 200, "text/html"
        except (AlignEchoError, OSError) as error:
            content, status, kind = f"{error}\n".encode("utf-8", "replace"), 500, "text/plain"
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Do not log requests."""
