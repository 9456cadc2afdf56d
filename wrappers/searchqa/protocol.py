"""Retrieval protocol of Search-R1: requests to a server and its replies, without the transport.

`POST /retrieve` takes `{"queries": [text, ...], "topk": number or null, "return_scores": true or false}` and returns
`{"result": [[{"document": {"contents": title, line break, text}, "score": number}, ...], ...]}`, a list for each query;
without scores, the bare documents. An error is `{"error": text}`. As in Search-R1, a number may be a text, 0 is the
default, unknown keys are ignored, and no queries have no results. A query longer than `LONGEST_QUERY` is cut, so that
one runaway reply does not cost a batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from align_echo.base.plain_yaml import parse_json
from align_echo.errors import UsageError
from align_echo.wrappers.searchqa.corpus import SearchCorpus, make_document
from align_echo.wrappers.searchqa.subjects import Document
from align_echo.wrappers.serving import HOST, QuietServer, content_length

PATH = "/retrieve"
DEFAULT_TOPK = 3
"""Documents for a query if a request names no number."""

MOST_TOPK, MOST_QUERIES, LONGEST_QUERY = 100, 8_192, 2_000
"""Limits of a request: documents for a query, queries (a trainer asks for all episodes of a batch at once), and
characters of a query."""

MOST_BYTES = 32 * 2**20
"""Largest body of a request, in bytes."""


def answer(body: bytes, search: Callable[[str, int], list[tuple[Document, float]]]) -> str:
    """Return the reply to a request's body. Raises `UsageError` with a one-line message for an invalid request."""
    queries, topk, scores = _read_request(body)
    result = [[_encode(document, score, scores) for document, score in search(query, topk)] for query in queries]
    return json.dumps({"result": result})


def request(query: str, topk: int) -> bytes:
    """Build the body of a request for one query."""
    return json.dumps({"queries": [query], "topk": topk, "return_scores": True}).encode()


def read_reply(text: str, topk: int) -> list[Document]:
    """Parse a reply to one query: at most `topk` documents, with or without scores. Raises `ValueError` with a one-line
    message for an invalid reply."""
    parsed = parse_json(text)
    result = parsed.get("result") if isinstance(parsed, dict) else None
    if not (isinstance(result, list) and len(result) == 1 and isinstance(result[0], list)):
        raise ValueError('it holds no "result" with one list of documents')
    return [_read_document(entry) for entry in result[0][:topk]]


def _encode(document: Document, score: float, scores: bool) -> dict[str, Any]:
    bare = {"contents": document.contents}
    return {"document": bare, "score": score} if scores else bare


def _read_document(entry: Any) -> Document:
    inner = entry.get("document", entry) if isinstance(entry, dict) else None
    contents = inner.get("contents") if isinstance(inner, dict) else None
    if not isinstance(contents, str) or not contents.strip():
        raise ValueError('a document has no "contents"')
    return make_document(contents)


def _read_request(body: bytes) -> tuple[list[str], int, bool]:
    try:
        record = parse_json(body.decode())
    except ValueError as error:
        raise UsageError(f"the body is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise UsageError('the body is an object with "queries", "topk" and "return_scores"')
    queries, topk, scores = record.get("queries"), _whole(record.get("topk")), record.get("return_scores", False)
    if not (isinstance(queries, list) and all(isinstance(query, str) for query in queries)):
        raise UsageError('"queries" is a list of texts')
    if len(queries) > MOST_QUERIES:
        raise UsageError(f'"queries" holds up to {MOST_QUERIES} texts, not {len(queries)}')
    if topk is None or not 1 <= topk <= MOST_TOPK:
        raise UsageError(f'"topk" is a whole number from 1 to {MOST_TOPK}, or null for {DEFAULT_TOPK}')
    if not isinstance(scores, bool):
        raise UsageError('"return_scores" is true or false')
    return [query[:LONGEST_QUERY] for query in queries], topk, scores


def _whole(topk: object) -> int | None:
    """Parse the number of documents in a request; None if it is no whole number."""
    if topk in (None, 0, "0"):
        return DEFAULT_TOPK
    if isinstance(topk, bool) or not isinstance(topk, int | float | str):
        return None
    try:
        number = float(topk)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


# ---------------------------------------------------------------- the retrieval server


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
