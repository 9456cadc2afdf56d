"""The engine on transformers: what it draws, what it records, and that no one is left waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
)

from align_echo.errors import ContextOverflowError, ModelError, UsageError
from align_echo.models.local.engine import SamplingConfig, TokenReply, TokenRequest
from align_echo.models.local.rows import draw
from align_echo.models.local.transformers_engine import TransformersEngine
from tests.models.local.plain_loop import logprobs_of, plain_reply
from tests.models.local.tiny import tiny_encoder, tiny_model

ENCODER = tiny_encoder()
WAIT = 60.0
"""Seconds until a reply counts as lost."""


def engine_of(model: PreTrainedModel, *, slots: int = 4, context: int = 0, step_tokens: int = 24) -> TransformersEngine:
    return TransformersEngine(
        model, name="tiny", decode=ENCODER.text, slots=slots, context=context, step_tokens=step_tokens
    )


@pytest.fixture(scope="module")
def reference() -> PreTrainedModel:
    return tiny_model()


@pytest.fixture(scope="module")
def engine() -> Iterator[TransformersEngine]:
    running = engine_of(tiny_model())
    yield running
    running.close()


def draws(**fixed) -> st.SearchStrategy[SamplingConfig]:
    return st.builds(
        SamplingConfig,
        temperature=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
        top_k=st.sampled_from([0, 0, 1, 7]),
        top_p=st.sampled_from([1.0, 1.0, 0.5, 0.9]),
        max_tokens=st.integers(1, 7),
        stop_ids=st.sampled_from([(), (5,), tuple(range(100, 180))]),
        seed=st.integers(0, 2**63 - 1),
        **fixed,
    )


SHARED = tuple(range(60, 90))
contexts = st.tuples(st.sampled_from([(), SHARED]), st.lists(st.integers(3, 280), min_size=1, max_size=30)).map(
    lambda parts: (*parts[0], *parts[1])
)
requests = st.builds(TokenRequest, ids=contexts, sampling=draws())


@pytest.mark.long
@settings(max_examples=20)
@given(batch=st.lists(requests, min_size=1, max_size=9))
def test_replies_are_those_of_a_plain_loop_whatever_else_is_in_the_batch(engine, reference, batch):
    replies = [future.result(WAIT) for future in [engine.submit(request) for request in batch]]
    assert [reply.ids for reply in replies] == [plain_reply(reference, request) for request in batch]


@pytest.mark.long
@settings(max_examples=15)
@given(data=st.data(), conversations=st.integers(1, 7), turns=st.integers(1, 4))
def test_recorded_logprobs_are_those_of_a_full_forward_pass(engine, reference, data, conversations, turns):
    contexts_now = [data.draw(contexts) for _ in range(conversations)]
    for _ in range(turns):
        batch = [TokenRequest(ids, data.draw(draws())) for ids in contexts_now]
        replies = [future.result(WAIT) for future in [engine.submit(request) for request in batch]]
        for number, (request, reply) in enumerate(zip(batch, replies, strict=True)):
            ids = request.ids + reply.ids
            full = logprobs_of(reference, ids, request.sampling.temperature)[len(request.ids) - 1 :]
            assert torch.allclose(torch.tensor(reply.logprobs), full, atol=1e-4, rtol=0)
            contexts_now[number] = ids + data.draw(contexts)


def test_a_reply_ends_with_its_stop_token_and_says_why(engine, reference):
    free = TokenRequest(SHARED, SamplingConfig(temperature=1.0, max_tokens=12, seed=1))
    drawn = engine.submit(free).result(WAIT)
    assert drawn.finish_reason == "length"
    assert len(drawn.ids) == 12
    stopped = TokenRequest(SHARED, SamplingConfig(temperature=1.0, max_tokens=12, seed=1, stop_ids=(drawn.ids[4],)))
    reply = engine.submit(stopped).result(WAIT)
    assert reply.finish_reason == "stop"
    assert reply.ids == drawn.ids[: drawn.ids.index(drawn.ids[4]) + 1]


def test_a_reply_ends_with_the_tokens_that_completed_a_stop_string(engine):
    free = engine.submit(TokenRequest(SHARED, SamplingConfig(max_tokens=40, seed=3))).result(WAIT)
    text = ENCODER.text(free.ids)
    wanted = next(text[at : at + 2] for at in range(5, len(text)) if "\ufffd" not in text[at : at + 2])
    reply = engine.submit(
        TokenRequest(SHARED, SamplingConfig(max_tokens=40, seed=3, stop=("never this", wanted)))
    ).result(WAIT)
    assert reply.finish_reason == "stop"
    assert reply.ids == free.ids[: len(reply.ids)]
    assert wanted in ENCODER.text(reply.ids)
    assert wanted not in ENCODER.text(reply.ids[:-1])


def test_a_context_without_room_overflows_and_a_reply_is_cut_at_its_end():
    running = engine_of(tiny_model(), context=40)
    full = running.submit(TokenRequest(tuple(range(3, 43)), SamplingConfig()))
    with pytest.raises(ContextOverflowError, match="no room"):
        full.result(WAIT)
    reply = running.submit(TokenRequest(tuple(range(3, 38)), SamplingConfig(max_tokens=50, seed=2))).result(WAIT)
    assert reply.finish_reason == "length"
    assert len(reply.ids) == 5
    running.close()


@pytest.mark.parametrize(
    ("ids", "adapter", "message"),
    [((), "", "needs token ids"), ((3, 300), "", "token ids"), ((-1,), "", "ids"), ((3,), "nobody", "no adapter")],
)
def test_requests_that_no_model_could_answer_are_refused_at_once(engine, ids, adapter, message):
    with pytest.raises(UsageError, match=message):
        engine.submit(TokenRequest(ids, SamplingConfig(), adapter))
    with pytest.raises(UsageError, match="room for one token"):
        engine.submit(TokenRequest(SHARED, SamplingConfig(max_tokens=0)))


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_only_what_is_new_in_a_context_is_computed(kv_heads, monkeypatch):
    running = engine_of(tiny_model(kv_heads=kv_heads), step_tokens=1024)
    computed = count_tokens(running, monkeypatch)
    opening = tuple(range(3, 203))
    first = running.submit(TokenRequest(opening, SamplingConfig(max_tokens=5, seed=1))).result(WAIT)
    assert sum(computed) == 200 + 4
    computed.clear()
    running.submit(TokenRequest((*opening, *first.ids, 7, 8, 9), SamplingConfig(max_tokens=1))).result(WAIT)
    assert sum(computed) == 1 + 3, "the last token of the reply and the new message"
    computed.clear()
    futures = [
        running.submit(TokenRequest((*opening, last_id), SamplingConfig(max_tokens=1))) for last_id in (20, 21, 22)
    ]
    assert [len(future.result(WAIT).ids) for future in futures] == [1, 1, 1]
    assert sum(computed) == 3, "the opening is copied from the slot that holds it"
    running.close()


def test_requests_that_come_together_read_a_shared_opening_once(monkeypatch):
    running = engine_of(tiny_model(), step_tokens=64)
    computed = count_tokens(running, monkeypatch)
    opening = tuple(range(3, 203))
    together(running, [TokenRequest((*opening, last_id), SamplingConfig(max_tokens=1)) for last_id in range(3, 7)])
    assert sum(computed) == 201 + 3
    running.close()


def test_replies_to_one_context_are_computed_once_until_they_differ(monkeypatch, reference):
    running = engine_of(tiny_model(), step_tokens=64)
    computed = count_tokens(running, monkeypatch)
    context = tuple(range(3, 203))
    batch = [TokenRequest(context, SamplingConfig(temperature=0.0, max_tokens=most)) for most in (6, 6, 2, 6)]
    replies = together(running, batch)
    assert [reply.ids for reply in replies] == [plain_reply(reference, request) for request in batch]
    assert sum(computed) == 200 + 5
    computed.clear()
    apart = [TokenRequest((*context, 9), SamplingConfig(top_k=2, max_tokens=4, seed=seed)) for seed in range(4)]
    drawn = [reply.ids for reply in together(running, apart)]
    assert drawn == [plain_reply(reference, request) for request in apart]
    begun = {ids[:length] for ids in drawn for length in range(1, 4)}
    assert len({ids[:1] for ids in drawn}) < len(set(drawn)), "some part only after their first token"
    assert sum(computed) == 201 + len(begun), "a token for each beginning that some reply has"
    running.close()


def test_no_more_are_drawn_at_once_than_there_are_slots(monkeypatch):
    running = engine_of(tiny_model(), slots=3)
    sizes: list[int] = []

    def measured(logits, samplings, uniforms):
        sizes.append(len(logits))
        return draw(logits, samplings, uniforms)

    monkeypatch.setattr("align_echo.models.local.rows.draw", measured)
    replies = together(running, [TokenRequest(SHARED, SamplingConfig(max_tokens=1, seed=seed)) for seed in range(20)])
    assert len(replies) == sum(sizes) == 20
    assert max(sizes) == 3
    running.close()


@pytest.mark.long
@settings(max_examples=20)
@given(samplings=st.lists(draws(), min_size=2, max_size=9), tail=st.lists(st.integers(3, 280), max_size=30))
def test_replies_to_one_context_are_those_of_a_plain_loop_even_with_few_slots(few_slots, reference, samplings, tail):
    batch = [TokenRequest((*SHARED, *tail), sampling) for sampling in samplings]
    replies = together(few_slots, batch)
    for request, reply in zip(batch, replies, strict=True):
        assert reply.ids == plain_reply(reference, request)
        full = logprobs_of(reference, request.ids + reply.ids, request.sampling.temperature)[len(request.ids) - 1 :]
        assert torch.allclose(torch.tensor(reply.logprobs), full, atol=1e-4, rtol=0)


@pytest.fixture(scope="module")
def few_slots() -> Iterator[TransformersEngine]:
    running = engine_of(tiny_model(), slots=2)
    yield running
    running.close()


def together(running: TransformersEngine, batch: list[TokenRequest]) -> list[TokenReply]:
    """The replies to requests that all wait when the engine looks."""
    begun, hold = threading.Event(), threading.Event()

    def pause(model: PreTrainedModel) -> None:
        begun.set()
        hold.wait(WAIT)

    blocked = threading.Thread(target=running.update, args=(pause,))
    blocked.start()
    assert begun.wait(WAIT)
    futures = [running.submit(request) for request in batch]
    hold.set()
    blocked.join()
    return [future.result(WAIT) for future in futures]


def count_tokens(running: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens each step computes from now on."""
    computed: list[int] = []
    forward = running._model.forward

    def counted(input_ids, **options):
        computed.append(input_ids.shape[1])
        return forward(input_ids=input_ids, **options)

    monkeypatch.setattr(running._model, "forward", counted)
    return computed


def test_more_conversations_than_slots_are_all_answered(reference):
    running = engine_of(tiny_model(), slots=2)
    batch = [
        TokenRequest((*SHARED, *range(3, 4 + number)), SamplingConfig(max_tokens=4, seed=number))
        for number in range(12)
    ]
    replies: dict[int, tuple[int, ...]] = {}

    def ask(number: int) -> None:
        replies[number] = running.submit(batch[number]).result(WAIT).ids

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [replies[number] for number in range(12)] == [plain_reply(reference, request) for request in batch]
    running.close()


def test_replaced_weights_answer_from_then_on_and_no_cache_of_the_old_ones_is_used():
    running = engine_of(tiny_model())
    request = TokenRequest(SHARED, SamplingConfig(max_tokens=6, seed=4))
    before = running.submit(request).result(WAIT)
    other = tiny_model(seed=1)
    running.load_weights(other.state_dict())
    after = running.submit(request).result(WAIT)
    assert before.ids != after.ids
    assert after.ids == plain_reply(other, request)
    assert torch.allclose(torch.tensor(after.logprobs), logprobs_of(other, SHARED + after.ids, 1.0)[29:], atol=1e-4)
    running.close()


def test_conversations_that_outgrow_the_rows_keep_what_was_computed(reference, monkeypatch):
    running = engine_of(tiny_model(), step_tokens=1024)
    short = TokenRequest(tuple(range(3, 103)), SamplingConfig(max_tokens=3, seed=1))
    first = running.submit(short).result(WAIT)
    running.submit(TokenRequest(tuple(range(100, 290)) * 2, SamplingConfig(max_tokens=3))).result(WAIT)
    computed = count_tokens(running, monkeypatch)
    onward = TokenRequest((*short.ids, *first.ids, 9), SamplingConfig(max_tokens=1, seed=2))
    assert running.submit(onward).result(WAIT).ids == plain_reply(reference, onward)
    assert sum(computed) == 2
    running.close()


@pytest.mark.parametrize("wrong", ["lack", "have no place for", "have another shape for"])
def test_weights_that_do_not_fit_change_nothing(wrong, reference):
    running = engine_of(tiny_model())
    state = {name: torch.zeros_like(weight) for name, weight in reference.state_dict().items()}
    if wrong == "lack":
        del state["model.norm.weight"]
    elif wrong == "have no place for":
        state["model.extra.weight"] = torch.zeros(1)
    else:
        state["model.norm.weight"] = torch.zeros(3)
    with pytest.raises(UsageError, match=wrong):
        running.load_weights(state)
    request = TokenRequest(SHARED, SamplingConfig(max_tokens=4, seed=4))
    assert running.submit(request).result(WAIT).ids == plain_reply(reference, request)
    running.close()


def test_a_change_of_the_model_waits_for_replies_under_way():
    running = engine_of(tiny_model())
    old = [
        running.submit(TokenRequest((*SHARED, last), SamplingConfig(max_tokens=30, seed=last))) for last in range(3, 8)
    ]
    running.load_weights(tiny_model(seed=1).state_dict())
    assert all(future.done() for future in old)
    reference = tiny_model()
    assert old[0].result().ids == plain_reply(
        reference, TokenRequest((*SHARED, 3), SamplingConfig(max_tokens=30, seed=3))
    )
    running.close()


def test_a_fault_in_a_step_reaches_every_caller_and_the_engine_goes_on(monkeypatch, reference):
    running = engine_of(tiny_model())
    forward = running._model.forward
    monkeypatch.setattr(running._model, "forward", lambda **options: 1 / 0)
    broken = [running.submit(TokenRequest((*SHARED, last_id), SamplingConfig(max_tokens=3))) for last_id in range(3, 9)]
    for future in broken:
        with pytest.raises(ModelError, match="ZeroDivisionError"):
            future.result(WAIT)
    monkeypatch.setattr(running._model, "forward", forward)
    request = TokenRequest(SHARED, SamplingConfig(max_tokens=3, seed=5))
    assert running.submit(request).result(WAIT).ids == plain_reply(reference, request)
    running.close()


def test_closing_ends_what_is_under_way_and_what_waits_and_may_be_repeated(monkeypatch):
    running = engine_of(tiny_model(), slots=1)
    forward, begun, hold = running._model.forward, threading.Event(), threading.Event()

    def slow(**options):
        begun.set()
        hold.wait(WAIT)
        return forward(**options)

    monkeypatch.setattr(running._model, "forward", slow)
    futures = [
        running.submit(TokenRequest((*SHARED, last_id), SamplingConfig(max_tokens=400))) for last_id in range(3, 9)
    ]
    assert begun.wait(WAIT)
    closing = threading.Thread(target=running.close)
    closing.start()
    while not running.closed:
        pass
    hold.set()
    closing.join(WAIT)
    running.close()
    for future in futures:
        with pytest.raises(ModelError, match="closed"):
            future.result(WAIT)
    with pytest.raises(ModelError, match="closed"):
        running.submit(TokenRequest(SHARED, SamplingConfig()))
    with pytest.raises(ModelError, match="closed"):
        running.update(lambda model: None)


def llama() -> PreTrainedModel:
    return LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2))


def mistral() -> PreTrainedModel:
    return MistralForCausalLM(MistralConfig(**SMALL, num_key_value_heads=1, sliding_window=8))


def gemma() -> PreTrainedModel:
    layers = ["sliding_attention", "full_attention"]
    return Gemma3ForCausalLM(
        Gemma3TextConfig(**SMALL, num_key_value_heads=2, sliding_window=8, layer_types=layers, head_dim=16)
    )


SMALL: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.4,
}


@pytest.mark.parametrize("make", [llama, mistral, gemma])
def test_other_architectures_and_sliding_windows_are_computed_as_their_own_code_does(make):
    torch.manual_seed(0)
    model = make()
    model.train(False)
    reference = make()
    reference.load_state_dict(model.state_dict())
    reference.train(False)
    running = engine_of(model)
    batch = [TokenRequest((*SHARED, *range(3, 4 + n)), SamplingConfig(max_tokens=8, seed=n)) for n in range(6)]
    replies = [future.result(WAIT) for future in [running.submit(request) for request in batch]]
    assert [reply.ids for reply in replies] == [plain_reply(reference, request) for request in batch]
    running.close()


def test_a_model_whose_attention_is_not_supported_is_refused():
    from transformers import BloomConfig, BloomForCausalLM

    model = BloomForCausalLM(BloomConfig(vocab_size=300, hidden_size=32, n_layer=2, n_head=2))
    with pytest.raises(UsageError, match="of a kind not supported here: serve it with vllm"):
        engine_of(model, context=64)
