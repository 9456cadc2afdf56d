"""Interface of an engine for local models: it continues token ids. Nothing here needs torch.

`run_bounded` runs code of others in a process with limits of time and memory.

An engine knows no chat, no text and no environment. It may cache a context and reuse it for any request with the same
prefix; this never changes the result.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from align_echo.errors import ModelError, UsageError


@dataclass(frozen=True)
class SamplingConfig:
    """Sampling settings. `temperature` 0 is greedy; `top_k` 0 and `top_p` 1 are off.

    `stop_ids` end a reply and are part of it. `stop` are strings that end it too, including the tokens that completed
    them. `seed` fixes the draw: the same ids and sampling give the same reply, whatever else the engine does at the
    time (up to ties that differ by rounding). `choices` are token ids whose log-probabilities at the first drawn
    position are reported (`TokenReply.choices`); they do not change the draw.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_tokens: int = 512
    stop_ids: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()
    seed: int = 0
    choices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Validate the settings. Raises `UsageError`."""
        if not (0 <= self.temperature < math.inf and self.top_k >= 0 and 0 < self.top_p <= 1):
            raise UsageError(
                f"temperature {self.temperature}, top_k {self.top_k}, top_p {self.top_p}: give a temperature of 0 or "
                "more, a top_k of 0 (off) or more, and a top_p above 0 and up to 1 (off)"
            )


@dataclass(frozen=True)
class TokenRequest:
    """A request to continue `ids` (the full context). `adapter` names a loaded adapter; "" is the model itself."""

    ids: tuple[int, ...]
    sampling: SamplingConfig
    adapter: str = ""


@dataclass(frozen=True)
class TokenReply:
    """A reply: `ids` [T] as sampled, `logprobs` [T] as `align_echo.types.Tokens` defines them.

    `choices` are the natural log-probabilities of `SamplingConfig.choices`, in their order, at the reply's first token:
    always at temperature 1, before top-k and top-p.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: Literal["stop", "length"]
    choices: tuple[float, ...] = ()


Forward = Callable[[tuple[int, ...]], Sequence[float]]
"""The publisher's forward pass with the published weights: for ids [T], the natural log-probabilities of ids[1:] at
temperature 1 [T - 1]."""


class ModelEngine(Protocol):
    """A running model. Thread-safe; concurrent requests are batched.

    It can load new weights while it runs, from folders where a trainer publishes them.
    """

    @property
    def name(self) -> str: ...

    @property
    def context(self) -> int:
        """Maximum tokens of a context and its reply together."""

    @property
    def closed(self) -> bool:
        """True if the engine takes no more requests."""

    @property
    def changed(self) -> bool:
        """True if the model's own weights may differ from those at the start."""

    def submit(self, request: TokenRequest) -> Future[TokenReply]:
        """Start a request. The future raises `ContextOverflowError` without room for a reply, `ModelError` for a
        fault.

        A reply that would exceed the context is cut there, with finish reason "length". Cancelling the future stops
        the generation if the engine can stop it.
        """

    def close(self) -> None: ...

    def load_adapter(self, name: str, folder: str) -> None:
        """Load the LoRA adapter in the folder, as saved by PEFT, for requests with `TokenRequest.adapter` = `name`.

        Raises `MissingDataError` if the folder has no adapter, `UsageError` or `ModelError` if it cannot be loaded;
        the previous adapter of that name then stays. Save every version to its own folder.
        """

    def publish_weights(self, folder: str, forward: Forward) -> None:
        """Replace the model's weights by those in the folder, as saved by `transformers`. Adapters stay.

        Waits for running requests; later requests use the new weights. The log-probabilities of a short reply are then
        compared with `forward`. Raises `MissingDataError` if the folder has no weights, `UsageError` if they belong to
        another model, `ModelError` on failure: the old weights may be gone then.
        """


# ---------------------------------------------------------------- loading code of others in a process of its own

SECONDS = 10
"""CPU seconds a process may use, including its start."""

MEMORY = 2 * 2**30
"""Memory limit in bytes; the required libraries take 200 MB."""

_PATIENCE = 120.0
_SCRIPT = Path(__file__).with_name("foreign_process.py")


class BoundedOutcome(NamedTuple):
    """Answers of a process, in order, and why it stopped early: "" if it gave all."""

    answers: list[dict[str, Any]]
    excess: str


def run_bounded(request: Mapping[str, Any], *, seconds: int = SECONDS, memory: int = MEMORY) -> BoundedOutcome:
    """Run a request in a separate process with limits. Raises `ModelError` if no process can be started."""
    command = [sys.executable, "-I", str(_SCRIPT), str(seconds), str(memory)]
    alone = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, input=json.dumps(request), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
            encoding="utf-8", env=os.environ | alone, timeout=_PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return BoundedOutcome([], f"gave no answer in {_PATIENCE:g} s")
    except OSError as error:
        raise ModelError(f"no process can be started to try the model's files in: {error}") from error
    answers = [json.loads(line) for line in done.stdout.splitlines(keepends=True) if line.endswith("\n")]
    if done.returncode == 0:
        return BoundedOutcome(answers, answers.pop()["spent"] if answers and "spent" in answers[-1] else "")
    late = done.returncode == -getattr(signal, "SIGXCPU", 0)
    return BoundedOutcome(
        answers, f"needs more than {seconds} s of computing" if late else "needs too much memory, or crashes"
    )
