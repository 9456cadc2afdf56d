"""Interface code under M3ToolEval's contract: what it is told, which calls it may make, what the sandbox refuses."""

from __future__ import annotations

import pytest

import align_echo
from align_echo.errors import InterfaceError
from align_echo.wrappers.catalogue import environment
from tests.play import interface

CONTRACT = environment("m3tooleval").contract
RULES = """
def InferRules(task_name, task_type_idx):
    return f"{task_name} is of family {task_type_idx + 0}"
"""
STEP = (
    RULES
    + """
def WrapStep(env, task_name, instruction, agent_action, logger):
"""
)


def wrapped(source: str):
    return align_echo.make("m3tooleval", split="test", interface=interface(source, CONTRACT))


def test_interface_code_is_told_the_tasks_name_its_familys_index_and_the_instruction():
    env = wrapped(STEP + "    return f'{task_name}: {instruction}', 0.0, False\n")
    for task, index in (("message_decoder/test-3", 0), ("web_browsing/test-3", 4)):
        observation, info = env.reset(options={"task": task})
        assert observation.startswith(f"{task} is of family {index}\n\nYou have these tools:")
        assert env.step("Answer: 1")[0] == f"{task}: {info['goal']}"
    env.close()


def test_a_call_may_be_spelled_anew_if_it_is_read_as_the_same():
    env = wrapped(STEP + "    return env.step(' '.join(agent_action.split()).replace(' ,', ','))\n")
    env.reset(options={"task": "message_decoder/test-0"})
    observation, _, _, _, info = env.step("Action:  caesar_decode , abc,1   End Action")
    assert (observation, info["violations"]) == ("zab", ())
    env.close()


def test_another_call_than_the_agents_own_is_refused_and_told():
    env = wrapped(STEP + "    return env.step(agent_action.replace('()', ''))\n")
    env.reset(options={"task": "web_browsing/test-0"})
    _, _, _, _, info = env.step("Action: scroll_down() End Action")
    assert [violation.action for violation in info["violations"]] == ["Action: scroll_down End Action"]
    assert info["raw_observation"].startswith("There is no tool named 'scroll_down()'")
    env.close()


def test_a_look_at_the_page_takes_no_turn_and_changes_nothing():
    looks = "    seen = env.step('Action: view End Action')[0]\n    obs, reward, done = env.step(agent_action)\n"
    env = wrapped(STEP + looks + "    return f'{seen}||{obs}', reward, done\n")
    env.reset(options={"task": "web_browsing/test-0"})
    observation, _, _, _, info = env.step("Action: click_url, /goods End Action")
    seen, shown = observation.split("||")
    assert seen.startswith("[page /, part 1 of 2]")
    assert shown == info["raw_observation"]
    assert shown.startswith("[page /goods, ")
    assert (info["turns"], info["engine_calls"]) == (1, 2)
    env.close()


def test_an_answer_cannot_be_kept_from_the_end_nor_called_right():
    env = wrapped(STEP + "    obs, reward, done = env.step(agent_action)\n    return 'Right!', 1.0, False\n")
    env.reset(options={"task": "web_browsing/test-0"})
    _, reward, terminated, _, info = env.step("Answer: 0")
    assert (reward, terminated, info["forged"]) == (0.0, True, ("reward",))
    env.close()


def test_a_property_is_read_as_one():
    notes = "class Notes:\n    @property\n    def size(self):\n        return 7\n"
    body = "    obs, reward, done = env.step(agent_action)\n    return f'{Notes().size}', reward, done\n"
    env = wrapped(notes + STEP + body)
    env.reset(options={"task": "message_decoder/test-0"})
    assert env.step("Answer: 1")[0] == "7"
    env.close()


def test_a_setter_is_refused_with_its_line_and_what_to_write_instead():
    notes = "class Notes:\n    @size.setter\n    def size(self, value):\n        pass\n"
    with pytest.raises(InterfaceError, match=r"line 2: the sandbox cannot run `@size.setter` on a method; "):
        wrapped(notes + STEP + "    return env.step(agent_action)\n")
