"""Retrieval server over a corpus, for environments in other processes, in the protocol of Search-R1.

Connections stay open between requests. Every reply is JSON, errors too. There is no access control: the server is bound
to this machine by default, and answers everyone who reaches it.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler

from align_echo.errors import UsageError
from align_echo.wrappers.searchqa.corpus import SearchCorpus
from align_echo.wrappers.searchqa.protocol import MOST_BYTES, PATH, answer
from align_echo.wrappers.serving import HOST, QuietServer, content_length


def make_server(corpus: SearchCorpus, port: int, host: str = HOST) -> QuietServer:
    """Make a server of a corpus; port 0 is any free one. Raises `UsageError` if the port cannot be used."""
    return _RetrievalServer(corpus, port, host)


class _RetrievalServer(QuietServer):
    def __init__(self, corpus: SearchCorpus, port: int, host: str) -> None:
        super().__init__(_RetrievalHandler, port, host)
        self.corpus = corpus


class _RetrievalHandler(BaseHTTPRequestHandler):
    """Handler of one connection and its requests."""

    server: _RetrievalServer
    protocol_version = "HTTP/1.1"
    timeout = 60
    """Seconds of silence after which a connection is closed."""
    wbufsize = -1  # send head and body together
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        length = content_length(self.headers.get("Content-Length"), MOST_BYTES)
        if length is None:
            self.send_error(413, f"a request says how long it is, at most {MOST_BYTES} bytes")
        elif self.path != PATH:
            self.send_error(404, f"there is only POST {PATH}")
        else:
            self._answer(self.rfile.read(length))

    def do_GET(self) -> None:
        self.send_error(405 if self.path == PATH else 404, f"there is only POST {PATH}")

    def _answer(self, body: bytes) -> None:
        try:
            self._send(200, answer(body, self.server.corpus.search))
        except UsageError as error:
            self._send(400, json.dumps({"error": str(error)}))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request in JSON and close the connection, since the rest of its body may still arrive."""
        self.close_connection = True
        self._send(code, json.dumps({"error": message or self.responses.get(code, ("refused",))[0]}))

    def _send(self, code: int, body: str) -> None:
        content = body.encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def version_string(self) -> str:
        """Return the server's name, without the version of Python."""
        return "align-echo"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing for a request."""
