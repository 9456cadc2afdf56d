"""How probable given tokens and words are: from the draw's own logits, many conversations at once, nothing twice."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedModel

from align_echo.errors import ContextOverflowError, ModelError, TokenDriftError, UsageError
from align_echo.models.drawing import choose, draw, model_for_sample
from align_echo.models.local.chat import LocalModel, first_differing
from align_echo.models.local.engine import SamplingConfig, TokenRequest
from align_echo.models.local.transformers_engine import TransformersEngine
from align_echo.types import Message, WordChoice
from tests.models.local.plain_loop import logprobs_of
from tests.models.local.test_transformers_engine import count_tokens
from tests.models.local.tiny import tiny_encoder, tiny_model

ENCODER = tiny_encoder()
CONTEXT = 1024
WORDS = ("correct", "wrong")
WAIT = 60.0
SIZE = tiny_model().config.vocab_size


def engine_of(slots: int = 8) -> TransformersEngine:
    return TransformersEngine(tiny_model(context=CONTEXT), name="tiny", decode=ENCODER.text, slots=slots)


@pytest.fixture(scope="module")
def reference() -> PreTrainedModel:
    return tiny_model(context=CONTEXT)


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    engine = engine_of()
    yield LocalModel(engine, ENCODER)
    engine.close()


def user(text: str) -> Message:
    return Message(role="user", content=text)


def first_logprobs(model: PreTrainedModel, ids: tuple[int, ...], wanted: tuple[int, ...]) -> list[float]:
    """Of each wanted token after the ids, by a forward pass each."""
    return [float(logprobs_of(model, (*ids, token), 1.0)[-1]) for token in wanted]


@contextmanager
def paused(engine: TransformersEngine) -> Iterator[None]:
    """The engine begins nothing until the block is left, so what is asked in it comes together."""
    begun, hold = threading.Event(), threading.Event()

    def wait(model: PreTrainedModel) -> None:
        begun.set()
        hold.wait(WAIT)

    blocked = threading.Thread(target=engine.update, args=(wait,))
    blocked.start()
    assert begun.wait(WAIT)
    try:
        yield
    finally:
        hold.set()
        blocked.join()


# ---------------------------------------------------------------- tokens

samplings = st.builds(
    SamplingConfig,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 7]),
    top_p=st.sampled_from([1.0, 0.5]),
    max_tokens=st.integers(1, 4),
    seed=st.integers(0, 2**63 - 1),
    choices=st.lists(st.integers(0, SIZE - 1), max_size=4).map(tuple),
)
any_request = st.builds(TokenRequest, st.lists(st.integers(3, 280), min_size=1, max_size=30).map(tuple), samplings)


@settings(max_examples=25)
@given(requests=st.lists(any_request, min_size=1, max_size=6))
def test_choices_have_the_probabilities_of_a_full_forward_pass_at_temperature_1_whatever_is_drawn(
    model, reference, requests
):
    replies = [future.result(WAIT) for future in [model.engine.submit(request) for request in requests]]
    for request, reply in zip(requests, replies, strict=True):
        assert list(reply.choices) == pytest.approx(
            first_logprobs(reference, request.ids, request.sampling.choices), abs=1e-4
        )


def test_asking_about_tokens_changes_no_draw(model):
    plain = TokenRequest((5, 6, 7), SamplingConfig(max_tokens=8, seed=3))
    curious = TokenRequest((5, 6, 7), SamplingConfig(max_tokens=8, seed=3, choices=(9, 4)))
    first, second = (model.engine.submit(request).result(WAIT) for request in (plain, curious))
    assert (first.ids, first.choices) == (second.ids, ())
    assert second.logprobs == pytest.approx(first.logprobs, abs=1e-5)


@pytest.mark.parametrize("wrong", [-1, SIZE])
def test_choices_that_are_no_tokens_are_refused_at_once(model, wrong):
    with pytest.raises(UsageError, match="no choices but token ids"):
        model.engine.submit(TokenRequest((5,), SamplingConfig(choices=(3, wrong))))


# ---------------------------------------------------------------- words


def shared_prompt(questions: list[str], long: str = "You see nothing. Nothing happens. ") -> list[list[Message]]:
    opening = [Message(role="system", content=long * 20), user("go to cabinet 1")]
    return [[*opening, user(question)] for question in questions]


def test_conversations_with_a_long_prompt_in_common_are_scored_as_each_alone_and_the_prompt_is_computed_once(
    monkeypatch,
):
    conversations = shared_prompt([f"take the mug {letter}" for letter in "pqxyz"])
    alone = []
    for messages in conversations:
        fresh = engine_of()
        alone += choose(LocalModel(fresh, ENCODER), [messages], WORDS)
        fresh.close()
    running = engine_of()
    computed = count_tokens(running, monkeypatch)
    answers: list[WordChoice | ModelError] = []
    asking = threading.Thread(target=lambda: answers.extend(choose(LocalModel(running, ENCODER), conversations, WORDS)))
    with paused(running):
        asking.start()
        while asking.is_alive() and running._inbox.qsize() < len(conversations):
            pass
    asking.join(WAIT)
    running.close()
    assert len(answers) == len(alone) == 5
    for answer, other in zip(answers, alone, strict=True):
        assert isinstance(answer, WordChoice)
        assert isinstance(other, WordChoice)
        assert answer.logprobs == pytest.approx(other.logprobs, abs=1e-5)
        assert (answer.said, answer.usage) == (other.said, other.usage)
    contexts = [ENCODER.opening(messages) for messages in conversations]
    in_common = next(at for at, column in enumerate(zip(*contexts, strict=False)) if len(set(column)) > 1)
    assert in_common > 300
    assert sum(computed) == in_common + sum(len(ids) - in_common for ids in contexts)
    assert len(computed) == 2, "the first conversation, then all that the others add, in one step"


words = st.text(st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=1, max_size=4)


@settings(max_examples=30)
@given(choices=st.lists(words, min_size=2, max_size=4, unique=True), common=st.sampled_from(["", "mug ", "c"]))
def test_each_word_has_the_probability_of_its_first_token_that_differs(model, reference, choices, common):
    choices = [common + word for word in choices]
    ids = [ENCODER.plain(word) for word in choices]
    try:
        start, firsts = first_differing(ids, choices)
    except UsageError:
        with pytest.raises(UsageError, match="do not tell them apart"):
            model.choose([[user("what now?")]], choices)
        assert len({word_ids[: len(min(ids, key=len))] for word_ids in ids}) < len(ids) or len(choices) > 2
        return
    assert all(word_ids[: len(start) + 1] == (*start, first) for word_ids, first in zip(ids, firsts, strict=True))
    (answer,) = model.choose([[user("what now?")]], choices)
    context = ENCODER.opening([user("what now?")]) + start
    assert list(answer.logprobs) == pytest.approx(first_logprobs(reference, context, firsts), abs=1e-4)
    with torch.inference_mode():
        likeliest = int(reference(input_ids=torch.tensor([list(context)])).logits[0, -1].argmax())
    assert answer.said == dict(zip(firsts, choices, strict=True)).get(likeliest)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(context), 1)


def test_a_word_that_its_likeliest_token_begins_is_what_it_says(model, reference):
    for number in range(100):
        messages = [user(chr(ord("a") + number % 26) * (number + 1))]
        with torch.inference_mode():
            logits_TV = reference(input_ids=torch.tensor([list(ENCODER.opening(messages))])).logits[0]
        order = logits_TV[-1].argsort(descending=True).tolist()
        texts = [text for token in order if (text := ENCODER.text([token])).strip() and ENCODER.plain(text) == (token,)]
        if ENCODER.plain(texts[0]) == (order[0],):
            break
    else:
        raise AssertionError("no context after which the likeliest token is a word")
    assert model.choose([messages], [texts[1], texts[0]])[0].said == texts[0]
    assert model.choose([messages], [texts[1], texts[2]])[0].said is None


@pytest.mark.parametrize("same", [("go", "go to"), ("mug a", "mug b", "shelf c")])
def test_words_that_one_token_does_not_tell_apart_are_refused(model, same):
    with pytest.raises(UsageError, match="do not tell them apart"):
        choose(model, [[user("what now?")]], same)


def test_a_conversation_goes_on_from_the_ids_that_were_sampled(model, reference):
    messages = [user("what now?")]
    for observation in ("A door.", "A shelf."):
        reply = model.complete(messages, temperature=1.0, max_tokens=6)
        messages += [Message(role="assistant", content=reply.text.strip() or "(no reply)", tokens=reply.tokens)]
        messages += [user(observation)]
    before, gained = ENCODER.conversation(messages)
    (answer,) = choose(model, [messages], WORDS)
    assert isinstance(answer, WordChoice)
    assert answer.logprobs is not None
    start, firsts = first_differing([ENCODER.plain(word) for word in WORDS], WORDS)
    assert list(answer.logprobs) == pytest.approx(
        first_logprobs(reference, before + gained + start, firsts), abs=1e-4
    )
    altered = [*messages[:1], messages[1].model_copy(update={"content": "something else"}), *messages[2:]]
    with pytest.raises(TokenDriftError):
        choose(model, [messages, altered], WORDS)


def test_a_conversation_without_room_loses_no_other_and_none_needs_no_engine(model):
    small = LocalModel(model.engine, ENCODER, context=60)
    short, long = [user("what now?")], [user("go to cabinet 1 " * 30)]
    first, full, last = choose(small, [short, long, short], WORDS)
    assert isinstance(full, ContextOverflowError)
    (alone,) = choose(model, [short], WORDS)
    for answer in (first, last):
        assert isinstance(answer, WordChoice)
        assert isinstance(alone, WordChoice)
        assert answer.logprobs == pytest.approx(alone.logprobs, abs=1e-5)
    assert choose(model, [], WORDS) == []


def test_a_broken_or_closed_engine_is_an_error_for_each_conversation(monkeypatch):
    running = engine_of()
    monkeypatch.setattr(running._model, "forward", lambda **options: 1 / 0)
    broken = choose(LocalModel(running, ENCODER), shared_prompt(["a", "b"]), WORDS)
    assert [type(answer) for answer in broken] == [ModelError, ModelError]
    assert "ZeroDivisionError" in str(broken[0])
    running.close()
    closed = choose(LocalModel(running, ENCODER), shared_prompt(["a", "b"]), WORDS)
    assert ["closed" in str(answer) for answer in closed] == [True, True]


def test_an_adapter_that_is_not_loaded_is_named(model):
    with pytest.raises(UsageError, match="no adapter 'critic'"):
        choose(LocalModel(model.engine, ENCODER, adapter="critic"), [[user("a")]], WORDS)


def test_probabilities_are_no_more_than_1_together(model):
    answers = choose(model, shared_prompt(["a", "b", "c"]), ("a", "b", "c", "d"))
    for answer in answers:
        assert isinstance(answer, WordChoice)
        assert sum(math.exp(logprob) for logprob in answer.logprobs or ()) <= 1


# ---------------------------------------------------------------- several replies


@settings(max_examples=15)
@given(
    samples=st.lists(st.integers(0, 2**40), max_size=6),
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    top_k=st.sampled_from([0, 5]),
)
def test_replies_drawn_at_once_are_those_of_each_sample_alone(model, samples, temperature, top_k):
    messages = [user("what now?")]
    sampled = LocalModel(model.engine, ENCODER, seed=4, top_k=top_k)
    at_once = draw(sampled, messages, samples, temperature=temperature, max_tokens=6)
    alone = [
        model_for_sample(sampled, sample).complete(messages, temperature=temperature, max_tokens=6)
        for sample in samples
    ]
    for drawn, wanted in zip(at_once, alone, strict=True):
        assert drawn.tokens is not None
        assert wanted.tokens is not None
        assert drawn.tokens.sampled_ids == wanted.tokens.sampled_ids
        assert drawn.tokens.logprobs == pytest.approx(wanted.tokens.logprobs, abs=1e-5)
        assert drawn.model_copy(update={"tokens": None}) == wanted.model_copy(update={"tokens": None})


def test_the_context_of_several_replies_is_computed_once(monkeypatch):
    running = engine_of()
    computed = count_tokens(running, monkeypatch)
    (messages,) = shared_prompt(["what now?"])
    draw(LocalModel(running, ENCODER), messages, range(6), temperature=1.0, max_tokens=1)
    assert sum(computed) == len(ENCODER.opening(messages))
    running.close()


def test_a_context_without_room_is_the_error_of_a_single_reply(model):
    small = LocalModel(model.engine, ENCODER, context=20)
    with pytest.raises(ContextOverflowError, match="no room"):
        draw(small, [user("go to cabinet 1 " * 9)], range(3), temperature=1.0)
