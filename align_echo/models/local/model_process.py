"""Counterpart of `engine_process.py`: a process that loads one model and answers requests until its input ends.

Reads messages from standard input and writes each outcome to standard output, in any order.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import IO, Any

import torch

from align_echo.errors import ModelError, portable
from align_echo.models.local import POCKET
from align_echo.models.local.engine import TokenReply
from align_echo.models.local.engine_process import CancelledRequest, EngineSettings, ModelAnswer, ModelReady, NewWeights
from align_echo.models.local.loading import run_pocket, run_transformers
from align_echo.models.local.memory import POOL


def serve() -> None:
    """Load a model and answer until standard input ends."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keep prints of libraries apart from answers
    saying = threading.Lock()

    def say(message: object) -> None:
        with saying, contextlib.suppress(OSError, ValueError):
            pickle.dump(message, output)
            output.flush()

    try:
        _serve(sys.stdin.buffer, say)
    finally:
        os._exit(0)  # at once: nobody waits for running work


def _serve(heard: IO[bytes], say: Callable[[object], None]) -> None:
    settings: EngineSettings = pickle.load(heard)
    try:
        torch.set_num_threads(settings.threads)
        POOL.set_limit(settings.memory)
        is_pocket = settings.name == POCKET
        model = run_pocket() if is_pocket else run_transformers(
            settings.source, name=settings.name, chat=settings.chat, dtype=settings.dtype
        )
        engine: Any = model.engine
    except Exception as error:
        say(portable(error, ModelError))
        return
    say(ModelReady(engine.context, model.weights))
    under_way: dict[int, Future[TokenReply]] = {}

    def answer(number: int, done: Future[TokenReply]) -> None:
        under_way.pop(number, None)
        if not done.cancelled():
            error = done.exception()
            say(ModelAnswer(number, done.result() if error is None else portable(error, ModelError)))

    with contextlib.suppress(EOFError):
        while True:
            message = pickle.load(heard)
            if isinstance(message, CancelledRequest):
                if (cancelled := under_way.get(message.number)) is not None:
                    cancelled.cancel()
                continue
            number, asked = message
            try:
                if isinstance(asked, NewWeights):
                    _make(engine, asked)
                    say(ModelAnswer(number, None))
                else:
                    under_way[number] = engine.submit(asked)
                    under_way[number].add_done_callback(partial(answer, number))
            except Exception as error:
                say(ModelAnswer(number, portable(error, ModelError)))


def _make(engine: Any, change: NewWeights) -> None:
    if change.adapter:
        engine.load_adapter(change.adapter, change.folder)
    else:
        engine.read_weights(change.folder)
