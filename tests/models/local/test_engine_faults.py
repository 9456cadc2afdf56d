"""The engine on transformers when things go wrong: broken logits and steps, callers that left, forks, new weights."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future

import pytest
import torch
from transformers import PreTrainedModel

from align_echo.base.halting import Halt, under, wait_for_result
from align_echo.errors import MissingDataError, ModelError, UsageError
from align_echo.models.local.engine import SamplingConfig, TokenReply, TokenRequest
from align_echo.models.local.transformers_engine import TransformersEngine
from tests.models.local.plain_loop import logprobs_of, plain_reply
from tests.models.local.tiny import tiny_encoder, tiny_model

ENCODER = tiny_encoder()
WAIT = 60.0
SHARED = tuple(range(60, 90))


@pytest.fixture(scope="module")
def reference() -> PreTrainedModel:
    return tiny_model()


@pytest.fixture
def engine() -> Iterator[TransformersEngine]:
    running = TransformersEngine(tiny_model(), name="tiny", decode=ENCODER.text, slots=4)
    yield running
    running.close()


def request(last_id: int, length: int = 30, tokens: int = 5) -> TokenRequest:
    return TokenRequest((*SHARED[: length - 1], last_id), SamplingConfig(max_tokens=tokens, seed=last_id))


def outcomes(futures: list[Future[TokenReply]]) -> list[str]:
    return [str(error) if (error := future.exception(WAIT)) else "answered" for future in futures]


def test_logits_that_are_no_numbers_end_their_own_reply_only(engine, reference, monkeypatch):
    forward = engine._model.forward

    def spoilt(**options):
        """As where one conversation outgrows its dtype: the second of three, once."""
        out = forward(**options)
        if out.logits.shape[1] == 3:
            monkeypatch.setattr(engine._model, "forward", forward)
            out.logits[0, 1] = float("nan")
        return out

    futures = three_after(engine, lambda: monkeypatch.setattr(engine._model, "forward", spoilt))
    replies = [future.exception(WAIT) for future in futures]
    assert [isinstance(reply, ModelError) and "no numbers" in str(reply) for reply in replies] == [False, True, False]
    for number in (0, 2):
        assert futures[number].result().ids == plain_reply(reference, request(number + 3))


def three_after(engine: TransformersEngine, act: Callable[[], None]) -> list[Future[TokenReply]]:
    """Three requests that arrive together, after something was done."""
    begun, hold = threading.Event(), threading.Event()

    def change(model: PreTrainedModel) -> None:
        begun.set()
        hold.wait(WAIT)
        act()

    changing = threading.Thread(target=engine.update, args=(change,))
    changing.start()
    assert begun.wait(WAIT)
    futures = [engine.submit(request(last_id)) for last_id in (3, 4, 5)]
    hold.set()
    changing.join()
    return futures


def test_what_a_broken_conversation_computed_spoils_none_that_comes_after_it(engine, reference):
    def broken_for_200(module: torch.nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        return output.masked_fill((inputs[0] == 200)[..., None], float("nan"))

    engine._model.get_input_embeddings().register_forward_hook(broken_for_200)
    long = [TokenRequest((*SHARED, *SHARED, 200, last_id), SamplingConfig(max_tokens=5)) for last_id in range(3, 7)]
    assert all("no numbers" in outcome for outcome in outcomes([engine.submit(request) for request in long]))
    short = [request(length, length) for length in (12, 16, 20, 24)]  # each stands before what the broken ones left
    replies = [future.result(WAIT).ids for future in [engine.submit(request) for request in short]]
    assert replies == [plain_reply(reference, request) for request in short]


def test_a_model_may_change_its_dtype_while_it_runs(engine):
    engine.submit(request(3)).result(WAIT)
    engine.update(lambda model: model.to(torch.bfloat16))
    reply = engine.submit(request(3)).result(WAIT)
    half = tiny_model()
    half.bfloat16()
    full = logprobs_of(half, request(3).ids + reply.ids, 1.0)[len(request(3).ids) - 1 :]
    assert list(reply.logprobs) == pytest.approx(full.tolist(), abs=0.1)


@pytest.mark.parametrize(("failures", "outcome"), [(1, "answered"), (2, "tiny: RuntimeError: out of memory")])
def test_replies_under_way_survive_one_failed_step_and_not_two(engine, reference, monkeypatch, failures, outcome):
    forward, left = engine._model.forward, [failures]

    def failing(**options):
        if len(options["input_ids"][0]) < 5 and left[0]:  # while replies are drawn
            left[0] -= 1
            raise RuntimeError("out of memory")
        return forward(**options)

    futures = three_after(engine, lambda: monkeypatch.setattr(engine._model, "forward", failing))
    assert outcomes(futures) == [outcome] * 3
    assert left == [0]
    if outcome == "answered":
        replies = [plain_reply(reference, request(last_id)) for last_id in (3, 4, 5)]
        assert [future.result().ids for future in futures] == replies
    assert engine.submit(request(9)).result(WAIT).ids == plain_reply(reference, request(9))


def test_a_cancelled_request_is_drawn_no_further_whether_under_way_or_waiting(reference, monkeypatch):
    running = TransformersEngine(tiny_model(), name="tiny", decode=ENCODER.text, slots=1)
    forward, steps, begun, hold = running._model.forward, [], threading.Event(), threading.Event()

    def counted(**options):
        steps.append(1)
        begun.set()
        hold.wait(WAIT)
        return forward(**options)

    monkeypatch.setattr(running._model, "forward", counted)
    futures = [running.submit(request(last_id, tokens=400)) for last_id in (3, 4)]
    assert begun.wait(WAIT)
    assert [future.cancel() for future in futures] == [True, True]
    hold.set()
    assert running.submit(request(6)).result(WAIT).ids == plain_reply(reference, request(6))
    assert len(steps) == 1 + 5
    running.close()


def test_of_replies_computed_as_one_a_cancelled_one_ends_alone(engine, reference, monkeypatch):
    forward, steps, begun, hold = engine._model.forward, [], threading.Event(), threading.Event()

    def counted(**options):
        steps.append(options["input_ids"].shape[1])
        begun.set()
        hold.wait(WAIT)
        return forward(**options)

    monkeypatch.setattr(engine._model, "forward", counted)
    gone, stays = (
        TokenRequest(SHARED, SamplingConfig(0.0, max_tokens=400)),
        TokenRequest(SHARED, SamplingConfig(0.0, max_tokens=9)),
    )
    gate = threading.Event()
    changing = threading.Thread(target=engine.update, args=(lambda model: gate.wait(WAIT),))
    changing.start()
    futures = [engine.submit(gone), engine.submit(stays)]
    gate.set()
    assert begun.wait(WAIT)
    assert futures[0].cancel()
    hold.set()
    assert futures[1].result(WAIT).ids == plain_reply(reference, stays)
    assert sum(steps) == len(SHARED) + 8
    changing.join()


def test_all_are_answered_even_if_clearing_a_broken_slot_fails(engine, reference, monkeypatch):
    def spoilt(**options):
        out = forward(**options)
        out.logits[:] = float("nan")
        return out

    forward, wiped = engine._model.forward, []

    def wipe(slot: int) -> None:
        wiped.append(slot)
        raise RuntimeError("device lost")

    monkeypatch.setattr(engine._cache, "wipe", wipe)
    futures = three_after(engine, lambda: monkeypatch.setattr(engine._model, "forward", spoilt))
    assert all("no numbers" in told for told in outcomes(futures))
    assert wiped
    monkeypatch.setattr(engine._model, "forward", forward)
    assert engine.submit(request(9)).result(WAIT).ids == plain_reply(reference, request(9))


def test_whoever_works_under_a_halt_stops_waiting_when_it_is_set(engine):
    halt, begun = Halt(), threading.Event()
    ended: list[BaseException | None] = []

    def wait_for_it() -> None:
        with under(halt):
            future = engine.submit(request(3, tokens=400))
            begun.set()
            try:
                wait_for_result(future)
            except CancelledError as error:
                ended.append(error)

    waiting = threading.Thread(target=wait_for_it)
    gate = threading.Event()
    changing = threading.Thread(target=engine.update, args=(lambda model: gate.wait(WAIT),))
    changing.start()  # nothing is answered until the gate opens
    waiting.start()
    assert begun.wait(WAIT)
    halt.set()
    waiting.join(WAIT)
    assert len(ended) == 1
    gate.set()
    changing.join()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_is_told_that_the_engine_is_not_in_it(engine):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            engine.submit(request(3))
        except ModelError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        assert "forked" in told.read()
    os.waitpid(child, 0)
    assert engine.submit(request(3)).result(WAIT).ids


def test_a_model_has_its_own_attention_again_after_its_engine(reference):
    model = tiny_model()
    TransformersEngine(model, name="tiny", decode=ENCODER.text, slots=2).close()
    ids = (*SHARED, 7)
    assert torch.equal(logprobs_of(model, ids, 1.0), logprobs_of(reference, ids, 1.0))


def test_published_weights_answer_from_then_on_and_are_held_against_the_publishers(engine, tmp_path):
    other = tiny_model(seed=1)
    other.save_pretrained(tmp_path / "other")

    def forward(ids: tuple[int, ...]) -> list[float]:
        return logprobs_of(other, ids, 1.0).tolist()

    engine.publish_weights(str(tmp_path / "other"), forward)
    assert engine.submit(request(3)).result(WAIT).ids == plain_reply(other, request(3))
    assert engine.changed
    tiny_model(seed=2).save_pretrained(tmp_path / "third")
    with pytest.raises(ModelError, match="does not compute with the published weights"):
        engine.publish_weights(str(tmp_path / "third"), forward)
    with pytest.raises(MissingDataError, match="holds no model"):
        engine.publish_weights(str(tmp_path), forward)
    tiny_model(kv_heads=2).save_pretrained(tmp_path / "wide")
    with pytest.raises(UsageError, match="another shape"):
        engine.publish_weights(str(tmp_path / "wide"), forward)
