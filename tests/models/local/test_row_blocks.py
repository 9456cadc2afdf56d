"""Blocks of rows: rows read what they wrote, whoever shares their blocks, and a shared prefix takes memory once."""

from __future__ import annotations

import os
import random
import threading

import numpy as np
import pytest
import torch

from align_echo.errors import ModelError
from align_echo.models.local import row_blocks, transformers_engine
from align_echo.models.local.engine import SamplingConfig, TokenRequest
from align_echo.models.local.row_blocks import BLOCK, Mappings, RowBlocks, most_mappings
from align_echo.models.local.transformers_engine import TransformersEngine
from tests.models.local.plain_loop import plain_reply
from tests.models.local.test_transformers_engine import WAIT
from tests.models.local.tiny import tiny_model

ROWS, COLUMNS, HEADS, SIZE = 5, 6 * BLOCK, 2, 16
SHARING = [False, pytest.param(True, marks=pytest.mark.skipif(not most_mappings(), reason="no files in memory"))]


class Rows:
    """Rows in blocks, beside tensors of their own with the same values."""

    def __init__(self, sharing: bool) -> None:
        self.blocks = RowBlocks(ROWS, COLUMNS, sharing=sharing)
        self.buffers = [self.blocks.buffer(HEADS, SIZE, torch.float32) for _ in range(2)]
        self.wanted = [torch.zeros(ROWS, HEADS, COLUMNS, SIZE) for _ in range(2)]
        self.lengths = [0] * ROWS

    def write(self, row: int, begin: int, end: int) -> None:
        self.blocks.part(row, begin)
        self.blocks.hold(np.array([row]), np.array([begin]), np.array([end]))
        for buffer, wanted in zip(self.buffers, self.wanted, strict=True):
            values = torch.randn(HEADS, end - begin, SIZE)
            buffer[row, :, begin:end] = wanted[row, :, begin:end] = values
        self.lengths[row] = end

    def share(self, source: int, target: int, columns: int) -> None:
        self.blocks.share(source, target, columns)
        for wanted in self.wanted:
            wanted[target, :, :columns] = wanted[source, :, :columns]
        self.lengths[target] = columns

    def release(self, row: int, columns: int) -> None:
        self.blocks.release(row, columns)
        self.lengths[row] = min(self.lengths[row], columns)

    def check(self) -> None:
        for buffer, wanted in zip(self.buffers, self.wanted, strict=True):
            for row, length in enumerate(self.lengths):
                assert torch.equal(buffer[row, :, :length], wanted[row, :, :length])

    @property
    def file_size(self) -> int:
        """Columns of all buffers that the system holds."""
        column = len(self.buffers) * HEADS * SIZE * 4
        return os.fstat(self.blocks._file).st_blocks * 512 // column


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("seed", range(8))
def test_rows_read_what_they_wrote_whatever_the_others_do(sharing, seed):
    dice, rows = random.Random(seed), Rows(sharing)
    for _ in range(150):
        row, other = dice.sample(range(ROWS), 2)
        act = dice.choice(("write", "write", "share", "release"))
        if act == "write":
            begin = dice.randint(0, min(rows.lengths[row], COLUMNS - 1))
            rows.write(row, begin, dice.randint(begin + 1, COLUMNS))
        elif act == "share":
            rows.share(other, row, dice.randint(0, rows.lengths[other]))
        else:
            rows.release(row, dice.randint(0, COLUMNS))
        rows.check()
        held = rows.blocks.held_by(list(range(ROWS)))
        assert held == rows.blocks.used
        if sharing:
            assert rows.file_size == held


@pytest.mark.parametrize("sharing", SHARING)
def test_what_was_released_reads_as_zeros_and_takes_no_memory(sharing):
    rows = Rows(sharing)
    rows.write(0, 0, 3 * BLOCK)
    rows.release(0, BLOCK)
    assert rows.blocks.used == rows.blocks.held[0] == BLOCK
    assert rows.buffers[0][0, :, BLOCK:].abs().sum() == 0


@pytest.mark.parametrize("sharing", SHARING)
def test_a_prefix_of_many_rows_takes_memory_once_where_rows_share(sharing):
    rows = Rows(sharing)
    rows.write(0, 0, 2 * BLOCK + 5)
    for row in range(1, ROWS):
        rows.share(row - 1, row, 2 * BLOCK + 5)
        rows.write(row, 2 * BLOCK + 5, 2 * BLOCK + 9)
    rows.check()
    assert rows.blocks.used == (2 * BLOCK + ROWS * BLOCK if sharing else 3 * ROWS * BLOCK)
    assert rows.blocks.held_by([1, 2]) == (4 * BLOCK if sharing else 6 * BLOCK)


@pytest.mark.parametrize("sharing", SHARING)
def test_a_later_buffer_has_the_blocks_of_the_rows_there(sharing):
    rows = Rows(sharing)
    rows.write(0, 0, 2 * BLOCK)
    rows.share(0, 1, 2 * BLOCK)
    late = rows.blocks.buffer(3, 20, torch.bfloat16)
    late[0, :, : 2 * BLOCK] = 7
    assert late.shape == (ROWS, 3, COLUMNS, 20)
    assert float(late[1, :, : 2 * BLOCK].float().mean()) == (7 if sharing else 0)


def test_caches_share_until_the_mappings_of_their_process_are_claimed(monkeypatch):
    monkeypatch.setattr(row_blocks, "most_mappings", lambda: 1000)
    mappings = Mappings()
    claims = [mappings.claim(8, 2, 5) for _ in range(4)]
    assert claims == [480, 0, 0, 0]
    assert mappings.claim(4, 2, 5) == 240
    mappings.give_back(480)
    assert mappings.claim(8, 2, 5) == 480
    monkeypatch.setattr(row_blocks, "most_mappings", lambda: 0)
    assert Mappings().claim(1, 1, 1) == 0


def test_an_engine_claims_mappings_while_it_is_open(monkeypatch):
    mappings = Mappings()
    monkeypatch.setattr(transformers_engine, "MAPPINGS", mappings)
    monkeypatch.setattr(row_blocks, "most_mappings", lambda: 1000)
    config = tiny_model().config
    each = 4 * config.num_hidden_layers * 2 * int(config.num_key_value_heads or 0) * 3
    engine = TransformersEngine(tiny_model(), name="tiny", decode=lambda ids: "", slots=4)
    assert mappings._claimed == each
    engine.close()
    engine.close()
    assert mappings._claimed == 0


# ---------------------------------------------------------------- engines


def opened_alike(count: int) -> list[TokenRequest]:
    """Conversations with one long opening, each with an end of its own."""
    opening = tuple(3 + place % 200 for place in range(4 * BLOCK))
    return [
        TokenRequest((*opening, 3 + number, 5, 7), SamplingConfig(max_tokens=4, seed=number)) for number in range(count)
    ]


@pytest.mark.parametrize("sharing", SHARING)
def test_an_engine_holds_a_common_opening_once_and_answers_alike(monkeypatch, sharing):
    if not sharing:
        monkeypatch.setattr(row_blocks, "most_mappings", lambda: 0)
    engine = TransformersEngine(tiny_model(context=1024), name="tiny", decode=lambda ids: "", slots=8)
    requests = opened_alike(8)
    replies = [engine.submit(requests[0]).result(WAIT)]
    replies += [future.result(WAIT) for future in [engine.submit(request) for request in requests[1:]]]
    reference = tiny_model(context=1024)
    assert [reply.ids for reply in replies] == [plain_reply(reference, request) for request in requests]
    assert engine._cache.used == (4 * BLOCK + 8 * BLOCK if sharing else 8 * 5 * BLOCK)
    engine.close()


@pytest.mark.skipif(not most_mappings(), reason="no files in memory")
def test_more_conversations_fit_where_they_share_their_opening(monkeypatch):
    most: list[int] = []
    for sharing in (True, False):
        if not sharing:
            monkeypatch.setattr(row_blocks, "most_mappings", lambda: 0)
        engine = TransformersEngine(tiny_model(context=1024), name="tiny", decode=lambda ids: "", slots=16)
        engine._inbox.put(transformers_engine._Resize(20 * BLOCK))
        rows: list[int] = []
        step = engine._step

        def watched(rows=rows, step=step, engine=engine) -> None:
            rows.append(len(engine._rows))
            step()
            assert engine._cache.used <= 20 * BLOCK

        monkeypatch.setattr(engine, "_step", watched)
        engine.submit(opened_alike(1)[0]).result(WAIT)
        for future in [engine.submit(request) for request in opened_alike(16)]:
            future.result(WAIT)
        most.append(max(rows))
        engine.close()
    assert most == [16, 4]


@pytest.mark.parametrize("part", ["shared", "take", "free"])
def test_a_fault_while_a_request_gets_its_slot_is_its_answer(monkeypatch, part):
    engine = TransformersEngine(tiny_model(context=1024), name="tiny", decode=lambda ids: "", slots=2)
    request = TokenRequest((3, 4), SamplingConfig(max_tokens=1))
    engine.submit(request).result(WAIT)
    with monkeypatch.context() as patch:
        patch.setattr(engine._cache, part, lambda *given: 1 / 0)
        with pytest.raises(ModelError, match="ZeroDivisionError"):
            engine.submit(request).result(WAIT)
    assert engine.submit(request).result(WAIT).ids
    engine.close()


def test_a_fault_while_memory_changes_ends_no_engine(monkeypatch):
    engine = TransformersEngine(tiny_model(context=1024), name="tiny", decode=lambda ids: "", slots=2)
    engine.submit(TokenRequest((3, 4), SamplingConfig(max_tokens=1))).result(WAIT)
    called = threading.Event()

    def free(lengths: dict[int, int]) -> None:
        called.set()
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(engine._cache, "free", free)
        engine._inbox.put(transformers_engine._Resize(20 * BLOCK))
        assert called.wait(WAIT)
    assert engine.submit(TokenRequest((3, 4), SamplingConfig(max_tokens=1))).result(WAIT).ids
    engine.close()


def test_a_fault_while_a_change_begins_is_its_answer(monkeypatch):
    engine = TransformersEngine(tiny_model(context=1024), name="tiny", decode=lambda ids: "", slots=2)
    with monkeypatch.context() as patch:
        patch.setattr(engine._cache, "forget", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.update(lambda model: None)
    engine.close()
