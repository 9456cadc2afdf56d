"""What a GPU computes in another way is the same as what a CPU computes: replayed steps, and parts that are padded.

A step of fixed shapes is computed here as a GPU records it, but without a graph.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from align_echo.models.local.engine import SamplingConfig, TokenRequest
from align_echo.models.local.slot_attention import PackedStep, SlotPart, forward, use_slots
from align_echo.models.local.slot_cache import SlotCache
from align_echo.models.local.transformers_engine import DecodeGraphs, TransformersEngine
from tests.models.local.plain_loop import plain_reply
from tests.models.local.tiny import tiny_encoder, tiny_model

SLOTS, CONTEXT = 6, 400


@pytest.fixture
def model():
    made = tiny_model(kv_heads=1)
    use_slots(made)
    return made


@pytest.mark.parametrize("together", [False, True])
def test_steps_that_draw_are_the_same_when_they_are_replayed(model, together):
    dice = random.Random(0)
    plain, replayed = SlotCache(SLOTS, CONTEXT), SlotCache(SLOTS, CONTEXT)
    graphs = DecodeGraphs(model, replayed)
    lengths = {0: 5, 2: 250, 3: 40}
    read = [SlotPart(slot, 0, [dice.randrange(200) for _ in range(length)]) for slot, length in lengths.items()]
    with torch.inference_mode():
        for cache in (plain, replayed):
            forward(model, PackedStep(cache, read, model.device, together=together), torch.tensor([0]))
        for number in range(12):
            drawing = [slot for slot in lengths if slot or number % 3]
            parts = [SlotPart(slot, lengths[slot], [dice.randrange(200)]) for slot in drawing]
            wanted = forward(model, PackedStep(plain, parts, model.device), torch.arange(len(parts)))
            assert graphs.fits(parts)
            torch.testing.assert_close(graphs.logits(parts, ""), wanted, atol=1e-5, rtol=1e-5)
            for slot in drawing:
                lengths[slot] += 1
    ids = [dice.randrange(200)]
    assert replayed.lengths.tolist() == plain.lengths.tolist()
    context = np.array(read[1].ids)
    assert replayed.shared(context, "").max() == plain.shared(context, "").max() == 250
    assert not graphs.fits([SlotPart(0, 6, [*ids, *ids])])


def test_contexts_read_together_are_the_same_as_each_by_itself(model):
    dice = random.Random(1)
    alone, together = SlotCache(SLOTS, CONTEXT), SlotCache(SLOTS, CONTEXT)
    lengths = [0] * SLOTS
    with torch.inference_mode():
        for _ in range(5):
            parts = []
            for slot in range(SLOTS):
                ids = [dice.randrange(200) for _ in range(dice.choice([1, 4, 9, 33, 60]))]
                parts.append(SlotPart(slot, lengths[slot], ids))
                lengths[slot] += len(ids)
            parts.sort(key=lambda part: len(part.ids) > 1)
            places = torch.arange(sum(len(part.ids) for part in parts))
            wanted = forward(model, PackedStep(alone, parts, model.device, together=False), places)
            found = forward(model, PackedStep(together, parts, model.device, together=True), places)
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_replies_of_an_engine_that_replays_are_those_of_a_plain_loop():
    encoder, reference = tiny_encoder(), tiny_model()
    engine = TransformersEngine(tiny_model(), name="tiny", decode=encoder.text, slots=4)
    engine._graphs = DecodeGraphs(engine._model, engine._cache)  # as on a GPU
    dice = random.Random(2)
    try:
        contexts = [tuple(dice.randrange(8, 200) for _ in range(dice.randrange(3, 60))) for _ in range(9)]
        samplings = [SamplingConfig(temperature=dice.choice([0.0, 1.0]), max_tokens=12, seed=seed) for seed in range(9)]
        requests = [TokenRequest(context, sampling) for context, sampling in zip(contexts, samplings, strict=True)]
        futures = [engine.submit(request) for request in requests]
        for request, future in zip(requests, futures, strict=True):
            assert future.result(30).ids == plain_reply(reference, request)
    finally:
        engine.close()
