"""A language critic at work: its reply is read strictly, and what broke is told apart from what cannot be read."""

from __future__ import annotations

from align_echo.critic.language import ICRL, Critique
from align_echo.critic.review import review
from align_echo.errors import ContextOverflowError, ModelError
from align_echo.types import Completion, Tokens
from tests.critic.attempts import Answering, attempt

CALL = Tokens(context_ids=(1, 2), sampled_ids=(3,), logprobs=(-0.1,))
REPLY = "Mistake: You never looked.\nNext time: Look into"


def test_a_reply_in_its_form_becomes_advice() -> None:
    said = review(Answering(Completion(text=REPLY, tokens=CALL)), attempt(), ICRL)
    assert said.critique == Critique(reason="You never looked.", suggestions=("Look into",))
    assert (said.advice, said.tokens, said.problem) == ("Look into", CALL, "")


def test_a_reply_that_was_cut_off_is_kept_and_not_read_as_advice() -> None:
    cut = Completion(text=REPLY, finish_reason="length", tokens=CALL)
    said = review(Answering(cut), attempt(), ICRL, max_tokens=9)
    assert (said.critique, said.advice, said.fault) == (None, "", None)
    assert (said.reply, said.tokens) == (REPLY, CALL)
    assert "cut off at 9 tokens" in said.problem


def test_a_broken_model_is_a_fault_and_an_attempt_that_is_too_long_is_none() -> None:
    broken = review(Answering(ModelError("gone")), attempt())
    assert broken.fault is not None
    assert broken.fault.source == "model"
    long = review(Answering(ContextOverflowError("too long")), attempt())
    assert (long.critique, long.fault, long.problem) == (None, None, "too long")
