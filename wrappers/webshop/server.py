"""A web server of one task's pages, for people. It serves this machine only.

A shopper's page is kept here under a cookie; what a browser sends is read as an action of the environment, so a person
can do no more than an agent.
"""

from __future__ import annotations

import secrets
import sys
import threading
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from align_echo.errors import UsageError
from align_echo.wrappers.webshop.page_view import html
from align_echo.wrappers.webshop.pages import Shop, ShopPage

HOST = "127.0.0.1"
MOST_SHOPPERS = 1_000
_COOKIE = "shopper"
_LONGEST_FORM = 10_000


def make_server(shop: Shop, port: int) -> ThreadingHTTPServer:
    """A server of one task's pages; port 0 is any free one. Raises `UsageError` if the port cannot be used."""
    try:
        return _Server(shop, port)
    except OSError as error:
        raise UsageError(f"cannot serve on port {port} ({error.strerror}): take another one, 0 for any") from error


class _Server(ThreadingHTTPServer):
    """Keeps the page of each shopper by cookie; the shopper that was away longest is forgotten first."""

    def __init__(self, shop: Shop, port: int) -> None:
        super().__init__((HOST, port), _Handler)
        self.shop = shop
        self._pages: OrderedDict[str, ShopPage] = OrderedDict()
        self._lock = threading.Lock()

    def enter(self, shopper: str) -> tuple[str, ShopPage]:
        """The shopper's page, or a new shopper with the first page."""
        with self._lock:
            if shopper not in self._pages:
                shopper = secrets.token_hex(16)
                self._pages[shopper] = ShopPage()
                while len(self._pages) > MOST_SHOPPERS:
                    self._pages.popitem(last=False)
            self._pages.move_to_end(shopper)
            return shopper, self._pages[shopper]

    def act(self, shopper: str, action: str) -> None:
        """Carry out an action; an empty one begins anew. Nothing but that follows a purchase."""
        with self._lock:
            page = self._pages[shopper]
            if not action:
                self._pages[shopper] = ShopPage()
            elif page.kind != "done":
                self._pages[shopper] = self.shop.follow(page, action)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that went away; of all else, what Python says."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 60
    """Seconds without a word after which a connection is closed."""

    def do_GET(self) -> None:
        if self.path != "/":
            self.send_error(404)
            return
        shopper, page = self.server.enter(self._shopper())
        body = html(self.server.shop, page).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Set-Cookie", f"{_COOKIE}={shopper}; HttpOnly; SameSite=Strict; Path=/")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isdecimal() and len(length) < 10 and int(length) <= _LONGEST_FORM):
            self.send_error(400, "the form has no length or is too long")
            return
        form = parse_qs(self.rfile.read(int(length)).decode(errors="replace"))
        shopper, _ = self.server.enter(self._shopper())
        for name in ("search", "click"):
            if name in form:
                self.server.act(shopper, f"{name}[{form[name][0]}]")
        if "again" in form:
            self.server.act(shopper, "")
        self.send_response(303)
        self.send_header("Location", "/")
        self.send_header("Content-Length", "0")
        self.send_header("Set-Cookie", f"{_COOKIE}={shopper}; HttpOnly; SameSite=Strict; Path=/")
        self.end_headers()

    def _shopper(self) -> str:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(_COOKIE)
        except CookieError:
            return ""
        return cookie.value if cookie else ""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of each request."""
