"""Which word comes next: replies read strictly, listed tokens summed, and answers that survive being stored."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.errors import ContextOverflowError, ModelError, UsageError
from align_echo.models import ScriptedModel
from align_echo.models.drawing import MAX_TOKENS, THINKING_TOKENS, choose, listed_choice, more_to_read, word_choice
from align_echo.types import ChatModel, Completion, Message, Usage, WordChoice

WORDS = ("correct", "wrong")
NEVER = -math.inf


def conversations(*texts: str) -> list[list[Message]]:
    return [[Message(role="user", content=text)] for text in texts]


class Plain:
    """A chat model that can do nothing but reply: with what it was told last, or the error that names."""

    name = "plain"

    def __init__(self) -> None:
        self.requests: list[tuple[float, int]] = []

    def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int = 2048) -> Completion:
        self.requests.append((temperature, max_tokens))
        text = messages[-1].content
        if text == "down":
            raise ModelError(text)
        if text == "full":
            raise ContextOverflowError(text)
        return Completion(text=text, usage=Usage(prompt_tokens=7, completion_tokens=2, cost_usd=0.5))


def test_a_model_that_can_only_reply_is_asked_greedily_for_a_word_and_gives_no_probabilities() -> None:
    model: ChatModel = Plain()
    plain = model
    assert isinstance(plain, Plain)
    first, second = choose(model, conversations("Correct.", "the weather"), WORDS)
    spent = Usage(prompt_tokens=7, completion_tokens=2, cost_usd=0.5)
    assert first == WordChoice(said="correct", usage=spent)
    assert second == WordChoice(said=None, usage=spent)
    assert plain.requests == [(0.0, MAX_TOKENS)] * 2


def test_a_conversation_that_fails_is_told_in_its_place_and_loses_no_other() -> None:
    first, down, full, last = choose(Plain(), conversations("wrong", "down", "full", "correct"), WORDS)
    assert isinstance(down, ModelError)
    assert isinstance(full, ContextOverflowError)
    assert [answer.said for answer in (first, last) if isinstance(answer, WordChoice)] == ["wrong", "correct"]


def test_no_conversations_are_no_question() -> None:
    model = Plain()
    assert choose(model, [], WORDS) == []
    assert model.requests == []


@pytest.mark.parametrize("words", [(), ("correct",), ("correct", "Correct "), ("correct", ""), ("correct", "  ")])
def test_words_that_cannot_be_told_apart_are_refused_in_one_line(words) -> None:
    with pytest.raises(UsageError, match="give two words or more") as caught:
        choose(Plain(), conversations("a"), words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *("correct", "Correct.", "CORRECT", " correct\n"),
        *("**Correct**", '"correct."', "<think>wrong?</think> Correct"),
        *("Answer: correct", "**Verdict:** correct.", '```json\n{"verdict": "correct"}\n```'),
        "<answer>correct</answer>",
        *("\\boxed{correct}", "> correct", "\ufeffcorrect</s>"),
    ],
)
def test_a_word_is_read_in_any_case_with_or_without_a_full_stop(text: str) -> None:
    assert word_choice(Completion(text=text), WORDS).said == "correct"


LONG = ("a" + " " * 30_000 + "a", "<a>" * 8_000 + "x", "answer:" * 4_000 + "b")
"""Texts whose matching took minutes."""


@pytest.mark.parametrize(
    "text", ["", ".", "correct!", "correct..", "correct or wrong", "incorrect", "it is correct", *LONG]
)
def test_anything_else_is_none_of_the_words(text: str) -> None:
    assert word_choice(Completion(text=text), WORDS).said is None


# ---------------------------------------------------------------- listed tokens


def test_tokens_that_begin_one_word_count_for_it_and_others_for_none() -> None:
    listed = [("correct", 0.4), (" Corr", 0.1), ("c", 0.05), ("Wrong", 0.2), ("yes", 0.1), ("", 0.05), ("wrongly", 0.1)]
    answer = listed_choice([(token, math.log(share)) for token, share in listed], WORDS)
    assert answer.said == "correct"
    assert answer.logprobs == pytest.approx([math.log(0.55), math.log(0.2)])


def test_a_token_that_begins_several_words_is_none_of_them() -> None:
    answer = listed_choice([("c", math.log(0.9)), ("co", math.log(0.05))], ("correct", "clear"))
    assert answer.said is None
    assert answer.logprobs == pytest.approx((math.log(0.05), math.log(0.05)))


@pytest.mark.parametrize(
    ("listed", "least"),
    [
        ([("correct", 0.6), ("yes", 0.2), ("no", 0.01)], 0.01),
        ([("correct", 0.9)], 0.1),
        ([("correct", 0.9), ("yes", 0.0999)], 0.0001),
    ],
)
def test_a_word_that_is_not_listed_is_as_likely_as_it_may_be_at_most(listed, least) -> None:
    answer = listed_choice([(token, math.log(share)) for token, share in listed], WORDS)
    assert answer.said == "correct"
    assert answer.logprobs == pytest.approx((math.log(listed[0][1]), math.log(least)), abs=1e-6)


@pytest.mark.parametrize(
    ("first", "most"),
    [("**", MAX_TOKENS), (' "', MAX_TOKENS), ("<think>", THINKING_TOKENS), ("<", THINKING_TOKENS), ("Well", 0)],
)
def test_behind_a_mark_or_a_thought_more_is_read(first: str, most: int) -> None:
    assert more_to_read([(first, -0.1), ("The", -3.0)], WORDS) == most
    assert more_to_read([(first, -0.1), ("wrong", -3.0)], WORDS) == 0


def test_what_is_not_listed_or_listed_as_impossible_has_probability_0() -> None:
    assert listed_choice([("correct", 0.0), ("wrong", -9999.0)], WORDS).logprobs == (0.0, NEVER)
    assert listed_choice([("yes", 0.0)], WORDS).logprobs == (NEVER, NEVER)


def test_listed_probabilities_that_rounding_takes_above_1_are_1() -> None:
    assert listed_choice([("correct", 0.0), ("c", -9.0)], WORDS).logprobs == (0.0, NEVER)


tokens = st.sampled_from(["correct", "Correct", " wrong", "w", "c", "co", "yes", "", " ", "\n", "wrongly", "."])
shares = st.lists(st.tuples(tokens, st.floats(0, 1)), min_size=1, max_size=20)


@given(shares)
def test_log_probabilities_are_never_above_0_nor_above_what_is_listed(listed: list[tuple[str, float]]) -> None:
    total = sum(share for _, share in listed) or 1.0
    first_tokens = [(token, math.log(share / total) if share / total else NEVER) for token, share in listed]
    answer = listed_choice(first_tokens, WORDS)
    assert answer.logprobs is not None
    assert all(logprob <= 0 for logprob in answer.logprobs)
    assert sum(math.exp(logprob) for logprob in answer.logprobs) <= 1 + 1e-9
    assert answer.said is None or max(first_tokens, key=lambda entry: entry[1])[0].strip().lower() in answer.said


# ---------------------------------------------------------------- stored and scripted

logprobs = st.one_of(st.just(NEVER), st.floats(max_value=0, allow_nan=False, allow_infinity=False))


@given(st.sampled_from([*WORDS, None]), st.one_of(st.none(), st.tuples(logprobs, logprobs)))
def test_an_answer_is_the_same_after_it_was_written_down(word: str | None, chances: tuple[float, float] | None) -> None:
    answer = WordChoice(said=word, logprobs=chances, usage=Usage(prompt_tokens=3))
    assert WordChoice.model_validate_json(answer.model_dump_json()) == answer
    assert "Infinity," not in answer.model_dump_json(), "no JSON that other readers refuse"


def test_a_script_may_say_probabilities_words_and_failures() -> None:
    written = WordChoice(said="wrong", logprobs=(-2.0, -0.1))
    model = ScriptedModel([written, "Correct.", ModelError("down"), Completion(text="hm")])
    first, second, third, fourth = choose(model, conversations("a", "b", "c", "d"), WORDS)
    assert (first, second) == (written, WordChoice(said="correct"))
    assert isinstance(third, ModelError)
    assert fourth == WordChoice(said=None)
    assert [messages[0].content for messages in model.requests] == ["a", "b", "c", "d"]


def test_a_script_of_choices_gives_no_reply() -> None:
    with pytest.raises(UsageError, match="a choice of words where a reply"):
        ScriptedModel([WordChoice(said="wrong")]).complete([], temperature=0)
