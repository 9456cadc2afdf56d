"""The intuitive critic: the agent's own conversation with one question more, and one word for an answer."""

from __future__ import annotations

import pytest
from hypothesis import given

from align_echo.agents.reasoning import Vanilla
from align_echo.critic.ask import parse_verdict, verdict_messages
from align_echo.errors import ReplyFormatError
from align_echo.models import ScriptedModel
from tests.agents.views import after
from tests.critic.attempts import hostile


def test_the_agents_conversation_comes_first_and_unchanged() -> None:
    conversation = Vanilla(ScriptedModel(())).conversation(after(("look", "look", "A door.")))
    asked = verdict_messages(conversation, "open door 1")
    assert asked[:-1] == conversation
    assert asked[-1].role == "user"
    assert "<action>open door 1</action>" in asked[-1].content


@given(hostile)
def test_an_action_cannot_close_its_tag_or_add_a_line(action: str) -> None:
    [question] = verdict_messages((), action)
    [plain] = verdict_messages((), "look")
    assert question.content.count("<action>") == question.content.count("</action>") == 1
    assert len(question.content.split("\n")) == len(plain.content.split("\n"))


@pytest.mark.parametrize(
    ("reply", "verdict"), [("correct", "correct"), (" Wrong.\n", "wrong"), ("CORRECT", "correct"), ("wrong", "wrong")]
)
def test_a_verdict_is_one_word(reply: str, verdict: str) -> None:
    assert parse_verdict(reply) == verdict


@pytest.mark.parametrize("reply", ["", "incorrect", "correct or wrong", "It is correct", "correct wrong", "yes"])
def test_anything_else_is_no_verdict(reply: str) -> None:
    with pytest.raises(ReplyFormatError, match="one word correct or wrong"):
        parse_verdict(reply)
