"""Servers for tests: one in a thread, one in a process, and one that answers with given bytes."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer


@contextmanager
def served(server: ThreadingHTTPServer) -> Iterator[str]:
    """The address of a server that answers in a thread within the block."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


@contextmanager
def in_process(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """(process, address) of `align-echo retrieval-server`, which is killed at the block's end if it still runs."""
    command = [sys.executable, "-m", "align_echo_command", "retrieval-server", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "http://" in line, process.stderr and process.stderr.read()
            yield process, line.partition(": ")[2].strip()
        finally:
            process.kill()


@contextmanager
def answering(*replies: bytes) -> Iterator[str]:
    """The address of a server that reads one request a connection and sends these bytes, then nothing more."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def answer() -> None:
        for reply in replies:
            with listener.accept()[0] as connection, connection.makefile("rb") as request:
                head = dict(line.split(b": ", 1) for line in iter(request.readline, b"\r\n") if b": " in line)
                request.read(int(head[b"Content-Length"]))
                connection.sendall(reply)
                if not reply.endswith(b"."):
                    continue
                over.wait()  # more is promised, and never comes

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/retrieve"
    finally:
        over.set()
        thread.join()
        listener.close()
