"""Rows that begin alike read that once, each reads as far as it goes, and what is drawn is what it was."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from align_echo.models.local import slot_attention
from align_echo.models.local.engine import SamplingConfig, TokenRequest
from align_echo.models.local.slot_attention import CALL, PrefixGroup, RowRun, families, runs, score_table
from align_echo.models.local.slot_cache import SlotCache
from align_echo.models.local.transformers_engine import TransformersEngine
from tests.models.local.plain_loop import logprobs_of, plain_reply
from tests.models.local.tiny import tiny_encoder, tiny_model


def common_of(rows: list[list[int]]) -> np.ndarray:
    """How many leading entries two rows have alike."""
    count = len(rows)
    common = np.zeros((count, count), dtype=np.int64)
    for one in range(count):
        for other in range(count):
            pairs = list(zip(rows[one], rows[other], strict=False))
            common[one, other] = next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))
    return common


def test_rows_that_share_rules_and_no_more_are_one_family():
    rows = [[*range(700), -row, *range(900)] for row in range(1, 5)]
    assert families(common_of(rows)) == [PrefixGroup((0, 1, 2, 3), 700)]


def test_two_attempts_that_are_told_to_several_rows_are_two_families():
    rules = list(range(700))
    rows = [[*rules, *[-1 - row % 2] * 1800, 10_000 + row] for row in range(6)]
    assert families(common_of(rows)) == [PrefixGroup((0, 2, 4), 2500), PrefixGroup((1, 3, 5), 2500)]


def test_a_pair_that_shares_a_little_more_stays_with_the_others():
    rows = [[*range(700), -row] for row in range(6)]
    rows[3] = [*rows[2], *[5] * CALL]
    rows[2] = list(rows[3])
    assert families(common_of(rows)) == [PrefixGroup(tuple(range(6)), 700)]


@pytest.mark.parametrize("shared", [0, CALL // 2])
def test_what_is_not_worth_a_product_is_no_family(shared):
    assert families(common_of([[*range(shared), -1], [*range(shared), -2]])) == []
    assert families(common_of([[*range(shared), -1]])) == []


def test_neighbours_of_about_one_length_are_one_run_and_a_long_one_is_alone():
    found = runs([2, 3, 4, 6], [300, 310, 1500, 1500], [200, 200, 200, 0])
    assert found == [RowRun(0, 2, 2, 200, 311), RowRun(2, 3, 4, 200, 1501), RowRun(3, 4, 6, 0, 1501)]


def test_nothing_is_gained_where_rows_are_alike_in_length_only():
    starts = [1000] * 8
    assert score_table(range(8), starts, np.zeros((8, 8), dtype=np.int64), 8 * 1001) is None


def test_rows_share_no_column_behind_their_own_token():
    common = np.full((4, 4), 1000)
    table = score_table(range(4), [600] * 4, common, 4 * 601)
    assert table is not None
    assert [columns for _, _, columns in table._shared] == [600]


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_a_table_gives_what_each_row_gives_by_itself(kv_heads):
    dice, slots, width = random.Random(kv_heads), 10, 2500
    torch.manual_seed(kv_heads)
    keys, values = torch.randn(slots, kv_heads, width, 8), torch.randn(slots, kv_heads, width, 8)
    of_attempt = {slot: slot % 3 for slot in range(slots)}
    told = {attempt: 1200 + 10 * attempt for attempt in range(3)}  # so neighbours' own columns begin apart
    common = np.zeros((slots, slots), dtype=np.int64)
    for slot in range(slots):
        for other in range(slots):
            common[slot, other] = told[of_attempt[slot]] if of_attempt[slot] == of_attempt[other] else 400
    for slot in range(slots):
        for buffer in (keys, values):
            buffer[slot, :, :400] = buffer[0, :, :400]
            buffer[slot, :, 400 : told[of_attempt[slot]]] = buffer[of_attempt[slot], :, 400 : told[of_attempt[slot]]]
    asked = [0, 1, 2, 3, 5, 6, 8, 9]
    starts = [1300 + slot if slot < 4 else dice.randrange(1300, width) for slot in asked]
    query = torch.randn(1, 4, len(asked) + 3, 8)  # three more tokens, of contexts that are read in the same step
    table = score_table(asked, starts, common[np.ix_(asked, asked)], len(asked) * width)
    assert table is not None
    assert table._read_by_family is not None
    out = table.attend(query, keys, values, 0.3)
    for row, (slot, start) in enumerate(zip(asked, starts, strict=True)):
        for head in range(4):
            at = head // (4 // kv_heads)
            scores = keys[slot, at, : start + 1].double() @ query[0, head, row].double() * 0.3
            wanted = scores.softmax(0) @ values[slot, at, : start + 1].double()
            torch.testing.assert_close(out[row, head].double(), wanted, atol=1e-5, rtol=1e-4)


def test_replies_of_rows_with_one_opening_are_those_of_a_plain_loop(monkeypatch):
    made = []

    def kept(slots, starts, common, read):
        made.append(score_table(slots, starts, common, read))
        return made[-1]

    monkeypatch.setattr(slot_attention, "score_table", kept)
    encoder, reference = tiny_encoder(), tiny_model(context=2048, kv_heads=1)
    dice = random.Random(3)
    rules = [dice.randrange(8, 200) for _ in range(600)]
    contexts = [(*rules, *(dice.randrange(8, 200) for _ in range(dice.randrange(3, 300)))) for _ in range(7)]
    samplings = [SamplingConfig(temperature=dice.choice([0.0, 1.0]), max_tokens=10, seed=seed) for seed in range(7)]
    engine = TransformersEngine(tiny_model(context=2048, kv_heads=1), name="tiny", decode=encoder.text, slots=5)
    requests = [TokenRequest(ids, sampling) for ids, sampling in zip(contexts, samplings, strict=True)]
    try:
        for request, future in [(request, engine.submit(request)) for request in requests]:
            reply = future.result(120)
            assert reply.ids == plain_reply(reference, request)
            wanted = logprobs_of(reference, [*request.ids, *reply.ids], request.sampling.temperature)
            found = torch.tensor(reply.logprobs)
            torch.testing.assert_close(found, wanted[-len(found) :], atol=1e-4, rtol=1e-4)
    finally:
        engine.close()
    assert any(table is not None for table in made)


def test_a_slot_that_is_taken_for_something_else_shares_nothing_any_more():
    cache = SlotCache(slots=3, context=64)
    opening = list(range(20))
    for slot in range(2):
        cache.take([*opening, 30 + slot], "", {0, 1} - {slot} if slot else set())
        cache.wrote(np.full(21, slot), np.arange(21), np.array([*opening, 30 + slot]))
    assert cache.common([0, 1])[0, 1] == cache.common([1, 0])[0, 1] == 20
    taken, _ = cache.take([99, 98, 97], "", {0, 2})
    assert taken == 1
    assert cache.common([0, 1])[0, 1] == 0
    cache.take([*opening, 40], "other", {0, 2})
    assert cache.common([0, 1])[0, 1] == 0
    cache.take([*opening, 40], "", {0, 2})
    assert cache.common([0, 1])[0, 1] == 20
    cache.wipe(0)
    assert cache.common([0, 1])[0, 1] == 0
