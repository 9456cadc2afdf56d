"""A `VllmServer` connected to a stand-in, and what its replies must agree with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from align_echo.models.client import RetryPolicy
from align_echo.models.local.engine import SamplingConfig, TokenReply, TokenRequest
from align_echo.models.local.vllm_server import VllmServer
from tests.models.local.vllm_stand_in import StandIn, logits_of, serve

IDS = (5, 40, 90, 7, 120)
ATTEMPTS = 3


def connect(stand_in: StandIn, **options: Any) -> VllmServer:
    return VllmServer(
        options.pop("model", "tiny"),
        base_url=stand_in.url,
        retry=RetryPolicy(attempts=ATTEMPTS),
        wait=lambda seconds: None,
        timeout=60,
        **options,
    )


@contextmanager
def running(stand_in: StandIn | None = None) -> Iterator[tuple[StandIn, VllmServer]]:
    with serve(stand_in or StandIn()) as made:
        engine = connect(made)
        made.requests.clear()
        made.paths.clear()
        try:
            yield made, engine
        finally:
            made.let_go.set()
            engine.close()


def ask(engine: VllmServer, ids: tuple[int, ...] = IDS, adapter: str = "", **sampling: Any) -> TokenReply:
    return engine.submit(TokenRequest(ids, SamplingConfig(**{"max_tokens": 8, **sampling}), adapter)).result(60)


def forward_logprobs(model: torch.nn.Module, ids: tuple[int, ...], temperature: float = 1.0) -> list[float]:
    """Of ids[1:], by one pass over all of them."""
    logprobs_TV = (logits_of(model, list(ids))[:-1] / (temperature or 1.0)).log_softmax(-1)
    return [float(logprobs_TV[index, token]) for index, token in enumerate(ids[1:])]


def agrees(model: torch.nn.Module, ids: tuple[int, ...], reply: TokenReply, temperature: float = 1.0) -> bool:
    wanted = forward_logprobs(model, ids + reply.ids, temperature)[len(ids) - 1 :]
    return reply.logprobs == pytest.approx(wanted, abs=1e-4)
