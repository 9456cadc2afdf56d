"""Replies a second, engine beside engine, on the same conversations; and one step of decoding at a depth."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import torch

from align_echo.models.local.engine import SamplingConfig, TokenRequest
from studies.gpu_check.engines import ENGINES, running, why_missing
from studies.gpu_check.shapes import Work
from studies.gpu_check.talks import FIRST_ID, replay, talks
from studies.gpu_check.telling import Row, peak_memory

DEPTHS = (500, 2000)
"""Columns at which decoding is timed, with 8 rows."""

DECODED = 32
"""Tokens that are drawn there."""


def replies(model: Any, name: str, engine: str, work: Work, rows: int) -> Iterator[Row]:
    """An engine's tokens a second in `rows` conversations at once: the mean over the rounds. One more warms up."""
    context = max(len(talk.prompts[-1]) for talk in talks(work, 1, model.config.vocab_size, 0)) + work.reply + 16
    key = {"part": "replies", "model": name, "conversations": rows, "engine": engine}
    if why := why_missing(engine, model.device):
        yield Row(key, {"skipped": why})
        return
    seconds = []
    with peak_memory() as memory, ENGINES[engine](model, rows, work.reply, context) as ask:
        for number in range(work.rounds + 1):
            conversations = talks(work, rows, model.config.vocab_size, number)
            begun = time.perf_counter()
            answered = replay(conversations, ask)
            seconds.append(time.perf_counter() - begun)
            assert all(len(reply.ids) == work.reply for turns in answered for reply in turns), "a reply was cut"
    per_round = rows * work.turns * work.reply
    rates = [per_round / spent for spent in seconds[1:]]
    figures = {"tokens_a_second": sum(rates) / len(rates), "lowest": min(rates), "highest": max(rates)}
    yield Row(key, {**figures, "n": len(rates), "warm_up_seconds": seconds[0], "memory_gib": memory.gib})


def decoding(model: Any, name: str, columns: int, graphs: bool, rows: int = 8) -> Iterator[Row]:
    """Milliseconds of a step that draws one token for each of 8 rows of so many columns. Reading is not counted."""
    dice = random.Random(columns)
    prompts = [
        tuple(dice.randrange(FIRST_ID, model.config.vocab_size) for _ in range(columns - DECODED)) for _ in range(rows)
    ]
    with running(model, rows, columns + 8, graphs=graphs) as engine:

        def drawn(count: int) -> float:
            begun = time.perf_counter()
            sampling = SamplingConfig(temperature=0.0, max_tokens=count)
            for future in [engine.submit(TokenRequest(prompt, sampling)) for prompt in prompts]:
                future.result()
            return time.perf_counter() - begun

        drawn(3)  # reads, and warms up
        few, many = drawn(2), drawn(DECODED)
    key = {"part": "decoding", "model": name, "rows": rows, "columns": columns, "graphs": graphs}
    bytes_read = sum(weights.numel() * weights.element_size() for weights in model.parameters())
    floor = 1e3 * bytes_read / copied_bytes_a_second(model.device)
    step = 1e3 * (many - few) / (DECODED - 2)
    yield Row(key, {"milliseconds": step, "floor_milliseconds": floor, "n": DECODED - 2})


def copied_bytes_a_second(device: torch.device) -> float:
    """What a copy of a large tensor reads and writes in a second."""
    count = 2**28 if device.type == "cuda" else 2**22
    source = torch.randn(count, device=device)
    target = torch.empty_like(source)
    for _ in range(2):
        target.copy_(source)
    _settle(device)
    begun = time.perf_counter()
    for _ in range(5):
        target.copy_(source)
    _settle(device)
    return 5 * 2 * source.numel() * source.element_size() / (time.perf_counter() - begun)


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
