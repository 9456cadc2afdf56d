"""Cancel work on threads: long waits inside a batch are woken and end with `CancelledError`.

A batch makes a `Halt` and works `under` it, or works `together`. Once the halt is set, its thread and the threads with
its context stop waiting for a model's reply (`wait_for_result`) or for a retry (`pause`), and their agents take no
further turn (`check_halt`). Requests run on one asyncio thread of the process (`run_coroutine`), started by the first
request. Not here: interrupting other kinds of waiting.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
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
