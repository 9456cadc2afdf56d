"""Giving up work on threads: what waits for long inside a batch is woken and ends with `CancelledError`.

A batch makes a `Halt` and works `under` it, or works `together`. Once the halt is set, the thread that works under it,
and those that were handed its context, wait no longer for a model's reply (`result_of`) or before they ask an endpoint
again (`pause`), and their agents take no further turn (`check_halt`). Requests run on one asyncio thread of the process
(`answer_of`), which starts with the first of them. Left out: interrupting what waits in any other way.
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
    """Set once, when a batch is given up. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._wakers: dict[object, Callable[[], object]] = {}

    def set(self) -> None:
        """Wake all that waits, now and later."""
        with self._lock:
            self._event.set()
            wakers = list(self._wakers.values())
        for wake in wakers:
            wake()

    def check(self) -> None:
        """Raise `CancelledError` if it is set."""
        if self._event.is_set():
            raise CancelledError("the batch was given up")

    def wait(self, seconds: float) -> None:
        """Wait so long. Raises `CancelledError` as soon as it is set."""
        self._event.wait(seconds)
        self.check()

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake` when it is set while the block runs; at once if it is set already."""
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
    """What the block waits for ends when the halt is set."""
    token = _current.set(halt)
    try:
        yield
    finally:
        _current.reset(token)


def ended_with_around(halt: Halt) -> AbstractContextManager[None]:
    """While the block runs, the halt is set when the one around the block is, if there is one."""
    around = _current.get()
    return around.waking(halt.set) if around else nullcontext()


@contextmanager
def together() -> Iterator[None]:
    """What the block waits for, on threads that were handed its context too, ends when it is left by an exception.

    It also ends with the halt around the block, if there is one.
    """
    halt = Halt()
    with ended_with_around(halt), under(halt):
        try:
            yield
        except BaseException:
            halt.set()
            raise


def on_threads(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> list[Result]:
    """What `work` gives for each item, in order, so many at once.

    What one raises is raised here, and ends what the others wait for; those that have not begun are not begun.
    """
    with ThreadPoolExecutor(threads) as pool, together():
        try:
            futures = [pool.submit(copy_context().run, work, item) for item in items]
            ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
            failed = next((future for future in futures if future in ended and future.exception()), None)
            return [future.result() for future in ([failed] if failed else futures)]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def result_of(future: Future[Result]) -> Result:
    """The future's result. Whoever stops waiting (Ctrl-C, a halt) cancels it: nobody else will read it."""
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
    """Raise `CancelledError` if the batch that this is a part of was given up."""
    halt = _current.get()
    if halt is not None:
        halt.check()


def answer_of(asking: Coroutine[Any, Any, Result], seconds: float) -> Result:
    """What a coroutine gives on the process's asyncio thread. Whoever stops waiting cancels it there.

    Raises `TimeoutError` if it takes longer than so many seconds in all.
    """
    return result_of(asyncio.run_coroutine_threadsafe(_in_time(asking, seconds), _asking_loop()))


async def _in_time(asking: Coroutine[Any, Any, Result], seconds: float) -> Result:
    async with asyncio.timeout(seconds):
        return await asking


_starting = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop of each process by its id: a forked process has none of its parent's threads."""


class _AskingLoop(asyncio.SelectorEventLoop):
    """A loop that looks up names of hosts on threads that nobody waits for: one look-up may take a minute, and a
    process waits for the threads of `concurrent.futures` before it ends.
    """

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        """As asyncio's."""
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
    """`time.sleep` that a halt ends with `CancelledError`."""
    halt = _current.get()
    if halt is None:
        time.sleep(seconds)
    else:
        halt.wait(seconds)
