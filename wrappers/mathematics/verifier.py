"""math-verify in a process of its own, which can be given up: one for this process, and one question at a time.

The library's own time limits work by signals, which only a main thread may use; here whoever asks waits with a deadline
and then ends the process. What hangs, raises or dies is an `EngineError`. The process starts with the first question,
is started anew after it ended, is left to the parent by a process that forks, and ends with this one.
Left out: what is right (`checking.py`).
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
from align_echo.wrappers.pool import Pool, pool_of_process

NEEDS = ("math_verify", "sympy", "antlr4", "latex2sympy2_extended")

ANSWER_WITHIN = 30.0
"""Seconds for one question. Nearly all take a hundredth of one."""

START_WITHIN = 120.0
"""Seconds for the process to import the library: one or two, on a machine that is not busy."""

PROGRAM = (sys.executable, "-P", str(Path(__file__).with_name("checking.py")))


class Verifier:
    """One process that checks answers. `program` is the command that is run."""

    def __init__(self, *, answer_within: float = ANSWER_WITHIN, program: Sequence[str] = PROGRAM) -> None:
        """Start it. Raises `MissingExtraError`, `EngineError`."""
        require_extra()
        self._answer_within = answer_within
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for this process
        )
        self._receive(START_WITHIN, "did not start")

    @property
    def alive(self) -> bool:
        """It can be asked: it runs, and this is the process that started it."""
        return self._owner == os.getpid() and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def is_right(self, gold: str, answer: str) -> bool:
        """Whether `answer` says the same as `gold`, both LaTeX.

        Raises `EngineError` if the verifier hangs, raises, dies, or cannot read `gold`.
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
        """End the process, if this is the one that started it."""
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
        self.leave_to_parent()

    def leave_to_parent(self) -> None:
        """In a process that was forked off: let go of the pipes that keep the verifier running."""
        for stream in (self._process.stdin, self._process.stdout):
            _pipe(stream).close()

    def _receive(self, seconds: float, failure: str) -> dict[str, Any]:
        """The next line that the process writes. Raises `EngineError`; whatever is raised ends the process, since an
        answer that is still to come would be taken for the next question's."""
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
    """Raises `MissingExtraError` where math-verify, or what it reads expressions with, is not installed."""
    require("The math environment", "math", NEEDS)


def is_right(gold: str, answer: str) -> bool:
    """`Verifier.is_right` of the process's verifier; threads take turns. Raises as that, and `MissingExtraError`."""
    pool, turn = _shared()
    with turn, pool.borrowed() as verifier:
        return verifier.is_right(gold, answer)


_first = threading.Lock()
_made: list[tuple[Pool[Verifier], threading.Lock]] = []


def _shared() -> tuple[Pool[Verifier], threading.Lock]:
    """The pool of this process, which holds one verifier, and the lock of whoever's turn it is."""
    with _first:
        if not _made:
            _made.append((pool_of_process(Verifier, _forget), threading.Lock()))
        return _made[0]


def _forget() -> None:
    """In a process that was forked off: another thread of the parent may have held either lock."""
    global _first
    _first = threading.Lock()
    _made.clear()


def _line(stream: IO[bytes], deadline: float) -> bytes | None:
    """What is written up to the end of a line, or of the stream; None if that comes after the deadline."""
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
    """One of the process's pipes, which all are there."""
    assert stream is not None
    return stream
