"""The public names and what each promises. A change here is a change for every user."""

from __future__ import annotations

import inspect

import gymnasium
import pytest

import align_echo
import align_echo.wrappers
from align_echo.errors import UsageError
from align_echo.interface.contract import Interface, identity
from align_echo.types import Step
from align_echo.wrappers.catalogue import environment


def parameters(function: object) -> dict[str, inspect.Parameter]:
    assert callable(function)
    return dict(inspect.signature(function).parameters)


@pytest.fixture(scope="module")
def env():
    env = align_echo.make("alfworld", split="valid_unseen", interface="none", data_root=None)
    yield env
    env.close()


@pytest.fixture(scope="module")
def task() -> str:
    return align_echo.tasks("alfworld", split="valid_unseen", data_root=None)[0]


def test_make_and_tasks_take_what_they_always_took():
    given = parameters(align_echo.make)
    assert next(iter(given)) == "env_id"
    for name in ("split", "interface", "data_root"):
        assert given[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert given[name].default is None
    given = parameters(align_echo.tasks)
    assert list(given)[:3] == ["env_id", "split", "data_root"]


def test_tasks_are_stable_names(task):
    again = align_echo.tasks("alfworld", split="valid_unseen")
    assert again[0] == task
    assert again == sorted(set(again))
    assert all(isinstance(name, str) for name in again)


def test_reset_to_a_task_and_step(env, task):
    observation, info = env.reset(options={"task": task})
    assert isinstance(observation, str)
    assert info["task_id"] == task
    observation, reward, terminated, truncated, info = env.step("look")
    assert isinstance(observation, str)
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["raw_observation"] == observation


def test_gymnasium_knows_the_environment_once_align_echo_is_imported(task):
    env = gymnasium.make("align_echo/ALFWorld-v0", split="valid_unseen")
    assert env.reset(options={"task": task})[1]["task_id"] == task
    env.close()


def test_load_interface_takes_a_path_and_the_wrapper_takes_the_interface(env, task, tmp_path):
    contract = environment("alfworld").contract
    path = tmp_path / "mine.py"
    path.write_text(identity(contract).source)
    interface = align_echo.load_interface(path, contract)
    assert isinstance(interface, Interface)
    assert next(iter(parameters(align_echo.load_interface))) == "name_or_path"
    wrapped = align_echo.wrappers.AlignWrapper(env, interface)
    wrapped.reset(options={"task": task})
    assert wrapped.step("look")[4]["raw_observation"]


def test_make_takes_an_interface_by_path(task, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(identity(environment("alfworld").contract).source)
    env = align_echo.make("alfworld", split="valid_unseen", interface=path)
    assert isinstance(env, align_echo.wrappers.AlignWrapper)
    env.close()


def trajectory(task: str, *actions: str) -> align_echo.Trajectory:
    return align_echo.Trajectory(
        environment="alfworld",
        split="valid_unseen",
        task_id=task,
        agent="me",
        goal="",
        initial_observation="",
        steps=tuple(Step(reply=a, action=a, observation="All good!", raw_observation=None) for a in actions),
    )


def test_the_invalid_action_metric_replays_a_list_of_trajectories(task):
    played = [trajectory(task, "fly", "fly", "look", "fly"), trajectory(task, "look", "inventory", "look", "look")]
    assert align_echo.consecutive_invalid_share(played) == 25.0
    with pytest.raises(UsageError, match="no turn was played"):
        align_echo.consecutive_invalid_share([])


def test_the_metric_names_a_task_it_does_not_know():
    with pytest.raises(UsageError):
        align_echo.consecutive_invalid_share([trajectory("valid_unseen/no-such/trial", "look")])


def test_all_names_are_there():
    for name in align_echo.__all__:
        assert getattr(align_echo, name) is not None
