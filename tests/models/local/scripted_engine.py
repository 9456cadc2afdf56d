"""An engine without a model: what it replies to a context is written down beforehand. Needs no torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.engine import Forward, TokenReply, TokenRequest


@dataclass(eq=False)
class ScriptedEngine:
    """`say` gives a reply by what the context says and the seed of the draw, `likes` how probable the first of
    `Sampling.choices` is. `asked` keeps every request.
    """

    name: str
    encoder: ChatEncoder
    say: Callable[[str, int], str]
    likes: Callable[[str], float] = lambda text: 0.5
    asked: list[TokenRequest] = field(default_factory=list)
    context: int = 100_000
    closed: bool = False
    changed: bool = False

    def submit(self, request: TokenRequest) -> Future[TokenReply]:
        self.asked.append(request)
        future: Future[TokenReply] = Future()
        future.set_result(self._reply(request))
        return future

    def _reply(self, request: TokenRequest) -> TokenReply:
        text, sampling = self.encoder.text(request.ids), request.sampling
        if sampling.choices:
            likely = self.likes(text)
            first, *others = sampling.choices
            logprobs = tuple(math.log(max(share, 1e-9)) for share in (likely, *[1 - likely] * len(others)))
            return TokenReply((first if likely > 0.5 else others[0],), (0.0,), "stop", logprobs)
        ids = (*self.encoder.plain(self.say(text, sampling.seed)), self.encoder.end_id)[: sampling.max_tokens]
        return TokenReply(ids, (-0.1,) * len(ids), "stop" if ids[-1] == self.encoder.end_id else "length")

    def close(self) -> None:
        self.closed = True

    def load_adapter(self, name: str, folder: str) -> None:
        raise NotImplementedError

    def publish_weights(self, folder: str, forward: Forward) -> None:
        raise NotImplementedError
