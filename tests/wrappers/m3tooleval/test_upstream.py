"""Upstream's own tasks, from a folder in the layout of its checkout."""

from __future__ import annotations

import pytest

import align_echo
from align_echo.errors import MissingDataError
from align_echo.rollout.session import base_env
from tests.conformance.subjects import play, start
from tests.wrappers.m3tooleval.upstream_package import write_package


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_package(tmp_path_factory.mktemp("upstream"))


@pytest.fixture
def env(root):
    return base_env(align_echo.make("m3tooleval", split="test", data_root=root))


def test_two_tasks_of_each_family_are_for_training_and_the_rest_for_tests(root, capsys):
    training = align_echo.tasks("m3tooleval", split="train", data_root=root)
    assert training == [
        "message_decoder/double_4",
        "message_decoder/double_5",
        *(f"web_browsing/click_{n}" for n in (4, 5)),
    ]
    assert align_echo.tasks("m3tooleval", split="align_train", data_root=root) == training
    rest = [f"message_decoder/double_{n}" for n in (0, 1, 2, 3, 6, 7)]
    rest += [f"web_browsing/click_{n}" for n in (0, 1, 2, 3, 6)]
    assert align_echo.tasks("m3tooleval", split="test", data_root=root) == rest
    assert capsys.readouterr().out == ""


def test_tools_run_with_arguments_read_as_numbers(env):
    observation, info = start(env, "message_decoder/double_2")
    assert "double(x)" in observation
    assert info["goal"] == "Double 2."
    assert play(env, ["Action: double, 21 End Action"])[0].observation == "42"
    assert play(env, ["Action: double, ab End Action"])[0].observation == "abab"
    assert play(env, ["Answer: 4.125"])[0][3:] == (True, False, 1.0)


def test_the_calculator_is_not_upstreams_which_runs_python(env):
    start(env, "message_decoder/double_2")
    (step,) = play(env, ["Action: calculator, __import__('os').getpid() End Action"])
    assert step.observation.startswith("The call failed")
    assert play(env, ["Action: calculator, 2 ** 10 End Action"])[0].observation == "1024"


def test_a_tool_with_a_state_begins_anew_in_each_episode_and_can_be_come_back_to(env):
    click = ["Action: click End Action"]
    for _ in range(2):
        start(env, "web_browsing/click_2")
        assert play(env, click)[0].observation == "clicked 1 times"
    moment = env.snapshot()
    assert play(env, click * 3)[-1].observation == "clicked 4 times"
    env.restore(moment)
    assert play(env, click)[0].observation == "clicked 2 times"


def test_calls_that_failed_and_values_of_json_are_come_back_to_as_well(root):
    env = base_env(align_echo.make("m3tooleval", split="test", data_root=root, engine="json"))
    click, broken, of_a_list = (
        f'Action: {{"tool": "click", "args": {args}}} End Action' for args in ("[]", "[1]", "[[1]]")
    )
    start(env, "web_browsing/click_2")
    play(env, [broken, of_a_list])
    moment = env.snapshot()
    start(env, "message_decoder/double_2")
    env.restore(moment)
    assert play(env, [click])[0].observation == "clicked 3 times"


def test_no_way_is_known_to_upstreams_tasks(env):
    start(env, "web_browsing/click_2")
    assert (env.oracle().expert_action(), env.oracle().distance()) == (None, None)


def test_a_folder_without_tasks_is_refused_in_one_line(tmp_path):
    with pytest.raises(MissingDataError, match=r"holds no tasks of M3ToolEval: .* tasks/base\.py") as refusal:
        align_echo.tasks("m3tooleval", data_root=tmp_path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("init", "reason"),
    [("import nothing_of_this_name\n", "No module named 'nothing_of_this_name'"), ("raise SystemExit('off')\n", "off")],
)
def test_a_package_that_does_not_load_is_told_in_one_line(tmp_path, init, reason):
    with pytest.raises(MissingDataError, match="do not load: ") as refusal:
        align_echo.tasks("m3tooleval", data_root=write_package(tmp_path, init=init))
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)
