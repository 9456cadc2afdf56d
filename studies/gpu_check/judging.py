"""Candidates judged a second: our engine's scorer beside a padded forward pass over every whole prompt."""

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
from studies.gpu_check.engines import running
from studies.gpu_check.shapes import Work
from studies.gpu_check.talks import FIRST_ID, Ids
from studies.gpu_check.telling import Row, peak_memory

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
