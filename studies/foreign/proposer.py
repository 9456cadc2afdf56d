"""Script in place of a language model for the hybrid backend: it reads what a model would read, and guesses.

Of every two forms of action that it reads, the first may need the second; none of its guesses is better founded. It
answers at an endpoint of this machine, as a model's server does.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import permutations
from typing import Any

from align_echo.interface.rules.actions import ActionGrammar, ActionTree, declared_forms
from align_echo.wrappers.serving import QuietServer

NAME = "guesser"
MOST = 20
"""Guesses in a reply."""

_ACTIONS = re.compile(r"Its actions:\n(.*?)\nThe rules will be told", re.DOTALL)


def guess(system: str, prompt: str) -> str:
    """Return hypotheses to a request for them, and nothing to any other."""
    actions = _ACTIONS.search(system)
    if actions is None or "<hypotheses>" not in prompt:
        return "[]"
    forms = declared_forms(actions[1])
    grammar = ActionGrammar(forms)
    written = [
        grammar.write(ActionTree(form.name, tuple(f"{{{slot}}}" for slot in range(form.slots)))) for form in forms
    ]
    pairs = [*permutations(written, 2)]
    random.Random(prompt).shuffle(pairs)
    return json.dumps([{"kind": "needs", "action": action, "step": step} for action, step in pairs[:MOST]])


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._send({"data": [{"id": NAME}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [message["content"] for message in asked["messages"]]
        message = {"role": "assistant", "content": guess(texts[0], texts[1] if len(texts) > 1 else "")}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        about = {"id": "1", "object": "chat.completion", "created": 0, "model": NAME}
        self._send({**about, "choices": [choice], "usage": usage})

    def _send(self, data: dict[str, Any]) -> None:
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serve() -> Iterator[str]:
    """Answer at an endpoint of this machine, and yield its base URL."""
    server = QuietServer(_Handler, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
