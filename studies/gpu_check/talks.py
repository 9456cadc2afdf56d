"""Made conversations in token ids: an opening, and in turns a reply and an observation, all drawn from a seed.

Whatever a model answers, the next prompt holds the reply that was made: so every arm computes the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from align_echo.models.local.engine import TokenReply
from studies.gpu_check.shapes import Work

Ids = tuple[int, ...]
Ask = Callable[[Ids], "Future[TokenReply]"]
DEADLINE = 60.0
"""Seconds in which a reply must have come."""

FIRST_ID = 8
"""Ids below may be special tokens."""


@dataclass(frozen=True)
class Talk:
    """The prompts of a conversation's turns, each of which begins with the one before it."""

    prompts: tuple[Ids, ...]


def talks(work: Work, rows: int, vocabulary: int, seed: int) -> list[Talk]:
    """So many conversations; their openings share the first half, as those of one environment's rules do."""
    dice = random.Random(seed)

    def drawn(count: int) -> Ids:
        return tuple(dice.randrange(FIRST_ID, vocabulary) for _ in range(count))

    rules = drawn(work.opening // 2)
    made = []
    for _ in range(rows):
        prompts = [(*rules, *drawn(work.opening - len(rules)))]
        while len(prompts) < work.turns:
            prompts.append((*prompts[-1], *drawn(work.reply + work.observation)))
        made.append(Talk(tuple(prompts)))
    return made


def replay(conversations: Sequence[Talk], ask: Ask) -> list[list[TokenReply]]:
    """Every conversation's replies, turn after turn, all conversations at once."""

    def replies(talk: Talk) -> list[TokenReply]:
        return [ask(prompt).result(DEADLINE) for prompt in talk.prompts]

    with ThreadPoolExecutor(len(conversations)) as pool:
        return list(pool.map(replies, conversations))
