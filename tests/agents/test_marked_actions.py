r"""Action formats that mark the action by a command (`\boxed{answer}`): it is read from anywhere in a reply."""

from __future__ import annotations

import pytest

from align_echo.agents.parsing import parse_action, parse_reasoned_action
from align_echo.errors import ReplyFormatError
from tests.agents.views import VIEW

BOXED = VIEW.model_copy(update={"action_format": r"One answer, as \boxed{answer}, and nothing after it."})

READ = [
    (r"\boxed{5}", r"\boxed{5}"),
    (r"So the sum is $\boxed{5}$.", r"\boxed{5}"),
    ("We have\n2x = 10\nx = 5\n\nTherefore, the answer is\n$$\n\\boxed{5}\n$$\nas claimed", r"\boxed{5}"),
    ("Thought: halve ten.\nAction: \\boxed{\\frac{10}{2}}", r"\boxed{\frac{10}{2}}"),
    (r"<action>\boxed{5}</action>", r"\boxed{5}"),
    (r'{"thought": "half", "action": "\\boxed{5}"}', r"\boxed{5}"),
    ("\\boxed{5}\nAgain: \\boxed{ 5 }", r"\boxed{5}"),
    ("I put it as \\boxed{answer}:\n\\boxed{5}", r"\boxed{5}"),
    ("Observation: ten is even.\nSo \\boxed{5}\nObservation: right!", r"\boxed{5}"),
    ("We note this.\nObservation: ten is even.\nSo \\boxed{5}", r"\boxed{5}"),
    ("<think>\\boxed{4}? no</think>\n\\boxed{5}", r"\boxed{5}"),
    ("\\boxed{(1,\n2)}", r"\boxed{(1, 2)}"),
]


@pytest.mark.parametrize("read", [parse_action, parse_reasoned_action])
@pytest.mark.parametrize(("reply", "action"), READ)
def test_what_the_command_marks_is_the_action_whatever_stands_around_it(read, reply, action):
    assert read(reply, BOXED) == action


@pytest.mark.parametrize("read", [parse_action, parse_reasoned_action])
def test_two_that_differ_are_not_chosen_between(read):
    with pytest.raises(ReplyFormatError, match=r"2 different \\boxed"):
        read("Either \\boxed{5}\nor \\boxed{6}.", BOXED)


@pytest.mark.parametrize("reply", ["x = 5\nand so on", "\\boxed{5\nnever closed"])
def test_several_lines_without_the_command_hold_no_action(reply):
    with pytest.raises(ReplyFormatError):
        parse_action(reply, BOXED)


def test_a_format_without_a_command_marks_nothing():
    with pytest.raises(ReplyFormatError):
        parse_action("We have\n\\boxed{5}\nhere", VIEW)
    listed = VIEW.model_copy(update={"action_format": r"look | say \boxed{words}"})
    with pytest.raises(ReplyFormatError):
        parse_action("We have\n2x = 10\nthe \\boxed{5}", listed)
