"""A language critic at work: its reply is read strictly, and what broke is told apart from what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from align_echo.critic.ask import AttemptQuestion, Critic, ask
from align_echo.critic.language import ICRL, Critique, CritiqueForm
from align_echo.errors import ContextOverflowError, ModelError, UsageError
from align_echo.types import Completion, Message, Tokens
from tests.critic.attempts import Answering, attempt

CALL = Tokens(context_ids=(1, 2), sampled_ids=(3,), logprobs=(-0.1,))
REPLY = "Mistake: You never looked.\nNext time: Look into"


def test_a_reply_in_its_form_becomes_advice() -> None:
    said = ask(Critic(Answering(Completion(text=REPLY, tokens=CALL)), form=ICRL), [AttemptQuestion(attempt())])[0]
    assert said.critique == Critique(reason="You never looked.", suggestions=("Look into",))
    assert (said.advice, said.tokens, said.problem) == ("Look into", CALL, "")


class Listening(Answering):
    """A model that keeps what it is asked, and how."""

    def __init__(self) -> None:
        super().__init__(Completion(text=REPLY, tokens=CALL))
        self.asked: list[tuple[object, float, int, int]] = []
        self._sample = -1

    def with_sample(self, sample: int) -> Listening:
        self._sample = sample
        return self

    def complete(self, messages: object, *, temperature: float, max_tokens: int = 1) -> Completion:
        self.asked.append((messages, temperature, max_tokens, self._sample))
        return super().complete(messages, temperature=temperature, max_tokens=max_tokens)


@pytest.mark.parametrize("score", [0.37, 1.0])
def test_the_critic_reads_the_attempt_as_it_went_with_its_score(score: float) -> None:
    model, lost = Listening(), attempt(("open the door", "It is locked."), score=score)
    ask(Critic(model, form=ICRL, draws_at=0.3, max_tokens=90), [AttemptQuestion(lost, 3)])
    ((messages, *how),) = model.asked
    assert how == [0.3, 90, 3]
    assert messages == ICRL.ask(lost)
    (question,) = ICRL.ask(lost)
    assert f"<score>\n{score:g}\n</score>" in question.content
    assert "It is locked." in question.content


def test_a_reply_that_was_cut_off_is_kept_and_not_read_as_advice() -> None:
    cut = Completion(text=REPLY, finish_reason="length", tokens=CALL)
    said = ask(Critic(Answering(cut), form=ICRL, max_tokens=9), [AttemptQuestion(attempt())])[0]
    assert (said.critique, said.advice, said.fault) == (None, "", None)
    assert (said.reply, said.tokens) == (REPLY, CALL)
    assert "cut off at 9 tokens" in said.problem


def test_a_broken_model_is_a_fault_and_an_attempt_that_is_too_long_is_none() -> None:
    broken = ask(Critic(Answering(ModelError("gone"))), [AttemptQuestion(attempt())])[0]
    assert broken.fault is not None
    assert broken.fault.source == "model"
    long = ask(Critic(Answering(ContextOverflowError("too long"))), [AttemptQuestion(attempt())])[0]
    assert (long.critique, long.fault, long.problem) == (None, None, "too long")


MEANT = Critique(reason="You never looked.")
ASKED = [Message(role="user", content="What went wrong?")]
USELESS: dict[str, tuple[Any, Any, str]] = {
    "asks nothing": (lambda _: [], lambda _: MEANT, "asked '[]', not a list of align_echo.types.Message"),
    "asks with a text": (lambda _: "Why?", lambda _: MEANT, "asked 'Why?', not a list of align_echo.types.Message"),
    "breaks on an attempt": (lambda _: 1 / 0, lambda _: MEANT, "broke on an attempt: ZeroDivisionError: division by"),
    "breaks on a reply": (lambda _: ASKED, lambda _: 1 / 0, "broke on a reply: ZeroDivisionError: division by zero"),
    "reads a text": (lambda _: ASKED, lambda reply: reply[:8], "read 'Mistake:', not an align_echo.Critique: of"),
}

@pytest.mark.parametrize("case", USELESS)
def test_a_form_of_ones_own_that_is_no_use_is_named_in_one_line(case: str) -> None:
    asks, reads, why = USELESS[case]
    form = CritiqueForm("coach:COACH", asks, reads)
    with pytest.raises(UsageError, match="the critic form coach:COACH ") as refusal:
        ask(Critic(Answering(Completion(text=REPLY)), form=form), [AttemptQuestion(attempt())])
    assert why in str(refusal.value)
    assert "\n" not in str(refusal.value)
