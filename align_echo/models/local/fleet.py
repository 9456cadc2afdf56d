"""Engines of one model combined into one. Each episode stays on one engine, and a lost engine is replaced.

An episode is played by one thread (`align_echo.rollout`). The thread is assigned the least used engine and stays
there, so that the engine's cache holds the episode so far. A reply depends only on its request, so every engine
returns the same reply, up to rounding. Not here: starting engines, and moving threads while everything works.
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
from align_echo.models.local.engine import Forward, ModelEngine, TokenReply, TokenRequest

REQUEST_ERRORS = (RequestRejectedError, ReplyWithheldError, NoAnswerError)
"""Errors that any engine would return for the same request."""


@dataclass(frozen=True)
class _Asked:
    """A request, its future, the thread that asked, and that thread's context (halts)."""

    request: TokenRequest
    answer: Future[TokenReply]
    thread: threading.Thread
    context: Context


class EngineGroup:
    """The engines at `addresses`, each made by `connect`, as one `ModelEngine`.

    A failing engine is left out, with a warning, and its requests go to the others. It is tried again when weights are
    published, and receives all adapters again. If no engine is left, requests raise the last `ModelError`. Raises the
    exceptions of `connect`.
    """

    def __init__(self, addresses: Sequence[str], connect: Callable[[str], ModelEngine]) -> None:
        self._connect = connect
        self._engines: dict[str, ModelEngine] = {}
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
        """Name of its engines."""
        return next(iter(self._engines.values())).name

    @property
    def context(self) -> int:
        """Shortest context of its engines."""
        return min(engine.context for engine in self._engines.values())

    @property
    def closed(self) -> bool:
        """True if it takes no more requests."""
        return all(engine.closed for engine in self._engines.values())

    @property
    def changed(self) -> bool:
        """True if other weights were published to any engine."""
        return any(engine.changed for engine in self._engines.values())

    @property
    def lost(self) -> dict[str, str]:
        """Reasons for lost engines, by address."""
        with self._lock:
            return dict(self._lost)

    def submit(self, request: TokenRequest) -> Future[TokenReply]:
        """Start a request, see `ModelEngine`. Raises `ModelError` if no engine is left."""
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

        def cancel(answer: Future[TokenReply]) -> None:
            if answer.cancelled():
                sent.cancel()

        asked.answer.add_done_callback(cancel)
        sent.add_done_callback(lambda done: self._receive(asked, address, done))

    def _seat(self, thread: threading.Thread) -> str:
        """Return the engine assigned to a thread; assign another if it is lost."""
        with self._lock:
            left = [address for address in self._engines if address not in self._lost]
            if not left:
                raise ModelError(f"no server is left: {'; '.join(self._lost.values())}")
            if self._seats.get(thread) not in left:
                load = Counter(self._seats.values())
                self._seats[thread] = min(left, key=lambda address: load[address])
            return self._seats[thread]

    def _receive(self, asked: _Asked, address: str, done: Future[TokenReply]) -> None:
        if done.cancelled():
            asked.answer.cancel()
            return
        error = done.exception()
        if error is not None and _is_engine_fault(error) and not self.closed:
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
        """Load an adapter into all engines, see `ModelEngine`. Raises `ModelError` if none could."""
        self._return()
        self._adapters[name] = folder
        self._on_all(lambda engine: engine.load_adapter(name, folder))

    def publish_weights(self, folder: str, forward: Forward) -> None:
        """Publish weights to all engines, see `ModelEngine`. Raises `ModelError` if none could."""
        self._return()
        self._on_all(lambda engine: engine.publish_weights(folder, forward))

    def _on_all(self, change: Callable[[ModelEngine], None]) -> None:
        for address, engine in self._engines.items():
            if address not in self._lost:
                try:
                    change(engine)
                except ModelError as error:
                    self._lose(address, error)
        if len(self._lost) == len(self._engines):
            raise ModelError(f"no server is left: {'; '.join(self._lost.values())}")

    def _return(self) -> None:
        """Reconnect lost engines and load the current adapters into them."""
        for address in self.lost:
            try:
                engine = self._connect(address)
            except (ModelError, UsageError):
                continue
            self._engines[address].close()  # unload its adapters before their names are used again
            try:
                for name, folder in self._adapters.items():
                    engine.load_adapter(name, folder)
            except (ModelError, UsageError):
                engine.close()
                continue
            with self._lock:
                self._engines[address] = engine
                del self._lost[address]


def _is_engine_fault(error: BaseException) -> bool:
    """Return True if another engine may succeed. `UsageError`: this engine no longer knows the model or the adapter."""
    return isinstance(error, ModelError | UsageError) and not isinstance(error, REQUEST_ERRORS)
