"""Replies where an environment's own forms begin with labels: the label is part of the action, and all stays whole."""

from __future__ import annotations

import pytest

from align_echo.agents.parsing import labels_in, parse_action, parse_reasoned_action
from align_echo.errors import ReplyFormatError
from align_echo.types import AgentView

FORMAT = "Call a tool or answer:\nAction: {call} End Action | Answer: {answer}"
VIEW = AgentView(task_id="t", action_format=FORMAT, goal="g", rules="", initial_observation="o")
LOOK = "Action: view End Action"


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        (LOOK, LOOK),
        (f"Thought: I look, then act.\n{LOOK}", LOOK),
        (f"I look. {LOOK}", LOOK),
        ("Action:\nview\nEnd Action", LOOK),
        ("**Action:** view End Action", LOOK),
        ("### **Action**: view End Action", LOOK),
        (f"```\n{LOOK}\n```", LOOK),
        (f"<action>{LOOK}</action>", LOOK),
        (f"Action: {LOOK}", LOOK),
        (f"<think>Answer: 1</think>\n{LOOK}", LOOK),
        (f"{LOOK}\nObservation: a page\nAnswer: 3", LOOK),
        ("Action: Answer: 5", "Answer: 5"),
        ("So it is.\n**Answer: 5**", "Answer: 5"),
        ("Answer: **5**", "Answer: 5"),
        ("Answer: [1,\n2]", "Answer: [1, 2]"),
        ("Action: calculator, 2 ** 3 End Action", "Action: calculator, 2 ** 3 End Action"),
        (f"{LOOK}\nAnswer: 3", f"{LOOK} Answer: 3"),
        (f"{LOOK}\n{LOOK}", f"{LOOK} {LOOK}"),
    ],
)
def test_a_reply_is_passed_on_from_its_first_label(reply, action):
    assert parse_action(reply, VIEW) == action
    assert parse_reasoned_action(reply, VIEW) == action


def test_a_reply_without_a_label_is_read_as_anywhere():
    assert parse_action("view", VIEW) == "view"
    with pytest.raises(ReplyFormatError, match="lines and none begins with 'Action:'"):
        parse_action("I look.\nThen I act.", VIEW)


def test_other_formats_have_no_labels_of_their_own():
    assert labels_in(FORMAT) == ("Action:", "Answer:")
    assert labels_in("look | Answer: {answer}") == ()
    assert labels_in("") == ()
    plain = VIEW.model_copy(update={"action_format": "look | go to {room}"})
    assert parse_action("Action: look", plain) == "look"
