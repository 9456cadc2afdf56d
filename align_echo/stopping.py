"""Being told to stop, by Ctrl-C or SIGTERM: what was done is kept, and the process ends soon.

The first signal raises `KeyboardInterrupt` in the main thread: at once, or, within what must not be cut in two
(`hold`, `let_go`), at its end. On the way out work that is only in memory is written (`keeping`). While the main thread
is in a long call of another library it hears nothing: then a thread beside it writes the work in its place, and ends
the process (`see_through`). A second signal ends the process at once: what was half written then is dropped by whoever
goes on, as after a kill. Left out: who listens for signals (`align_echo_command`), and work that is written as it is
done, such as episodes.
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
"""Seconds in which the main thread hears of a signal, unless it is in a long call of another library."""

OVER_AFTER = 1.5
"""Seconds after which a process that was told to stop is ended, once its work is kept, unless it needs more."""


class Keeper:
    """Work that is only in memory. `write` writes it, and says in words what is kept and where."""

    def __init__(self, write: Callable[[], str]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._words: str | None = None

    def keep(self) -> str:
        """Write the work, once, whoever asks; the words. What goes wrong is one of them, and hides no other error."""
        with self._lock:
            if self._words is None:
                try:
                    self._words = self._write()
                except Exception as error:
                    self._words = f"what was last done could not be written ({type(error).__name__}: {error})"
            return self._words


@dataclass
class _Stop:
    """What this process was told, and what it holds."""

    number: int = 0
    heard: bool = False
    held: bool = False
    late: bool = False
    watched: bool = False
    seconds: float = OVER_AFTER
    keepers: list[Keeper] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    line: Callable[[Sequence[str]], str] | None = None


_stop = _Stop()
_section = threading.Lock()
"""Locked while what is held must not be cut in two, or is being written by the other thread."""


# ---------------------------------------------------------------- in the main thread


def heed(numbers: Sequence[int]) -> None:
    """Let the main thread hear of these signals, each of which a thread beside it sees through."""
    _stop.watched = bool(numbers)
    for number in numbers:
        signal.signal(number, on_signal)


def on_signal(number: int, frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt`, now or when what is held is let go. Python calls this in the main thread."""
    first, _stop.number = not _stop.number, _stop.number or number
    if not first and _stop.watched:
        return
    if first and _stop.held:
        _stop.late = True
    else:
        _stop.heard = True
        raise KeyboardInterrupt


def hold() -> None:
    """Begin what must not be cut in two."""
    if not _stop.held:
        _stop.held = True
        _section.acquire()


def let_go() -> None:
    """End it. Raises `KeyboardInterrupt` if a signal came meanwhile."""
    _open()
    if _stop.late:
        _stop.late, _stop.heard = False, True
        raise KeyboardInterrupt


def _open() -> None:
    if _stop.held:
        _section.release()
        _stop.held = False


@contextmanager
def interruptible() -> Iterator[None]:
    """Let signals through while the block runs, within what is held too."""
    held = _stop.held
    let_go()
    yield
    if held:
        hold()


@contextmanager
def keeping(write: Callable[[], str]) -> Iterator[None]:
    """Write the work when the block is left by a stop or an error, but not by an error in what must not be cut in two.
    What `write` says of it is a note of the exception.
    """
    keeper = Keeper(write)
    _stop.keepers.append(keeper)
    try:
        with _heeding(), _stop_before_errors():
            yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or not _stop.held:
            _stop.words.append(words := keeper.keep())
            error.add_note(words)
        raise
    finally:
        _stop.keepers.remove(keeper)
        _open()


@contextmanager
def _stop_before_errors() -> Iterator[None]:
    """Raise `KeyboardInterrupt` in place of an error in what is held, once a signal came: of several processes that are
    told to stop, one that is gone already breaks the others.
    """
    try:
        yield
    except Exception:
        if _stop.late:
            let_go()
        raise


@contextmanager
def _heeding() -> Iterator[None]:
    """Let what is held be held in a program that is not ours, too, where Ctrl-C means what it does in any Python."""
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
    """Return the exit status of a command that was stopped: 128 and the signal's number, as shells have it."""
    return 128 + (_stop.number or signal.SIGINT)


@contextmanager
def said_by(line: Callable[[Sequence[str]], str]) -> Iterator[None]:
    """Let `line` be what is said of a stop while the block runs, made from the words on what is kept."""
    before, _stop.line = _stop.line, line
    try:
        yield
    finally:
        _stop.line = before


def take_time(seconds: float) -> None:
    """Let this process have so many seconds to end once it is told to, as other libraries have something to end."""
    _stop.seconds = max(_stop.seconds, seconds)


# ---------------------------------------------------------------- on a thread beside it


def see_through(number: int) -> None:
    """Make sure that a signal that was just received ends the process in time, with its work kept."""
    told = time.monotonic()
    time.sleep(HEARD_WITHIN)
    if not _stop.heard:
        _stop.number = _stop.number or number
        _kept()
    time.sleep(max(0.0, told + _stop.seconds - time.monotonic()))
    words = _kept()
    line, _stop.line = _stop.line, None
    if line is not None:
        with suppress(Exception):
            print(line(words), file=sys.stderr, flush=True)
    leave(number)


def leave(number: int) -> None:
    """End the process now, as a shell expects of a signal."""
    os._exit(128 + number)


def _kept() -> list[str]:
    """Return the words on all work, which is written first."""
    with _section:
        return list(dict.fromkeys([*_stop.words, *(keeper.keep() for keeper in tuple(_stop.keepers))]))
