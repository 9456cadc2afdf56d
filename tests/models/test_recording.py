"""The reply cache and the call log: nothing is paid for twice, everything is written down."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import ModelError
from align_echo.models import Call, CallLog, RecordingModel, ReplyCache, ScriptedModel
from align_echo.models.cache import request_key
from align_echo.types import Completion, Message, Usage

HELLO = (Message(role="user", content="Hello?"),)


def recording(folder: Path, model: ScriptedModel, sample: int = 0) -> RecordingModel:
    log = CallLog(folder / "calls.jsonl")
    return RecordingModel(model, role="agent", cache=ReplyCache(folder / "cache"), log=log, sample=sample)


def calls(folder: Path) -> list[Call]:
    return CallLog(folder / "calls.jsonl").read()


def test_the_same_request_is_paid_for_once_even_by_another_process(tmp_path: Path) -> None:
    paid = Completion(text="Hi.", usage=Usage(prompt_tokens=3, completion_tokens=2, cost_usd=0.5))
    model = ScriptedModel([paid])
    first = recording(tmp_path, model).complete(HELLO, temperature=0)
    again = recording(tmp_path, model).complete(HELLO, temperature=0)
    assert (first.cached, again.cached) == (False, True)
    assert again.text == "Hi."
    assert len(model.requests) == 1
    assert [(call.cached, call.usage.cost_usd) for call in calls(tmp_path)] == [(False, 0.5), (True, 0.5)]


@pytest.mark.parametrize("other", [{"temperature": 0.2}, {"max_tokens": 9}])
def test_another_request_is_another_question(tmp_path: Path, other: dict[str, float]) -> None:
    model = recording(tmp_path, ScriptedModel(["a", "b"]))
    request = {"temperature": 0.0, "max_tokens": 5}
    texts = [
        model.complete(HELLO, temperature=values["temperature"], max_tokens=int(values["max_tokens"])).text
        for values in (request, request | other)
    ]
    assert texts == ["a", "b"]


def test_samples_of_one_request_are_told_apart(tmp_path: Path) -> None:
    model = ScriptedModel(["a", "b"])
    texts = [recording(tmp_path, model, sample).complete(HELLO, temperature=1).text for sample in (0, 1, 0)]
    assert texts == ["a", "b", "a"]


def test_a_damaged_cache_file_is_asked_for_again(tmp_path: Path) -> None:
    recording(tmp_path, ScriptedModel(["a"])).complete(HELLO, temperature=0)
    (file,) = (tmp_path / "cache").iterdir()
    file.write_text(file.read_text().replace('{"text":', '{"t'))
    assert recording(tmp_path, ScriptedModel(["b"])).complete(HELLO, temperature=0).text == "b"
    assert recording(tmp_path, ScriptedModel([])).complete(HELLO, temperature=0).text == "b"


def test_a_failed_request_is_logged_and_not_remembered(tmp_path: Path) -> None:
    model = recording(tmp_path, ScriptedModel([ModelError("down"), "up"]))
    with pytest.raises(ModelError, match="down"):
        model.complete(HELLO, temperature=0)
    assert model.complete(HELLO, temperature=0).text == "up"
    assert [(call.reply, call.error) for call in calls(tmp_path)] == [(None, "down"), ("up", "")]


def test_two_threads_with_one_question_pay_once(tmp_path: Path) -> None:
    both = threading.Barrier(2)

    class Slow(ScriptedModel):
        def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
            arrived.set()
            release.wait(60)
            return super().complete(messages, temperature=temperature, max_tokens=max_tokens)

    arrived, release = threading.Event(), threading.Event()
    inner = Slow(["only"])
    model = recording(tmp_path, inner)
    texts: list[str] = []

    def ask() -> None:
        both.wait(60)
        texts.append(model.complete(HELLO, temperature=0).text)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert arrived.wait(60)
    release.set()
    for thread in threads:
        thread.join(60)
    assert texts == ["only", "only"]
    assert len(inner.requests) == 1


def test_a_line_cut_off_by_a_kill_is_dropped_and_the_log_goes_on(tmp_path: Path) -> None:
    recording(tmp_path, ScriptedModel(["a"])).complete(HELLO, temperature=0)
    log = tmp_path / "calls.jsonl"
    log.write_bytes(log.read_bytes() + b'{"role": "agent", "mod')
    assert len(calls(tmp_path)) == 1
    recording(tmp_path, ScriptedModel(["b"])).complete(HELLO, temperature=1)
    assert [call.reply for call in calls(tmp_path)] == ["a", "b"]


messages = st.lists(
    st.builds(Message, role=st.sampled_from(["system", "user", "assistant"]), content=st.text()), max_size=3
)


@given(messages, messages)
def test_requests_share_a_key_only_if_they_are_the_same(left: list[Message], right: list[Message]) -> None:
    keys = [request_key("m", side, temperature=0, max_tokens=5) for side in (left, right)]
    assert (keys[0] == keys[1]) == (left == right)


class Drawing:
    """Its reply is its sample number."""

    name = "drawing"

    def __init__(self, sample: int = 0) -> None:
        self._sample = sample

    def with_sample(self, sample: int) -> Drawing:
        return Drawing(sample)

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        return Completion(text=str(self._sample))


def test_a_model_that_draws_by_its_sample_number_draws_anew_in_another_stage(tmp_path: Path) -> None:
    stage = [0]
    log = CallLog(tmp_path / "calls.jsonl")
    first = RecordingModel(
        Drawing(), role="agent", cache=ReplyCache(tmp_path / "cache"), log=log, stage=lambda: stage[0]
    )
    samples = [first, first.with_sample(1)]
    drawn = []
    for stage[0] in (0, 1, 2):
        drawn += [sampled.complete(HELLO, temperature=1).text for sampled in samples]
    assert len(set(drawn)) == 6
    assert drawn[:2] == ["0", "1"]
    assert {sampled.complete(HELLO, temperature=0).text for sampled in samples} == {"0", "1"}
