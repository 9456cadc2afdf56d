"""A local model in its own process: a `ModelEngine` here, the model and its computation there.

In one process Python computes on one core at a time. Here everything except the forward passes stays in this process
(episodes, environments, tokens, the reply cache, logs), and each such engine adds a core. Requests and replies go
through the other process's standard input and output; Ctrl-C reaches only this process. A lost process is restarted,
up to `STARTS` starts in all, and receives its unanswered requests again: a reply depends on its request alone. Not
here: the other process's work (`model_process.py`).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from align_echo.base.halting import wait_for_result
from align_echo.errors import (
    ModelError,
    NoAnswerError,
    ReplyWithheldError,
    RequestRejectedError,
    UsageError,
    first_line,
)
from align_echo.models.local.chat_template import OWN_FORMAT, ChatFormat
from align_echo.models.local.engine import Forward, ModelEngine, TokenReply, TokenRequest
from align_echo.models.local.vllm_engine import VERIFICATION, adapter_folder, check_weights, model_folder

STARTS = 4
"""Maximum number of starts of the process before the engine gives up."""

SERVING = "align_echo.models.local.model_process"
"""Module run by the other process."""


@dataclass(frozen=True)
class EngineSettings:
    """Arguments of `loading.run_transformers` in the other process, its number of torch threads, and its limit of
    memory in bytes (0: `MemoryPool`'s default).
    """

    source: str
    name: str
    threads: int = 1
    memory: int = 0
    chat: ChatFormat = OWN_FORMAT
    dtype: str = ""


@dataclass(frozen=True)
class ModelReady:
    """The model is loaded: its maximum number of tokens and the hash of its weights."""

    context: int
    weights: str


@dataclass(frozen=True)
class ModelAnswer:
    """Outcome of a numbered message: a `TokenReply`, None for a completed change, or an exception."""

    number: int
    outcome: TokenReply | Exception | None


@dataclass(frozen=True)
class CancelledRequest:
    """Notice that nobody waits for a message's answer any more."""

    number: int


@dataclass(frozen=True)
class NewWeights:
    """Request to load an adapter from a folder, or the model's own weights if `adapter` is empty."""

    folder: str
    adapter: str = ""


class ProcessEngine:
    """See `ModelEngine`. The process starts loading its model at once; `wait_until_ready` reports the outcome."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._numbers = 0
        self._pending: dict[int, tuple[TokenRequest | NewWeights, Future[Any]]] = {}
        self._changes: dict[str, NewWeights] = {}
        self._starts = 0
        self._closed = False
        self._ready: Future[ModelReady] = Future()
        self._owner = os.getpid()
        with self._sending:
            self._process = self._start()
        threading.Thread(target=self._receive, name=f"process of {settings.name}", daemon=True).start()
        atexit.register(self.close)

    def wait_until_ready(self) -> ProcessEngine:
        """Wait until the model is loaded. Raises any error of loading, and `ModelError` if the process cannot start."""
        wait_for_result(self._ready)
        return self

    @property
    def name(self) -> str:
        """Name in the settings."""
        return self._settings.name

    @property
    def context(self) -> int:
        """Maximum tokens of a context and its reply together."""
        return self._ready.result().context

    @property
    def weights(self) -> str:
        """Hash of the model's weights, as in `LocalModel.weights`."""
        return self._ready.result().weights

    @property
    def closed(self) -> bool:
        """True if the engine takes no more requests."""
        return self._closed

    @property
    def changed(self) -> bool:
        """True if other weights were published."""
        return "" in self._changes

    @property
    def pid(self) -> int:
        """Id of the current model process."""
        return self._process.pid

    def submit(self, request: TokenRequest) -> Future[TokenReply]:
        """Start a request, see `ModelEngine`. Raises `ModelError` if closed or if the process was lost too often."""
        return self._ask(request)

    def load_adapter(self, name: str, folder: str) -> None:
        """Load an adapter, see `ModelEngine`."""
        self._apply(NewWeights(adapter_folder(folder), name))

    def publish_weights(self, folder: str, forward: Forward) -> None:
        """Publish weights, see `ModelEngine`."""
        self._apply(NewWeights(model_folder(folder)))
        check_weights(forward, wait_for_result(self.submit(VERIFICATION)))

    def close(self) -> None:
        """End the process; waiting requests raise `ModelError`. May be called again."""
        with self._lock:
            first, self._closed = not self._closed, True
        if not first or os.getpid() != self._owner:
            return
        atexit.unregister(self.close)
        _end(self._process)
        self._fail(ModelError(f"{self.name} was closed"))

    # ------------------------------------------------------------ messages

    def _apply(self, change: NewWeights) -> None:
        wait_for_result(self._ask(change))
        self._changes[change.adapter] = change

    def _ask(self, message: TokenRequest | NewWeights) -> Future[Any]:
        if os.getpid() != self._owner:
            raise ModelError(f"{self.name} runs for the process that this one was forked from: load it here anew")
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise ModelError(f"{self.name} is closed")
            self._numbers += 1
            number = self._numbers
            self._pending[number] = message, future
        with self._sending:
            self._send((number, message))  # after a restart this may be a second time, which is harmless
        future.add_done_callback(lambda done: self._forget(number) if done.cancelled() else None)
        return future

    def _forget(self, number: int) -> None:
        with self._lock:
            known = self._pending.pop(number, None)
        if known is not None:
            with self._sending:
                self._send(CancelledRequest(number))

    def _send(self, message: object) -> None:
        """Send one message. A lost process is noticed by the reading thread; its successor receives everything again.
        """
        stream = self._process.stdin
        assert stream is not None
        with contextlib.suppress(OSError, ValueError):
            pickle.dump(message, stream)
            stream.flush()

    def _start(self) -> subprocess.Popen[bytes]:
        self._starts += 1
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {SERVING} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._process = process
        self._send(self._settings)
        return process

    def _receive(self) -> None:
        """Read the process's messages on a separate thread, and restart a lost process."""
        while True:
            stream = self._process.stdout
            assert stream is not None
            with contextlib.suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
                while not self._closed:
                    self._take(pickle.load(stream))
            stream.close()
            if self._closed:
                return
            if self._starts == STARTS or (self._ready.done() and self._ready.exception()):
                break
            self._restart()
        status = _end(self._process)
        self._closed = True
        atexit.unregister(self.close)
        self._fail(ModelError(f"{STARTS} processes of {self.name} were lost; the last ended with status {status}"))

    def _restart(self) -> None:
        status = _end(self._process)
        warnings.warn(
            f"a process of {self.name} was lost (status {status}), and another takes up its work", stacklevel=2
        )
        with self._sending:
            with self._lock:
                messages: list[object] = [(0, change) for change in self._changes.values()]
                messages += [(number, message) for number, (message, _) in self._pending.items()]
                if self._closed:
                    return
                self._process = self._start()
            for message in messages:
                self._send(message)

    def _take(self, message: object) -> None:
        if isinstance(message, ModelReady):
            if not self._ready.done():
                self._ready.set_result(message)
        elif isinstance(message, ModelAnswer):
            with self._lock:
                _, future = self._pending.pop(message.number, (None, None))
            if future is not None:
                _settle(future, message.outcome)
        elif isinstance(message, Exception) and not self._ready.done():
            self._ready.set_exception(message)

    def _fail(self, error: ModelError) -> None:
        with self._lock:
            pending, self._pending = self._pending, {}
        for _, future in pending.values():
            _settle(future, error)
        if not self._ready.done():
            self._ready.set_exception(error)


def _settle(future: Future[Any], outcome: object) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(outcome) if isinstance(outcome, Exception) else future.set_result(outcome)


def _end(process: subprocess.Popen[bytes]) -> int:
    """Kill a process and return its exit status. Nobody waits for its work, and it writes no files."""
    process.kill()
    status = process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # unsent messages
            process.stdin.close()
    return status


# ---------------------------------------------------------------- engines of one model combined into one

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
