"""Replies a second, engine beside engine, on the same conversations; one step of decoding; and candidates judged.

Candidates are judged by the scorer, by it after the agent read the conversation, and by whole passes.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from align_echo.models.local.engine import SamplingConfig, TokenRequest
from studies.gpu_check.engines import ENGINES, FIRST_ID, Ids, replay, running, talks, why_missing
from studies.gpu_check.shapes import Row, Work, peak_memory

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


CANDIDATES = 8
QUESTION = 16
"""Tokens of the question about a candidate."""
WORDS = (9, 10)
"""The ids that stand for the two verdicts."""

Judge = Callable[[Sequence[Ids]], list[float]]
"""From prompts to the log-odds of the first word against the second."""


def judged(model: Any, name: str, tokens: int, work: Work) -> Iterator[Row]:
    """A row each for the scorer, for it where the agent has just read the conversation, and for whole passes."""
    apart: list[float] = []
    seconds: dict[str, list[float]] = {"scorer": [], "scorer, conversation kept": [], "whole prompts": []}
    memory_of: dict[str, float | None] = {}
    for number in range(work.rounds + 1):
        for way in seconds:
            prompts = _prompts(tokens, model.config.vocab_size, number, apart_from=way)
            with peak_memory() as memory, _ready(model, way, prompts) as judge:
                begun = time.perf_counter()
                judge(prompts)
                spent = time.perf_counter() - begun
            memory_of[way] = memory.gib
            if number:
                seconds[way].append(spent)
        same = _prompts(tokens, model.config.vocab_size, number, apart_from="compared")
        with running(model, CANDIDATES, tokens + QUESTION + 8) as engine:
            ours = _scored(engine, same)
        apart += [abs(a - b) for a, b in zip(ours, _whole(model, same), strict=True)]
    for way, times in seconds.items():
        key = {"part": "scorer", "model": name, "tokens": tokens, "way": way}
        figures = {"candidates_a_second": CANDIDATES / statistics.median(times), "n": len(times)}
        yield Row(key, {**figures, "memory_gib": memory_of[way], "log_odds_apart": max(apart)})


def _prompts(tokens: int, vocabulary: int, number: int, *, apart_from: str) -> list[Ids]:
    """A conversation with a question about each candidate; every way has conversations of its own."""
    dice = random.Random(f"{tokens} {number} {apart_from}")
    conversation = tuple(dice.randrange(FIRST_ID, vocabulary) for _ in range(tokens))
    return [
        (*conversation, *(dice.randrange(FIRST_ID, vocabulary) for _ in range(QUESTION))) for _ in range(CANDIDATES)
    ]


@contextmanager
def _ready(model: Any, way: str, prompts: Sequence[Ids]) -> Iterator[Judge]:
    """A way that has judged others before, and has read the conversation where the way says so."""
    others = [ids[::-1] for ids in prompts]
    if way == "whole prompts":
        _whole(model, others)
        yield partial(_whole, model)
        return
    with running(model, CANDIDATES, len(prompts[0]) + 8) as engine:
        _scored(engine, others)
        if way == "scorer, conversation kept":
            engine.submit(TokenRequest(prompts[0][:-QUESTION], SamplingConfig(temperature=0.0, max_tokens=1))).result()
        yield partial(_scored, engine)


def _scored(engine: Any, prompts: Sequence[Ids]) -> list[float]:
    sampling = SamplingConfig(temperature=0.0, max_tokens=1, choices=WORDS)
    replies = [future.result() for future in [engine.submit(TokenRequest(prompt, sampling)) for prompt in prompts]]
    return [reply.choices[0] - reply.choices[1] for reply in replies]


def _whole(model: Any, prompts: Sequence[Ids]) -> list[float]:
    ids = torch.tensor(prompts, device=model.device)
    with torch.inference_mode():
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[:, -1].float()
    odds: list[float] = (logits[:, WORDS[0]] - logits[:, WORDS[1]]).tolist()
    return odds
