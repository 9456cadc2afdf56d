"""math-verify in a separate process that can be killed: one process, and one question at a time.

The library's own time limits use signals, which only a main thread may do. Here the caller waits with a deadline and
then ends the process. A hang, an error or a crash becomes an `EngineError`. The process starts with the first question
and is restarted after its end. A fork leaves it to the parent; it ends with this process. Answers are judged in
`checking.py`.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from align_echo.errors import EngineError, require
from align_echo.wrappers.pool import EnginePool, make_process_pool

NEEDS = ("math_verify", "sympy", "antlr4", "latex2sympy2_extended")

ANSWER_WITHIN = 30.0
"""Seconds for a question. Nearly all take a hundredth of a second."""

START_WITHIN = 120.0
"""Seconds for the process to import the library: one or two, on an idle machine."""

PROGRAM = (sys.executable, "-P", str(Path(__file__).with_name("checking.py")))


class VerifierProcess:
    """Process that checks answers. `program` is its command."""

    def __init__(self, *, answer_within: float = ANSWER_WITHIN, program: Sequence[str] = PROGRAM) -> None:
        """Start the process. Raises `MissingExtraError`, `EngineError`."""
        require_extra()
        self._answer_within = answer_within
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # keep Ctrl-C from the child
        )
        self._receive(START_WITHIN, "did not start")

    @property
    def alive(self) -> bool:
        """Return True while the process runs and belongs to this process."""
        return self._owner == os.getpid() and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def is_right(self, gold: str, answer: str) -> bool:
        """Check if `answer` means the same as `gold`, both LaTeX.

        Raises `EngineError` if the verifier hangs, raises an error, dies, or cannot read `gold`.
        """
        question = {"gold": gold, "answer": answer, "seconds": self._answer_within + 5}
        try:
            _pipe(self._process.stdin).write(json.dumps(question).encode() + b"\n")
        except (OSError, ValueError) as error:
            self.close()
            raise EngineError(f"math-verify has ended: {error}") from error
        reply = self._receive(self._answer_within, "gave no answer")
        if "error" in reply:
            raise EngineError(f"math-verify failed: {reply['error']}")
        return bool(reply["right"])

    def close(self) -> None:
        """End the process, if it belongs to this process."""
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
        self.leave_to_parent()

    def leave_to_parent(self) -> None:
        """Close the pipes that keep the verifier running. Call it in a forked child."""
        for stream in (self._process.stdin, self._process.stdout):
            _pipe(stream).close()

    def _receive(self, seconds: float, failure: str) -> dict[str, Any]:
        """Read the next line from the process. Raises `EngineError`.

        Any error ends the process, since a late answer would be taken for the next question's.
        """
        try:
            line = _line(_pipe(self._process.stdout), time.monotonic() + seconds)
            if line is None:
                raise EngineError(f"math-verify {failure} within {seconds:g} s")
            if not line.endswith(b"\n"):
                raise EngineError(f"math-verify {failure}: its process has ended")
            answer: dict[str, Any] = json.loads(line)
        except BaseException:
            self.close()
            raise
        return answer


def require_extra() -> None:
    """Check that math-verify and its parsers are installed. Raises `MissingExtraError`."""
    require("The math environment", "math", NEEDS)


def is_right(gold: str, answer: str) -> bool:
    """Check an answer with the shared verifier; threads take turns. Raises as `VerifierProcess.is_right`, and
    `MissingExtraError`."""
    pool, turn = _shared()
    with turn, pool.borrowed() as verifier:
        return verifier.is_right(gold, answer)


_first = threading.Lock()
_made: list[tuple[EnginePool[VerifierProcess], threading.Lock]] = []


def _shared() -> tuple[EnginePool[VerifierProcess], threading.Lock]:
    """Return this process's pool, which holds one verifier, and the lock for taking turns."""
    with _first:
        if not _made:
            _made.append((make_process_pool(VerifierProcess, _forget), threading.Lock()))
        return _made[0]


def _forget() -> None:
    """Reset the locks in a forked child: another thread of the parent may have held them."""
    global _first
    _first = threading.Lock()
    _made.clear()


def _line(stream: IO[bytes], deadline: float) -> bytes | None:
    """Read up to the end of a line, or of the stream; None if the deadline passes first."""
    poller = select.poll()
    poller.register(stream.fileno(), select.POLLIN)
    line = b""
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            return None
        chunk = os.read(stream.fileno(), 65536)
        if not chunk:
            break
        line += chunk
    return line


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    """Return a pipe of the process, which is never None."""
    assert stream is not None
    return stream
