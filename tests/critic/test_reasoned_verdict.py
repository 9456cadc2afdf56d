"""The reasoning critic: two lines and no more, read back as they were written, kept with what is wrong with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.agents.parsing import plain_reply
from align_echo.agents.reasoning import Vanilla
from align_echo.critic.ask import (
    ActionQuestion,
    Critic,
    Label,
    Verdict,
    ask,
    parse_reasoned_verdict,
    reasoned_verdict_messages,
    write_reasoned_verdict,
)
from align_echo.errors import ContextOverflowError, ModelError, ReplyFormatError
from align_echo.models import ScriptedModel
from align_echo.types import Completion, Message, Tokens
from tests.agents.views import after
from tests.critic.attempts import Answering, hostile

verdicts = st.sampled_from(["correct", "wrong"])
CALL = Tokens(context_ids=(1,), sampled_ids=(2,), logprobs=(-1.0,))


def is_plain(reason: str) -> bool:
    """Whether a reason has words, and no sign that is taken off replies."""
    return bool(reason.strip()) and not plain_reply(write_reasoned_verdict(reason, "wrong")).residue


@given(st.one_of(hostile, st.text()).filter(is_plain), verdicts)
def test_what_is_written_is_read_back(reason: str, verdict: Label) -> None:
    assert parse_reasoned_verdict(write_reasoned_verdict(reason, verdict)) == (" ".join(reason.split()), verdict)


def test_invisible_signs_of_a_reason_are_taken_off():
    assert parse_reasoned_verdict(write_reasoned_verdict("a\xadb", "wrong")) == ("ab", "wrong")


@given(st.text(), st.text())
def test_a_reply_has_a_verdict_only_if_its_last_line_says_so(before: str, after_it: str) -> None:
    reply = f"{before}\nVerdict: {after_it}"
    try:
        reason, verdict = parse_reasoned_verdict(reply)
    except ReplyFormatError:
        return
    assert reply.split()[-1].strip("*.").lower() == verdict
    assert reason


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "empty"),
        ("correct", "not 1"),
        ("Verdict: correct\nReason: it helps", 'first line must begin with "Reason:"'),
        ("Reason: it helps\nVerdict: correct\nVerdict: wrong", "not 3"),
        ("Reason:\nVerdict: wrong", "no reason"),
        ("Reason: it helps\nVerdict: correct or wrong", "one word"),
        ("Reason: it helps\nVerdict: incorrect", "one word"),
        ("<think>it helps\nReason: so\nVerdict: correct", "cut off"),
    ],
)
def test_anything_else_is_no_verdict(reply: str, why: str) -> None:
    with pytest.raises(ReplyFormatError, match=why):
        parse_reasoned_verdict(reply)


@given(hostile)
def test_an_action_cannot_close_its_tag_or_add_a_line(action: str) -> None:
    [question] = reasoned_verdict_messages((), action)
    [plain] = reasoned_verdict_messages((), "look")
    assert question.content.count("<action>") == question.content.count("</action>") == 1
    assert len(question.content.split("\n")) == len(plain.content.split("\n"))


def test_the_critic_reads_what_the_agent_read_as_text_that_it_did_not_draw_itself() -> None:
    conversation = Vanilla(ScriptedModel(())).conversation(after(("look", "look", "A door.")))
    drawn = [
        message.model_copy(update={"tokens": CALL}) if message.role == "assistant" else message
        for message in conversation
    ]
    assert any(message.tokens for message in drawn)
    messages = reasoned_verdict_messages(drawn, "open door 1")
    assert messages[:-1] == conversation
    assert messages[-1].role == "user"


ASKED = [Message(role="user", content="You are in the hall.")]


def judged(model: Answering, max_tokens: int | None = None) -> Verdict:
    """The only reply of a critic that reasons once."""
    [verdict] = ask(Critic(model, votes=1, max_tokens=max_tokens), [ActionQuestion(ASKED, "look")])
    return verdict


def test_a_reply_is_kept_with_its_tokens_whether_it_can_be_read_or_not() -> None:
    read = judged(Answering(Completion(text="Reason: so\nVerdict: wrong", tokens=CALL)))
    assert (read.reason, read.label) == ("so", "wrong")
    assert (read.tokens, read.problem) == (CALL, "")
    unread = judged(Answering(Completion(text="wrong", tokens=CALL)))
    assert (unread.label, unread.tokens, unread.fault) == (None, CALL, None)
    assert "not 1" in unread.problem


def test_a_reply_that_was_cut_off_is_not_read() -> None:
    cut = Completion(text="Reason: so\nVerdict: wrong", finish_reason="length")
    unread = judged(Answering(cut), max_tokens=9)
    assert unread.label is None
    assert "cut off at 9 tokens" in unread.problem


def test_a_broken_model_is_a_fault_and_a_chat_that_is_too_long_is_none() -> None:
    broken = judged(Answering(ModelError("gone")))
    assert broken.fault is not None
    assert broken.fault.source == "model"
    long = judged(Answering(ContextOverflowError("too long")))
    assert (long.label, long.fault, long.problem) == (None, None, "too long")
