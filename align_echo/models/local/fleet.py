"""Several engines of one model as one: whoever plays an episode keeps an engine, and one that is gone is replaced.

An episode is played by one thread (`align_echo.rollout`), which is given the engine that the fewest others have and
keeps it: the engine's cache then holds what the episode has said so far. A reply depends on the request alone, so it is
the same whichever engine draws it, up to rounding. Left out: starting engines, and moving threads while all goes well.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import Context, copy_context
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from align_echo.errors import (
    ModelError,
    NoAnswerError,
    ReplyWithheldError,
    RequestRejectedError,
    UsageError,
    first_line,
)
from align_echo.models.local.engine import Engine, Forward, Reply, Request

OF_THE_REQUEST = (RequestRejectedError, ReplyWithheldError, NoAnswerError)
"""Faults that another engine would have too."""


@dataclass(frozen=True)
class _Asked:
    """A request, who waits for it, the thread that asked, and what it asked under (halts)."""

    request: Request
    answer: Future[Reply]
    thread: threading.Thread
    context: Context


class Fleet:
    """The engines at `addresses`, each made by `connect`, as one `Engine`.

    An engine that fails is left out, with a warning, and its requests go to the others. It is tried again when weights
    are published, and is given all adapters anew then. When none is left, requests end with the `ModelError` of the
    last. Raises what `connect` raises.
    """

    def __init__(self, addresses: Sequence[str], connect: Callable[[str], Engine]) -> None:
        self._connect = connect
        self._engines: dict[str, Engine] = {}
        self._lost: dict[str, str] = {}
        self._adapters: dict[str, str] = {}
        self._seats: WeakKeyDictionary[threading.Thread, str] = WeakKeyDictionary()
        self._lock = threading.Lock()
        try:
            for address in addresses:
                self._engines[address] = connect(address)
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """That of its engines."""
        return next(iter(self._engines.values())).name

    @property
    def context(self) -> int:
        """The shortest of its engines'."""
        return min(engine.context for engine in self._engines.values())

    @property
    def closed(self) -> bool:
        """Whether it takes no more requests."""
        return all(engine.closed for engine in self._engines.values())

    @property
    def changed(self) -> bool:
        """Whether other weights were published to any of them."""
        return any(engine.changed for engine in self._engines.values())

    @property
    def lost(self) -> dict[str, str]:
        """By address, why an engine is left out."""
        with self._lock:
            return dict(self._lost)

    def submit(self, request: Request) -> Future[Reply]:
        """Begin, as `Engine` says. Raises `ModelError` when no engine is left."""
        asked = _Asked(request, Future(), threading.current_thread(), copy_context())
        self._send(asked)
        return asked.answer

    def close(self) -> None:
        """Close all engines."""
        for engine in self._engines.values():
            engine.close()

    # ------------------------------------------------------------ replies

    def _send(self, asked: _Asked) -> None:
        address = self._seat(asked.thread)
        sent = asked.context.copy().run(self._engines[address].submit, asked.request)

        def cancel(answer: Future[Reply]) -> None:
            if answer.cancelled():
                sent.cancel()

        asked.answer.add_done_callback(cancel)
        sent.add_done_callback(lambda done: self._receive(asked, address, done))

    def _seat(self, thread: threading.Thread) -> str:
        """The engine of a thread, which is given another when it is lost."""
        with self._lock:
            left = [address for address in self._engines if address not in self._lost]
            if not left:
                raise ModelError(f"no server is left: {'; '.join(self._lost.values())}")
            if self._seats.get(thread) not in left:
                taken = Counter(self._seats.values())
                self._seats[thread] = min(left, key=lambda address: taken[address])
            return self._seats[thread]

    def _receive(self, asked: _Asked, address: str, done: Future[Reply]) -> None:
        if done.cancelled():
            asked.answer.cancel()
            return
        error = done.exception()
        if error is not None and _is_of_the_engine(error) and not self.closed:
            self._lose(address, error)
            try:
                self._send(asked)
            except (ModelError, UsageError) as last:
                error = last
            else:
                return
        if asked.answer.set_running_or_notify_cancel():
            asked.answer.set_result(done.result()) if error is None else asked.answer.set_exception(error)

    def _lose(self, address: str, error: BaseException) -> None:
        with self._lock:
            first = address not in self._lost
            self._lost[address] = f"{address}: {first_line(error)}"
        if first:
            warnings.warn(f"the server at {address} is left out for now: {first_line(error)}", stacklevel=2)

    # ------------------------------------------------------------ adapters and weights

    def load_adapter(self, name: str, folder: str) -> None:
        """As `Engine` says, on all of them. Raises `ModelError` when none could."""
        self._return()
        self._adapters[name] = folder
        self._on_all(lambda engine: engine.load_adapter(name, folder))

    def publish_weights(self, folder: str, forward: Forward) -> None:
        """As `Engine` says, on all of them. Raises `ModelError` when none could."""
        self._return()
        self._on_all(lambda engine: engine.publish_weights(folder, forward))

    def _on_all(self, change: Callable[[Engine], None]) -> None:
        for address, engine in self._engines.items():
            if address not in self._lost:
                try:
                    change(engine)
                except ModelError as error:
                    self._lose(address, error)
        if len(self._lost) == len(self._engines):
            raise ModelError(f"no server is left: {'; '.join(self._lost.values())}")

    def _return(self) -> None:
        """Connect anew to those that were lost, and give them the adapters as they are."""
        for address in self.lost:
            try:
                engine = self._connect(address)
            except (ModelError, UsageError):
                continue
            self._engines[address].close()  # what it had loaded there goes before its names are used again
            try:
                for name, folder in self._adapters.items():
                    engine.load_adapter(name, folder)
            except (ModelError, UsageError):
                engine.close()
                continue
            with self._lock:
                self._engines[address] = engine
                del self._lost[address]


def _is_of_the_engine(error: BaseException) -> bool:
    """Whether another engine may do better. `UsageError`: it no longer knows the model or the adapter."""
    return isinstance(error, ModelError | UsageError) and not isinstance(error, OF_THE_REQUEST)
