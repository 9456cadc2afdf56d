"""Web server of one task's pages, for people. It serves this machine only.

A shopper's page is stored under a cookie. A browser's input is read as an action of the environment, so a person can do
no more than an agent.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs

from align_echo.wrappers.serving import QuietServer, content_length
from align_echo.wrappers.webshop.pages import Shop, ShopPage, html

MOST_SHOPPERS = 1_000
_COOKIE = "shopper"
_LONGEST_FORM = 10_000


def make_server(shop: Shop, port: int) -> QuietServer:
    """Make a server of one task's pages; port 0 is any free one. Raises `UsageError` if the port cannot be used."""
    return _ShopServer(shop, port)


class _ShopServer(QuietServer):
    """Server with the page of each shopper by cookie; the least recent shopper is forgotten first."""

    def __init__(self, shop: Shop, port: int) -> None:
        super().__init__(_Handler, port)
        self.shop = shop
        self._pages: OrderedDict[str, ShopPage] = OrderedDict()
        self._lock = threading.Lock()

    def enter(self, shopper: str) -> tuple[str, ShopPage]:
        """Return the shopper's page, or a new shopper with the first page."""
        with self._lock:
            if shopper not in self._pages:
                shopper = secrets.token_hex(16)
                self._pages[shopper] = ShopPage()
                while len(self._pages) > MOST_SHOPPERS:
                    self._pages.popitem(last=False)
            self._pages.move_to_end(shopper)
            return shopper, self._pages[shopper]

    def act(self, shopper: str, action: str) -> None:
        """Carry out an action; an empty one starts again. After a purchase nothing else is possible."""
        with self._lock:
            page = self._pages[shopper]
            if not action:
                self._pages[shopper] = ShopPage()
            elif page.kind != "done":
                self._pages[shopper] = self.shop.follow(page, action)


class _Handler(BaseHTTPRequestHandler):
    server: _ShopServer
    timeout = 60
    """Seconds of silence after which a connection is closed."""

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
        length = content_length(self.headers.get("Content-Length"), _LONGEST_FORM)
        if length is None:
            self.send_error(400, "the form has no length or is too long")
            return
        form = parse_qs(self.rfile.read(length).decode(errors="replace"))
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
        """Log nothing for a request."""
