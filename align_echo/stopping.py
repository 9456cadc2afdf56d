"""Handle Ctrl-C and SIGTERM: finished work is saved, and the process ends soon.

The first signal raises `KeyboardInterrupt` in the main thread: at once, or at the end of a critical section (`hold`,
`let_go`). On the way out, work in memory is written (`keeping`). During a long call of another library the main thread
receives nothing: then another thread writes the work in its place, and ends the process (`see_through`). A second
signal ends the process at once; half-written files are then dropped by the next run, as after a kill. Not here:
installing the signal handlers (`align_echo_command`), and work that is written immediately, such as episodes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType

HEARD_WITHIN = 0.3
"""Seconds in which the main thread receives a signal, unless it is in a long call of another library."""

OVER_AFTER = 1.5
"""Default seconds from a signal to the forced end of the process, once its work is saved."""


class WorkSaver:
    """Work held only in memory. `write` saves it and describes what was saved and where."""

    def __init__(self, write: Callable[[], str]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._words: str | None = None

    def keep(self) -> str:
        """Save the work once, for any caller, and return the description. A failure becomes its text and hides no
        other error.
        """
        with self._lock:
            if self._words is None:
                try:
                    self._words = self._write()
                except Exception as error:
                    self._words = f"what was last done could not be written ({type(error).__name__}: {error})"
            return self._words


@dataclass
class _Stop:
    """Received signals and critical sections of this process."""

    number: int = 0
    heard: bool = False
    in_section: bool = False
    late: bool = False
    watched: bool = False
    seconds: float = OVER_AFTER
    keepers: list[WorkSaver] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    line: Callable[[Sequence[str]], str] | None = None


_stop = _Stop()
_section = threading.Lock()
"""Locked during a critical section, or while the other thread saves work."""


# ---------------------------------------------------------------- in the main thread


def heed(numbers: Sequence[int]) -> None:
    """Handle these signals in the main thread, with another thread to see each of them through."""
    _stop.watched = bool(numbers)
    for number in numbers:
        signal.signal(number, on_signal)


def on_signal(number: int, frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt`, now or at the end of the critical section. Python calls this in the main thread."""
    first, _stop.number = not _stop.number, _stop.number or number
    if not first and _stop.watched:
        return
    if first and _stop.in_section:
        _stop.late = True
    else:
        _stop.heard = True
        raise KeyboardInterrupt


def hold() -> None:
    """Begin a critical section."""
    if not _stop.in_section:
        _stop.in_section = True
        _section.acquire()


def let_go() -> None:
    """End the critical section. Raises `KeyboardInterrupt` if a signal came meanwhile."""
    _open()
    if _stop.late:
        _stop.late, _stop.heard = False, True
        raise KeyboardInterrupt


def _open() -> None:
    if _stop.in_section:
        _section.release()
        _stop.in_section = False


@contextmanager
def interruptible() -> Iterator[None]:
    """Allow signals during the block, also within a critical section."""
    in_section = _stop.in_section
    let_go()
    yield
    if in_section:
        hold()


@contextmanager
def keeping(write: Callable[[], str]) -> Iterator[None]:
    """Save the work if the block is left by a stop or an error, except for an error within a critical section.

    The description from `write` becomes a note of the exception.
    """
    keeper = WorkSaver(write)
    _stop.keepers.append(keeper)
    try:
        with _heeding(), _stop_before_errors():
            yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or not _stop.in_section:
            _stop.words.append(words := keeper.keep())
            error.add_note(words)
        raise
    finally:
        _stop.keepers.remove(keeper)
        _open()


@contextmanager
def _stop_before_errors() -> Iterator[None]:
    """Raise `KeyboardInterrupt` instead of an error in a critical section, once a signal came.

    When related processes are stopped together, one that is already gone breaks the others.
    """
    try:
        yield
    except Exception:
        if _stop.late:
            let_go()
        raise


@contextmanager
def _heeding() -> Iterator[None]:
    """Support critical sections in third-party programs too, where Ctrl-C has Python's default meaning."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _stop.number, _stop.heard, _stop.late, _stop.words = 0, False, False, []


def status() -> int:
    """Return the exit status of a stopped command: 128 plus the signal's number, as in shells."""
    return 128 + (_stop.number or signal.SIGINT)


@contextmanager
def said_by(line: Callable[[Sequence[str]], str]) -> Iterator[None]:
    """Use `line` to build the stop message during the block, from the descriptions of saved work."""
    before, _stop.line = _stop.line, line
    try:
        yield
    finally:
        _stop.line = before


def take_time(seconds: float) -> None:
    """Allow this process at least these seconds to end after a signal, for other libraries' shutdown."""
    _stop.seconds = max(_stop.seconds, seconds)


# ---------------------------------------------------------------- on another thread


def see_through(number: int) -> None:
    """Ensure that the process ends in time after a signal, with its work saved."""
    start = time.monotonic()
    time.sleep(HEARD_WITHIN)
    if not _stop.heard:
        _stop.number = _stop.number or number
        _save_all()
    time.sleep(max(0.0, start + _stop.seconds - time.monotonic()))
    words = _save_all()
    line, _stop.line = _stop.line, None
    if line is not None:
        with suppress(Exception):
            print(line(words), file=sys.stderr, flush=True)
    leave(number)


def leave(number: int) -> None:
    """End the process now, with the exit status shells expect for a signal."""
    os._exit(128 + number)


def _save_all() -> list[str]:
    """Save all work and return the descriptions."""
    with _section:
        return list(dict.fromkeys([*_stop.words, *(keeper.keep() for keeper in tuple(_stop.keepers))]))
