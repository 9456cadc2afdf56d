"""The client of a vLLM server against a real tiny model over HTTP: ids, log-probabilities, faults."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from align_echo.errors import (
    ContextOverflowError,
    ModelError,
    RequestRejectedError,
    TokenDriftError,
    UsageError,
)
from align_echo.models.drawing import choose
from align_echo.models.local.chat import LocalModel, first_differing
from align_echo.models.local.engine import SamplingConfig, TokenRequest
from align_echo.models.local.vllm_server import VllmServer
from align_echo.tokens import join
from align_echo.types import Message, WordChoice
from tests.models.local.tiny import tiny_encoder
from tests.models.local.vllm_client import ATTEMPTS, IDS, agrees, ask, connect, forward_logprobs, running
from tests.models.local.vllm_stand_in import CONTEXT, LOWEST, Refusal, StandIn, serve


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[StandIn, VllmServer]]:
    """A server without faults that tests leave as it is."""
    with running() as both:
        yield both


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


# ---------------------------------------------------------------- replies


@pytest.mark.long
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ids=st.lists(st.integers(0, 299), min_size=1, max_size=40).map(tuple),
    temperature=st.sampled_from([0.0, 0.7, 1.0, 1.5]),
    seed=st.integers(0, 2**63 - 1),
)
def test_replies_carry_the_log_probabilities_of_a_full_forward_pass(shared, ids, temperature, seed):
    stand_in, engine = shared
    reply = ask(engine, ids, temperature=temperature, seed=seed, stop_ids=(2,))
    assert agrees(stand_in.model, ids, reply, temperature)
    assert (reply.finish_reason == "stop") == (reply.ids[-1] == 2)
    assert reply == ask(engine, ids, temperature=temperature, seed=seed, stop_ids=(2,))


@pytest.mark.long
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ids=st.lists(st.integers(0, 299), min_size=1, max_size=40).map(tuple),
    choices=st.lists(st.integers(0, 299), min_size=1, max_size=5).map(tuple),
    temperature=st.sampled_from([0.0, 1.0]),
)
def test_choices_have_the_probabilities_of_a_full_forward_pass(shared, ids, choices, temperature):
    stand_in, engine = shared
    reply = ask(engine, ids, temperature=temperature, seed=4, choices=choices)
    wanted = [forward_logprobs(stand_in.model, (*ids, choice))[-1] for choice in choices]
    assert list(reply.choices) == pytest.approx(wanted, abs=1e-4)
    assert reply.ids == ask(engine, ids, temperature=temperature, seed=4).ids
    assert stand_in.requests[-2]["logprob_token_ids"] == list(choices)
    assert "logprob_token_ids" not in stand_in.requests[-1]


def test_a_choice_that_is_as_improbable_as_the_server_can_say_is_impossible(shared):
    _, engine = shared
    listed = {"token_id:4": -1.0, "token_id:9": LOWEST}
    never = {"tokens": ["token_id:4"], "token_logprobs": [-1.0], "top_logprobs": [listed]}
    shared[0].faults = [{"token_ids": [4], "logprobs": never}]
    assert ask(engine, max_tokens=1, choices=(9, 4)).choices == (-math.inf, -1.0)


def test_a_server_that_tells_nothing_of_chosen_tokens_is_refused_in_one_line():
    with running(StandIn(knows_token_ids=False)) as (stand_in, engine):
        assert ask(engine, choices=()).choices == ()
        with pytest.raises(UsageError, match="logprob_token_ids") as caught:
            ask(engine, choices=(9, 4))
        assert "\n" not in str(caught.value)
        assert len(stand_in.requests) == 2


def test_a_mode_in_which_choices_would_be_those_of_another_temperature_is_refused(shared):
    with pytest.raises(UsageError, match="--logprobs-mode raw_logprobs"):
        ask(shared[1], temperature=0.7, choices=(9, 4))
    with pytest.raises(UsageError, match="128 tokens, not of 129"):
        ask(shared[1], temperature=1.0, choices=tuple(range(129)))
    with running(StandIn(mode="raw_logprobs")) as (stand_in, engine):
        reply = ask(engine, temperature=1.0, top_k=2, choices=(9, 4))
        wanted = [forward_logprobs(stand_in.model, (*IDS, token))[-1] for token in (9, 4)]
        assert list(reply.choices) == pytest.approx(wanted, abs=1e-4)


def test_the_context_is_sent_as_ids_with_every_parameter_of_sampling(shared):
    stand_in, engine = shared
    ask(engine, max_tokens=3, temperature=0.5, seed=11, stop_ids=(2, 9), stop=("\nYou",))
    sent = stand_in.requests[-1]
    assert sent["prompt"] == list(IDS)
    assert (sent["model"], sent["max_tokens"], sent["temperature"], sent["seed"]) == ("tiny", 3, 0.5, 11)
    assert (sent["stop_token_ids"], sent["stop"]) == ([2, 9], ["\nYou"])
    defaults = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0}
    assert {name: sent[name] for name in defaults} == defaults
    assert (sent["ignore_eos"], sent["skip_special_tokens"], sent["add_special_tokens"]) == (True, False, False)


def test_a_reply_that_would_outgrow_the_context_is_cut(shared):
    _, engine = shared
    ids = (7,) * (CONTEXT - 3)
    reply = ask(engine, ids, max_tokens=50)
    assert (len(reply.ids), reply.finish_reason) == (3, "length")


def test_a_full_context_is_an_overflow_and_is_not_asked(shared):
    stand_in, engine = shared
    requests_before = len(stand_in.requests)
    with pytest.raises(ContextOverflowError, match=f"takes {CONTEXT}"):
        ask(engine, (7,) * CONTEXT)
    assert len(stand_in.requests) == requests_before


def test_a_server_that_takes_less_than_it_says_reports_an_overflow():
    with running(StandIn(listed={"max_model_len": 4 * CONTEXT})) as (_, engine), pytest.raises(ContextOverflowError):
        ask(engine, (7,) * (CONTEXT + 1))


@pytest.mark.parametrize(
    "request_", [TokenRequest((), SamplingConfig()), TokenRequest(IDS, SamplingConfig(max_tokens=0))]
)
def test_a_request_without_context_or_room_is_refused_at_once(shared, request_):
    with pytest.raises(UsageError, match="needs a context"):
        shared[1].submit(request_)


@pytest.mark.long
def test_many_requests_under_way_at_once_keep_their_own_answers(shared):
    _, engine = shared
    requests = [TokenRequest((number, 8), SamplingConfig(seed=number, max_tokens=4)) for number in range(30)]
    together = [future.result(60) for future in [engine.submit(request) for request in requests]]
    assert together == [engine.submit(request).result(60) for request in requests]


# ---------------------------------------------------------------- conversations


def test_a_conversation_over_the_server_is_one_token_sequence_and_planted_special_tokens_stay_text(shared):
    stand_in, engine = shared
    model = LocalModel(engine, tiny_encoder(), seed=3)
    planted = Message(role="user", content="<|im_end|>")
    messages = [planted]
    calls = []
    for _ in range(3):
        done = model.complete(messages, temperature=1.0, max_tokens=4)
        assert done.tokens is not None
        calls.append(done.tokens)
        messages.append(Message(role="assistant", content=done.text, tokens=done.tokens))
        messages.append(Message(role="user", content="a"))
    sequence = join(calls)
    assert stand_in.requests[-1]["prompt"] == list(sequence.ids[: sequence.turns[-1][0]])
    end = model.encoder.end_id
    opening = model.encoder.opening([planted])
    assert opening.count(end) == 1, "the planted text holds no end token, the template one"
    wanted = forward_logprobs(stand_in.model, sequence.ids)
    wanted = [logprob * own for logprob, own in zip(wanted, sequence.mask[1:], strict=True)]
    assert list(sequence.logprobs[1:]) == pytest.approx(wanted, abs=1e-4)


def test_words_are_weighed_over_the_server_and_one_full_conversation_loses_no_other(shared):
    stand_in, engine = shared
    model = LocalModel(engine, tiny_encoder())
    short, long = [Message(role="user", content="a")], [Message(role="user", content="go to cabinet 1 " * 20)]
    first, full, last = choose(model, [short, long, short], ("correct", "wrong"))
    assert isinstance(full, ContextOverflowError)
    assert isinstance(first, WordChoice)
    assert first == last
    start, firsts = first_differing([model.encoder.plain(word) for word in ("correct", "wrong")], ("correct", "wrong"))
    context = model.encoder.opening(short) + start
    wanted = [forward_logprobs(stand_in.model, (*context, token))[-1] for token in firsts]
    assert list(first.logprobs or ()) == pytest.approx(wanted, abs=1e-4)


# ---------------------------------------------------------------- faults

GOOD = {"tokens": ["token_id:4", "token_id:5"], "token_logprobs": [-1.0, -2.0], "top_logprobs": [{}, {}]}
PASSING = {
    "too busy": Refusal(429),
    "a fault of the server": Refusal(500),
    "a dropped connection": Refusal(0),
    "no JSON": "<html>",
    "no choices": '{"choices": []}',
    "no token ids": {"token_ids": None},
    "token ids as text": {"token_ids": ["4", "5"], "logprobs": GOOD},
    "no log-probabilities": {"logprobs": None},
    "no tokens at all": {"token_ids": [], "logprobs": {**GOOD, "tokens": [], "token_logprobs": []}},
    "a log-probability too few": {"token_ids": [4, 5], "logprobs": {**GOOD, "token_logprobs": [-1.0]}},
    "log-probabilities of other tokens": {"token_ids": [4, 6], "logprobs": GOOD},
    "a log-probability above 0": {"token_ids": [4, 5], "logprobs": {**GOOD, "token_logprobs": [-1.0, 0.5]}},
    "a log-probability that is no number": {"token_ids": [4, 5], "logprobs": {**GOOD, "token_logprobs": [-1.0, None]}},
    "tokens after the end token": {
        "token_ids": [250, 5],
        "logprobs": {**GOOD, "tokens": ["token_id:250", "token_id:5"]},
    },
    "an aborted reply": {"finish_reason": "abort"},
}
FAULTS_OF_CHOICES = {
    "nothing at the first token": {**GOOD, "top_logprobs": []},
    "a log-probability above 0": {**GOOD, "top_logprobs": [{"token_id:9": 0.5}, {}]},
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
def test_a_passing_fault_is_asked_again_and_a_lasting_one_is_a_model_error(fault):
    with running() as (stand_in, engine):
        wanted = ask(engine, max_tokens=3, stop_ids=(250,))
        stand_in.faults = [fault] * (ATTEMPTS - 1)
        assert ask(engine, max_tokens=3, stop_ids=(250,)) == wanted
        stand_in.faults = [fault] * ATTEMPTS
        with pytest.raises(ModelError, match=f"no reply in {ATTEMPTS} attempts") as caught:
            ask(engine, max_tokens=3, stop_ids=(250,))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("logprobs", FAULTS_OF_CHOICES.values(), ids=FAULTS_OF_CHOICES.keys())
def test_choices_that_cannot_be_read_are_asked_for_again(logprobs):
    with running() as (stand_in, engine):
        wanted = ask(engine, choices=(9,))
        stand_in.faults = [{"token_ids": [4, 5], "logprobs": logprobs}] * (ATTEMPTS - 1)
        assert ask(engine, choices=(9,)) == wanted


def test_a_reply_longer_than_asked_is_a_model_error():
    with running() as (stand_in, engine):
        stand_in.faults = [{"token_ids": [4, 5], "logprobs": GOOD, "finish_reason": "length"}] * ATTEMPTS
        with pytest.raises(ModelError, match="1 were asked for"):
            ask(engine, max_tokens=1)


def test_a_refused_request_is_not_sent_again():
    with running() as (stand_in, engine):
        stand_in.faults = [Refusal(400, "Token id 9999 is out of vocabulary")]
        with pytest.raises(RequestRejectedError, match="out of vocabulary"):
            ask(engine)
        assert len(stand_in.requests) == 1


def test_an_answer_to_other_ids_is_token_drift():
    with running() as (stand_in, engine):
        stand_in.faults = [{"prompt_token_ids": [*IDS, 1]}]
        with pytest.raises(TokenDriftError, match="other token ids"):
            ask(engine)


def test_a_closed_engine_takes_no_requests():
    with serve(StandIn()) as stand_in:
        engine = connect(stand_in)
        engine.close()
        assert engine.closed
        with pytest.raises(ModelError, match="closed"):
            ask(engine)


# ---------------------------------------------------------------- connecting


def test_connecting_learns_the_context_and_where_the_tokenizer_is(shared):
    engine = shared[1]
    assert (engine.name, engine.context, engine.root) == ("vllm-server:tiny", CONTEXT, "/models/tiny")


@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logprobs"])
def test_connecting_sees_which_log_probabilities_the_server_gives(mode):
    with running(StandIn(mode=mode)) as (_, engine):
        assert engine.logprobs_mode == mode


@pytest.mark.parametrize("mode", ["raw_logits", "processed_logits"])
def test_a_server_that_gives_logits_is_refused(mode):
    with serve(StandIn(mode=mode)) as stand_in, pytest.raises(UsageError, match="--logprobs-mode processed_logprobs"):
        connect(stand_in)


def test_raw_log_probabilities_serve_temperature_1_and_greedy_replies_only():
    with running(StandIn(mode="raw_logprobs")) as (stand_in, engine):
        assert agrees(stand_in.model, IDS, ask(engine, temperature=1.0))
        assert agrees(stand_in.model, IDS, ask(engine, temperature=0.0), 0.0)
        ask(engine, temperature=1.0, top_k=5, top_p=0.9)
        with pytest.raises(UsageError, match="--logprobs-mode processed_logprobs"):
            ask(engine, temperature=0.7)


@pytest.mark.parametrize("filters", [{"top_k": 5}, {"top_p": 0.9}])
def test_processed_log_probabilities_do_not_serve_top_k_and_top_p(shared, filters):
    with pytest.raises(UsageError, match="--logprobs-mode raw_logprobs"):
        ask(shared[1], **filters)
    ask(shared[1], temperature=0.0, **filters)


def test_a_temperature_at_which_vllm_does_not_draw_is_refused(shared):
    with pytest.raises(UsageError, match=r"no temperature between 0 and 0\.01"):
        ask(shared[1], temperature=0.001)


def test_an_unknown_model_is_told_with_those_there_are():
    with serve(StandIn()) as stand_in, pytest.raises(UsageError, match="its models: tiny"):
        connect(stand_in, model="big")


def test_a_server_that_gives_no_token_ids_is_refused_without_asking_twice():
    with serve(StandIn(faults=[{"token_ids": None}])) as stand_in:
        with pytest.raises(UsageError, match=r"does not answer as vLLM .* lacks choices.0.token_ids"):
            connect(stand_in)
        assert len(stand_in.requests) == 1


@pytest.mark.parametrize("base_url", [None, "localhost:8000/v1"])
def test_a_server_without_an_address_is_asked_for(base_url, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match="such as http://localhost"):
        VllmServer("tiny", base_url=base_url)


def test_a_server_that_is_not_there_is_a_usage_error_after_a_brief_try():
    with serve(StandIn()) as stand_in:
        pass
    waits: list[float] = []
    with pytest.raises(UsageError, match="cannot be reached in 3 attempts: nothing listens there"):
        VllmServer("tiny", base_url=stand_in.url, wait=waits.append)
    assert sum(waits) < 5
