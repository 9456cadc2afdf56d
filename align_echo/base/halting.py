"""Cancel work on threads: long waits inside a batch are woken and end with `CancelledError`.

A batch makes a `Halt` and works `under` it, or works `together`. Once the halt is set, its thread and the threads with
its context stop waiting for a model's reply (`wait_for_result`) or for a retry (`pause`), and their agents take no
further turn (`check_halt`). Requests run on one asyncio thread of the process (`run_coroutine`), started by the first
request. Not here: interrupting other kinds of waiting.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Halt:
    """A flag, set once when a batch is cancelled. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._wakers: dict[object, Callable[[], object]] = {}

    def set(self) -> None:
        """Wake all current and future waits."""
        with self._lock:
            self._event.set()
            wakers = list(self._wakers.values())
        for wake in wakers:
            wake()

    def check(self) -> None:
        """Raise `CancelledError` if the halt is set."""
        if self._event.is_set():
            raise CancelledError("the batch was given up")

    def wait(self, seconds: float) -> None:
        """Wait for these seconds. Raises `CancelledError` as soon as the halt is set."""
        self._event.wait(seconds)
        self.check()

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake` when the halt is set during the block; at once if it is set already."""
        key = object()
        with self._lock:
            self._wakers[key] = wake
            late = self._event.is_set()
        try:
            if late:
                wake()
            yield
        finally:
            with self._lock:
                del self._wakers[key]


_current: ContextVar[Halt | None] = ContextVar("align_echo_halt", default=None)


@contextmanager
def under(halt: Halt) -> Iterator[None]:
    """Let waits in the block end when the halt is set."""
    token = _current.set(halt)
    try:
        yield
    finally:
        _current.reset(token)


def linked_to_outer(halt: Halt) -> AbstractContextManager[None]:
    """Set this halt when the enclosing halt is set, while the block runs."""
    outer = _current.get()
    return outer.waking(halt.set) if outer else nullcontext()


@contextmanager
def together() -> Iterator[None]:
    """End waits in the block, also on threads with its context, when the block is left by an exception.

    They also end with the enclosing halt, if there is one.
    """
    halt = Halt()
    with linked_to_outer(halt), under(halt):
        try:
            yield
        except BaseException:
            halt.set()
            raise


def on_threads(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> list[Result]:
    """Apply `work` to each item on `threads` threads. Return the results in order.

    An exception of any item propagates and ends the waits of the others; items not yet started are dropped.
    """
    with ThreadPoolExecutor(threads) as pool, together():
        try:
            futures = [pool.submit(copy_context().run, work, item) for item in items]
            finished, _ = wait(futures, return_when=FIRST_EXCEPTION)
            failed = next((future for future in futures if future in finished and future.exception()), None)
            return [future.result() for future in ([failed] if failed else futures)]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def wait_for_result(future: Future[Result]) -> Result:
    """Wait for a future's result. If the wait ends early (Ctrl-C, a halt), cancel the future."""
    halt = _current.get()
    try:
        if halt is None:
            return future.result()
        with halt.waking(future.cancel):
            return future.result()
    except BaseException:
        future.cancel()
        raise


def check_halt() -> None:
    """Raise `CancelledError` if the current batch was cancelled."""
    halt = _current.get()
    if halt is not None:
        halt.check()


def run_coroutine(asking: Coroutine[Any, Any, Result], seconds: float) -> Result:
    """Run a coroutine on the process's asyncio thread and wait for its result. Ending the wait cancels it.

    Raises `TimeoutError` if it takes longer than `seconds` in total.
    """
    return wait_for_result(asyncio.run_coroutine_threadsafe(_in_time(asking, seconds), _asking_loop()))


async def _in_time(asking: Coroutine[Any, Any, Result], seconds: float) -> Result:
    async with asyncio.timeout(seconds):
        return await asking


_starting = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""Event loop by process id: a forked process has none of its parent's threads."""


class _AskingLoop(asyncio.SelectorEventLoop):
    """Event loop that resolves host names on daemon threads.

    A look-up may take a minute, and a process waits for the threads of `concurrent.futures` before it exits.
    """

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        """Resolve as asyncio does."""
        addresses: Future[Any] = Future()

        def look_up() -> None:
            try:
                addresses.set_result(socket.getaddrinfo(host, port, family, type, proto, flags))
            except BaseException as error:
                addresses.set_exception(error)

        threading.Thread(target=look_up, name="looking up a host", daemon=True).start()
        return await asyncio.shield(asyncio.wrap_future(addresses))


def _asking_loop() -> asyncio.AbstractEventLoop:
    with _starting:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = _AskingLoop()
            threading.Thread(target=loop.run_forever, name="asking endpoints", daemon=True).start()
        return loop


def pause(seconds: float) -> None:
    """Sleep as `time.sleep` does; a halt ends it with `CancelledError`."""
    halt = _current.get()
    if halt is None:
        time.sleep(seconds)
    else:
        halt.wait(seconds)


# ---------------------------------------------------------------- handle Ctrl-C and SIGTERM

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
