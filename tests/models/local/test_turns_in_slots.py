"""Conversations that take turns in too few slots, or beside questions asked once: how much is read again."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
import torch

from align_echo.models.local.engine import SamplingConfig, TokenReply, TokenRequest
from align_echo.models.local.slot_cache import SlotCache
from align_echo.models.local.transformers_engine import TransformersEngine
from tests.models.local.plain_loop import plain_reply
from tests.models.local.test_transformers_engine import ENCODER, WAIT, count_tokens
from tests.models.local.tiny import tiny_model

FIRST, NEW, DRAWN = 40, 6, 2
"""Tokens of a conversation's beginning, of every later message, and of every reply."""


class Table:
    """An engine, and conversations whose tokens are their own: what each step computes is counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slots: int) -> None:
        self.model = tiny_model(context=1024)
        self.engine = TransformersEngine(self.model, name="tiny", decode=ENCODER.text, slots=slots, step_tokens=24)
        self.computed = count_tokens(self.engine, monkeypatch)
        self.least = 0
        self._numbers = count()

    def message(self, tokens: int) -> tuple[int, ...]:
        """Tokens that no other message begins with."""
        number = next(self._numbers)
        return tuple(3 + (number // 250**place) % 250 for place in range(tokens))

    def say(self, told: tuple[int, ...], message: tuple[int, ...]) -> tuple[int, ...]:
        """The conversation with this message and the reply to it."""
        self.least += len(message) + DRAWN - (not told)  # the last token of a reply is computed with the next message
        request = TokenRequest(told + message, SamplingConfig(max_tokens=DRAWN, seed=len(told)))
        return request.ids + self.reply(request).ids

    def reply(self, request: TokenRequest) -> TokenReply:
        return self.engine.submit(request).result(WAIT)

    def ask_once(self, questions: int, tokens: int) -> None:
        """Put several questions that have no next one."""
        self.least += questions * tokens
        requests = [TokenRequest(self.message(tokens), SamplingConfig(max_tokens=1)) for _ in range(questions)]
        for future in [self.engine.submit(request) for request in requests]:
            future.result(WAIT)

    @property
    def read_again(self) -> int:
        """Tokens computed beside those of a cache that holds everything."""
        return sum(self.computed) - self.least


def test_one_conversation_too_many_costs_one_conversation_a_round_and_not_all(monkeypatch):
    table = Table(monkeypatch, slots=8)
    told = [table.say((), table.message(FIRST)) for _ in range(9)]
    all_again = 0
    for _ in range(12):
        for number in range(9):
            all_again += len(told[number])
            told[number] = table.say(told[number], table.message(NEW))
    assert table.read_again < 0.2 * all_again  # at best 1 in 9
    last = TokenRequest((*told[0], 9), SamplingConfig(max_tokens=3, seed=1))
    assert table.reply(last).ids == plain_reply(tiny_model(context=1024), last)
    table.engine.close()


def test_questions_asked_once_leave_conversations_where_they_are(monkeypatch):
    table = Table(monkeypatch, slots=6)
    told = [table.say((), table.message(FIRST)) for _ in range(4)]
    all_again = 0
    for _ in range(8):
        for number in range(4):
            all_again += len(told[number])
            told[number] = table.say(told[number], table.message(NEW))
            table.ask_once(5, 60)  # at once: more than there are slots for
    assert table.read_again < 0.2 * all_again
    table.engine.close()


def test_conversations_that_all_fit_are_never_read_again_however_many_end(monkeypatch):
    table = Table(monkeypatch, slots=4)
    told: list[tuple[int, ...]] = [()] * 4
    for turn in range(24):
        for number in range(4):
            if (turn + number) % 3 == 0:
                told[number] = ()
            told[number] = table.say(told[number], table.message(NEW if told[number] else FIRST))
    assert table.read_again == 0
    table.engine.close()


def test_memory_is_freed_of_what_was_asked_once_before_what_goes_on():
    cache = SlotCache(16, 4096, paged=True, room=16 * 64)
    cache.layer(0, torch.ones(1, 1, 1, 16), torch.ones(1, 1, 1, 16))
    told = [list(range(1000 * number, 1000 * number + 60)) for number in range(6)]
    questions, read, all_again = count(50_000, 1000), 0, 0
    for _ in range(20):
        for ids in told:
            read, all_again = read + hold(cache, ids) - 2, all_again + len(ids) - 2
            ids += [7, 9]
            question = next(questions)
            hold(cache, list(range(question, question + 100)))
    assert read < 0.2 * all_again


def hold(cache: SlotCache, ids: list[int]) -> int:
    """Put a context into the cache as an engine does. Return how many tokens were not there."""
    slot, there = cache.take(ids, "", set())
    cache.free({slot: len(ids)})
    cache.hold(np.array([slot]), np.array([there]), np.array([len(ids)]))
    cache.wrote(np.full(len(ids) - there, slot), np.arange(there, len(ids)), np.array(ids[there:]))
    return len(ids) - there
