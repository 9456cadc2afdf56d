"""A local model in a process of its own: an `Engine` here, the model and its computing there.

Python computes on one core at a time in one process. Here everything but the forward passes stays in this process
(episodes, environments, tokens, the reply cache, logs), and each such engine adds a core to them. Requests and replies
go over the other process's standard input and output; a Ctrl-C is this process's alone to see. A process that is lost
is started anew, `STARTS` times in all, and is asked again what it had not answered: a reply depends on its request
alone. Left out: what the other process does (`model_process.py`), and sharing requests among several (`fleet.py`).
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
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from align_echo.errors import ModelError
from align_echo.halting import result_of
from align_echo.models.local.engine import Forward, Reply, Request
from align_echo.models.local.publishing import VERIFICATION, adapter_folder, check_weights, model_folder

STARTS = 4
"""How often the process is started before its end is the engine's."""

SERVING = "align_echo.models.local.model_process"
"""The module that the other process runs."""


@dataclass(frozen=True)
class EngineSettings:
    """What `loading.run_transformers` is called with in the other process, on so many threads of torch."""

    source: str
    name: str
    threads: int = 1


@dataclass(frozen=True)
class ModelReady:
    """The model is loaded: the most tokens that it takes, and what tells its weights from others of its name."""

    context: int
    weights: str


@dataclass(frozen=True)
class ModelAnswer:
    """What came of a message of a number: a `Reply`, None for a change that was made, or what was raised."""

    number: int
    outcome: Reply | Exception | None


@dataclass(frozen=True)
class CancelledRequest:
    """Nobody waits for the answer to a message any more."""

    number: int


@dataclass(frozen=True)
class NewWeights:
    """Load an adapter, or where it has no name the weights of the model itself, from a folder."""

    folder: str
    adapter: str = ""


class ProcessEngine:
    """See `Engine`. The process begins to load its model at once; `wait_until_ready` says whether it could."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._numbers = 0
        self._pending: dict[int, tuple[Request | NewWeights, Future[Any]]] = {}
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
        """This engine, once its model is loaded. Raises what loading it raises, and `ModelError` if it cannot start."""
        result_of(self._ready)
        return self

    @property
    def name(self) -> str:
        """That of the settings."""
        return self._settings.name

    @property
    def context(self) -> int:
        """Most tokens of a context and its reply together."""
        return self._ready.result().context

    @property
    def weights(self) -> str:
        """What tells the model's weights from others, as `LocalModel.weights` does."""
        return self._ready.result().weights

    @property
    def closed(self) -> bool:
        """Whether it takes no more requests."""
        return self._closed

    @property
    def changed(self) -> bool:
        """Whether other weights were published to it."""
        return "" in self._changes

    @property
    def pid(self) -> int:
        """The id of the process that computes now."""
        return self._process.pid

    def submit(self, request: Request) -> Future[Reply]:
        """Begin, as `Engine` says. Raises `ModelError` when it is closed, or its process goes on being lost."""
        return self._ask(request)

    def load_adapter(self, name: str, folder: str) -> None:
        """As `Engine` says."""
        self._apply(NewWeights(adapter_folder(folder), name))

    def publish_weights(self, folder: str, forward: Forward) -> None:
        """As `Engine` says."""
        self._apply(NewWeights(model_folder(folder)))
        check_weights(forward, result_of(self.submit(VERIFICATION)))

    def close(self) -> None:
        """End the process; what waits raises `ModelError`. May be called again."""
        with self._lock:
            first, self._closed = not self._closed, True
        if not first or os.getpid() != self._owner:
            return
        atexit.unregister(self.close)
        _end(self._process)
        self._fail(ModelError(f"{self.name} was closed"))

    # ------------------------------------------------------------ how

    def _apply(self, change: NewWeights) -> None:
        result_of(self._ask(change))
        self._changes[change.adapter] = change

    def _ask(self, message: Request | NewWeights) -> Future[Any]:
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
            self._send((number, message))  # for a second time where it was lost in between: that changes nothing
        future.add_done_callback(lambda done: self._forget(number) if done.cancelled() else None)
        return future

    def _forget(self, number: int) -> None:
        with self._lock:
            known = self._pending.pop(number, None)
        if known is not None:
            with self._sending:
                self._send(CancelledRequest(number))

    def _send(self, message: object) -> None:
        """One at a time. That a process is gone is noticed by who reads, and the next one is sent all of it."""
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
        """Take what the process says, on a thread of its own, and start another where it is lost."""
        while True:
            stream = self._process.stdout
            assert stream is not None
            with contextlib.suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
                while not self._closed:
                    self._take(pickle.load(stream))
            if self._closed:
                return
            if self._starts == STARTS or (self._ready.done() and self._ready.exception()):
                break
            self._start_anew()
        status = self._process.wait()
        self._closed = True
        atexit.unregister(self.close)
        self._fail(ModelError(f"{STARTS} processes of {self.name} were lost; the last ended with status {status}"))

    def _start_anew(self) -> None:
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

    def _take(self, said: object) -> None:
        if isinstance(said, ModelReady):
            if not self._ready.done():
                self._ready.set_result(said)
        elif isinstance(said, ModelAnswer):
            with self._lock:
                _, future = self._pending.pop(said.number, (None, None))
            if future is not None:
                _settle(future, said.outcome)
        elif isinstance(said, Exception) and not self._ready.done():
            self._ready.set_exception(said)

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
    """End a process, whose work nobody waits for and which writes nothing; its exit status."""
    process.kill()
    status = process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # what it was still to be told
            process.stdin.close()
    return status
