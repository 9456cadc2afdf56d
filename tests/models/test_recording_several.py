"""The reply cache and the call log where several things are asked at once: only what is new is, all is written down."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import ModelError
from align_echo.models import Call, CallLog, RecordingModel, ReplyCache, ScriptedModel
from align_echo.models.cache import choice_key, request_key
from align_echo.models.drawing import choose, draw, draw_each, model_for_sample
from align_echo.types import ChatModel, Completion, Message, Usage, WordChoice

HELLO = (Message(role="user", content="Hello?"),)
WORDS = ("correct", "wrong")
SPENT = Usage(prompt_tokens=3, completion_tokens=1, cost_usd=0.5)


class Several:
    """Draws by sample number and chooses by what it is told last; `together` holds what came at once."""

    name = "several"

    def __init__(self, sample: int = 0, together: list[list[object]] | None = None) -> None:
        self.sample, self.together = sample, [] if together is None else together

    def with_sample(self, sample: int) -> Several:
        return Several(sample, self.together)

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        return self._reply(self.sample)

    def draw(
        self, messages: Sequence[Message], samples: Sequence[int], *, temperature: float, max_tokens: int = 2048
    ) -> list[Completion | ModelError]:
        self.together.append(list(samples))
        return [ModelError("thirteen") if sample == 13 else self._reply(sample) for sample in samples]

    def choose(
        self, conversations: Sequence[Sequence[Message]], words: Sequence[str]
    ) -> list[WordChoice | ModelError]:
        self.together.append([messages[-1].content for messages in conversations])
        return [self._choice(messages[-1].content) for messages in conversations]

    def _reply(self, sample: int) -> Completion:
        return Completion(text=str(sample), usage=SPENT)

    def _choice(self, word: str) -> WordChoice | ModelError:
        if word == "down":
            return ModelError(word)
        return WordChoice(said=word if word in WORDS else None, logprobs=(-0.5, -math.inf), usage=SPENT)


def recording(folder: Path, model: ChatModel, stage: int = 0) -> RecordingModel:
    log = CallLog(folder / "calls.jsonl")
    return RecordingModel(model, role="judge", cache=ReplyCache(folder / "cache"), log=log, stage=lambda: stage)


def calls(folder: Path) -> list[Call]:
    return CallLog(folder / "calls.jsonl").read()


def conversations(*texts: str) -> list[list[Message]]:
    return [[Message(role="user", content=text)] for text in texts]


# ---------------------------------------------------------------- several replies


def test_only_the_samples_that_are_new_are_drawn_and_those_at_once(tmp_path: Path) -> None:
    model = Several()
    recording(tmp_path, model).with_sample(2).complete(HELLO, temperature=1)
    replies = draw(recording(tmp_path, model), HELLO, [0, 1, 2, 3], temperature=1)
    assert [(reply.text, reply.cached) for reply in replies] == [("0", False), ("1", False), ("2", True), ("3", False)]
    assert model.together == [[0, 1, 3]]
    again = recording(tmp_path, ScriptedModel([], name="several"))
    assert [reply.text for reply in draw(again, HELLO, [3, 2, 1, 0], temperature=1)] == ["3", "2", "1", "0"]
    logged = calls(tmp_path)
    assert [call.sample for call in logged] == [2, 0, 1, 2, 3, 3, 2, 1, 0]
    paid = {call.request: call.usage for call in logged}
    assert sum(paid.values(), Usage()).cost_usd == 2.0


def test_samples_drawn_at_once_are_stored_and_logged_as_each_alone(tmp_path: Path) -> None:
    for stage in (0, 2):
        at_once, alone = (recording(tmp_path / name / str(stage), Several(), stage) for name in ("once", "alone"))
        drawn = draw(at_once, HELLO, [0, 5, 5], temperature=1, max_tokens=9)
        single = [model_for_sample(alone, sample).complete(HELLO, temperature=1, max_tokens=9) for sample in (0, 5, 5)]
        assert drawn == single
        assert [reply.cached for reply in drawn] == [False, False, True]
        assert calls(tmp_path / "once" / str(stage)) == calls(tmp_path / "alone" / str(stage))


def test_a_sample_that_fails_is_logged_and_loses_no_other(tmp_path: Path) -> None:
    model = Several()
    first, broken, last = draw_each(recording(tmp_path, model), HELLO, [12, 13, 14], temperature=1, max_tokens=9)
    assert isinstance(first, Completion)
    assert isinstance(broken, ModelError)
    assert isinstance(last, Completion)
    assert [(call.reply, call.error) for call in calls(tmp_path)] == [("12", ""), (None, "thirteen"), ("14", "")]
    draw_each(recording(tmp_path, model), HELLO, [12, 13, 14], temperature=1, max_tokens=9)
    assert model.together == [[12, 13, 14], [13]]


# ---------------------------------------------------------------- words


def test_only_conversations_that_are_new_are_asked_about_and_those_at_once(tmp_path: Path) -> None:
    model = Several()
    choose(recording(tmp_path, model), conversations("wrong"), WORDS)
    answers = choose(recording(tmp_path, model), conversations("correct", "wrong", "hm", "correct"), WORDS)
    assert model.together == [["wrong"], ["correct", "hm"]]
    answered = [(answer.said, answer.cached) for answer in answers if isinstance(answer, WordChoice)]
    assert answered == [("correct", False), ("wrong", True), (None, False), ("correct", True)]
    assert {answer.logprobs for answer in answers if isinstance(answer, WordChoice)} == {(-0.5, -math.inf)}
    again = choose(recording(tmp_path, ScriptedModel([], name="several")), conversations("hm"), WORDS)
    assert again == [WordChoice(said=None, logprobs=(-0.5, -math.inf), usage=SPENT, cached=True)]
    logged = calls(tmp_path)
    assert [(call.reply, call.cached) for call in logged[-2:]] == [("correct", True), ("", True)]
    assert {(call.words, call.logprobs, call.temperature) for call in logged} == {(WORDS, (-0.5, -math.inf), 0.0)}
    paid = {call.request: call.usage for call in logged}
    assert sum(paid.values(), Usage()).cost_usd == 1.5


def test_a_conversation_that_fails_is_logged_and_asked_about_again(tmp_path: Path) -> None:
    model = Several()
    first, down = choose(recording(tmp_path, model), conversations("correct", "down"), WORDS)
    assert isinstance(first, WordChoice)
    assert isinstance(down, ModelError)
    assert [(call.reply, call.error) for call in calls(tmp_path)] == [("correct", ""), (None, "down")]
    choose(recording(tmp_path, model), conversations("correct", "down"), WORDS)
    assert model.together == [["correct", "down"], ["down"]]


def test_other_words_are_another_question_and_a_question_is_no_request_for_a_reply(tmp_path: Path) -> None:
    model = recording(tmp_path, ScriptedModel(["correct", "wrong", "yes"]))
    (question,) = conversations("a")
    assert model.complete(question, temperature=0, max_tokens=8).text == "correct"
    assert choose(model, [question], WORDS) == [WordChoice(said="wrong")]
    assert choose(model, [question], ("yes", "no")) == [WordChoice(said="yes")]
    assert choose(model, [question], WORDS) == [WordChoice(said="wrong", cached=True)]


def test_a_model_that_can_only_reply_is_asked_once_through_the_cache(tmp_path: Path) -> None:
    class Plain:
        name = "plain"
        count = 0

        def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
            self.count += 1
            return Completion(text="Wrong.")

    model = Plain()
    for cached in (False, True):
        (answer,) = choose(recording(tmp_path, model), conversations("a"), WORDS)
        assert answer == WordChoice(said="wrong", cached=cached)
    assert model.count == 1


def test_threads_whose_questions_overlap_wait_for_each_other_and_not_for_ever(tmp_path: Path) -> None:
    model = Several()
    shared = recording(tmp_path, model)
    texts = [str(number) for number in range(8)]
    orders = [texts, texts[::-1], texts[4:] + texts[:4], texts[::2] + texts[1::2]]
    threads = [threading.Thread(target=choose, args=(shared, conversations(*order), WORDS)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert sorted(str(message) for conversation in model.together for message in conversation) == texts


def test_threads_that_hold_the_same_questions_in_another_order_never_block_each_other(tmp_path: Path) -> None:
    cache, keys = ReplyCache(tmp_path), [str(number) for number in range(20)]

    def ask(order: Sequence[str]) -> None:
        for _ in range(3000):
            with cache.asking(order):
                pass

    threads = [threading.Thread(target=ask, args=(order,), daemon=True) for order in (keys, keys[::-1])]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert not any(thread.is_alive() for thread in threads)


messages = st.lists(
    st.builds(Message, role=st.sampled_from(["system", "user", "assistant"]), content=st.text()), max_size=3
)
some_words = st.lists(st.text(max_size=3), max_size=3)


@given(messages, messages, some_words, some_words)
def test_questions_share_a_key_only_if_they_are_the_same(left, right, words, other_words) -> None:
    keys = [choice_key("m", left, words), choice_key("m", right, other_words)]
    assert (keys[0] == keys[1]) == ((left, words) == (right, other_words))
    assert request_key("m", left, temperature=0, max_tokens=8) not in keys
