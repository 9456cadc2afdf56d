"""What every engine that runs a local model can do: continue token ids. Nothing here needs torch.

An engine knows no chat, no text and no environment. It may keep what it computed for a context and reuse it for any
request that begins with the same ids; that never changes what is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, Protocol

from align_echo.errors import UsageError


@dataclass(frozen=True)
class Sampling:
    """How to draw. `temperature` 0 is greedy; `top_k` 0 and `top_p` 1 are off.

    `stop_ids` end a reply and are part of it; `stop` are strings that end it too, with the tokens that completed them.
    `seed` fixes the draw: the same ids and sampling give the same reply, whatever else the engine does at the time
    (up to ties that differ by rounding). `choices` are token ids of which the log-probabilities at the first drawn
    position are wanted as well (`Reply.choices`); they do not change the draw.
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
        """Raises `UsageError` for what is no way to draw."""
        if not (0 <= self.temperature < math.inf and self.top_k >= 0 and 0 < self.top_p <= 1):
            raise UsageError(
                f"temperature {self.temperature}, top_k {self.top_k}, top_p {self.top_p}: give a temperature of 0 or "
                "more, a top_k of 0 (off) or more, and a top_p above 0 and up to 1 (off)"
            )


@dataclass(frozen=True)
class Request:
    """Continue `ids` (the whole context). `adapter` names one that the engine has loaded; "" is the model itself."""

    ids: tuple[int, ...]
    sampling: Sampling
    adapter: str = ""


@dataclass(frozen=True)
class Reply:
    """`ids` [T] as drawn, `logprobs` [T] as `align_echo.types.Tokens` defines them.

    `choices` are the natural logarithms of the probabilities of `Sampling.choices`, in their order, where the reply's
    first token was drawn: at temperature 1 whatever that of the draw, before top-k and top-p.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: Literal["stop", "length"]
    choices: tuple[float, ...] = ()


Forward = Callable[[tuple[int, ...]], Sequence[float]]
"""A publisher's own forward pass with the weights that it publishes: for ids [T], the natural logarithms of the
probabilities of ids[1:] at temperature 1 [T - 1]."""


class Engine(Protocol):
    """A running model. Thread-safe; requests that are under way at once are batched.

    It takes new weights while it runs, from folders that it reads itself: a trainer publishes them there.
    """

    @property
    def name(self) -> str: ...

    @property
    def context(self) -> int:
        """Most tokens of a context and its reply together."""

    @property
    def closed(self) -> bool:
        """Whether it takes no more requests."""

    @property
    def changed(self) -> bool:
        """Whether the model's own weights may be others than those it was started with."""

    def submit(self, request: Request) -> Future[Reply]:
        """Begin; the future raises `ContextOverflowError` when there is no room for a reply, `ModelError` for a fault.

        A reply that would outgrow the context is cut there, with finish reason "length". A future that is cancelled
        before it has its reply is drawn no further, where the engine can stop it.
        """

    def close(self) -> None: ...

    def load_adapter(self, name: str, folder: str) -> None:
        """From now on `Request.adapter` = `name` means the LoRA adapter in the folder, as PEFT saves it.

        Raises `MissingDataError` if the folder holds none, `UsageError` or `ModelError` if it cannot be loaded; the
        adapter of that name then stays as it was. Save every version to a folder of its own.
        """

    def publish_weights(self, folder: str, forward: Forward) -> None:
        """Replace the model's weights by those in the folder, as `transformers` saves them. Adapters stay.

        Waits for the requests under way; later ones see the new weights. The log-probabilities of a short reply are
        then held against `forward`. Raises `MissingDataError` if the folder holds no weights, `UsageError` if they are
        of another model, `ModelError` if it failed: the old weights may be gone then.
        """
