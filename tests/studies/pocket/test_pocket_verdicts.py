"""The chat about an action that the pocket model learns its verdicts from."""

from __future__ import annotations

from align_echo.agents.reasoning import Vanilla
from align_echo.critic.ask import parse_verdict
from align_echo.models import ScriptedModel
from studies.pocket.critiques import verdict_demonstration
from tests.agents.views import after


def test_only_the_verdict_is_imitated() -> None:
    view = after(("look", "look", "A door."), ("inventory", "inventory", "Nothing."))
    shown = verdict_demonstration(view, "look", "wrong", kind="alfworld.verdict")
    assert shown.kind == "alfworld.verdict"
    assert shown.weights == (0.0, 0.0, 1.0)
    assert parse_verdict(shown.messages[-1].content) == "wrong"
    conversation = Vanilla(ScriptedModel(())).conversation(view)
    assert list(shown.messages[: len(conversation)]) == conversation
