"""Many environments at once, and the choice of the engine."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
import pytest

import align_echo
from align_echo.errors import UsageError
from align_echo.wrappers.text_env import TextEnv

SPLIT = "valid_unseen"


def test_each_of_many_plays_a_task_of_its_own_as_it_would_alone():
    many = align_echo.make_vec("alfworld", n=4, split=SPLIT)
    observations, infos = many.reset(seed=7)
    assert len(set(infos["task_id"])) > 1
    alone = [align_echo.make("alfworld", split=SPLIT) for _ in range(4)]
    for i, env in enumerate(alone):
        observation, info = env.reset(seed=7 + i)
        assert (observations[i], infos["task_id"][i]) == (observation, info["task_id"])
    for actions in (("look", "inventory", "help", "Look"), ("go to nowhere 1", "look", "look", "inventory")):
        observations, rewards, terminated, truncated, _ = many.step(actions)
        for i, env in enumerate(alone):
            assert env.step(actions[i])[:4] == (observations[i], rewards[i], terminated[i], truncated[i])
    many.close()


def test_gymnasiums_processes_play_the_same():
    make = functools.partial(align_echo.make, "alfworld", split=SPLIT)
    processes = gym.vector.AsyncVectorEnv([make, make], shared_memory=False)
    envs = align_echo.make_vec("alfworld", n=2, split=SPLIT)
    assert processes.reset(seed=3)[0] == envs.reset(seed=3)[0]
    assert processes.step(("look", "inventory"))[0] == envs.step(("look", "inventory"))[0]
    processes.close()
    envs.close()


@pytest.mark.long
def test_the_reference_engine_plays_the_same_episode():
    task = next(task for task in align_echo.tasks("alfworld", split=SPLIT) if task.split("/")[1].endswith("-424"))
    results: list[list[Any]] = []
    for engine in ("fast", "textworld"):
        env = align_echo.make("alfworld", split=SPLIT, engine=engine)
        base = env.unwrapped
        assert isinstance(base, TextEnv)
        lines: list[Any] = [env.reset(options={"task": task})]
        for _ in range(3):
            action = base.oracle().expert_action() or ""
            lines.append((base.probe("inventory"), env.step(action)))
        moment = base.snapshot()
        lines.append(env.step("look"))
        base.restore(moment)
        lines.append(env.step("inventory"))
        results.append(lines)
        env.close()
    assert results[0] == results[1]


def test_an_unknown_engine_is_refused_in_one_line():
    with pytest.raises(UsageError, match="has no engine 'slow'; it has fast, textworld") as caught:
        align_echo.make("alfworld", engine="slow")
    assert "\n" not in str(caught.value)


def test_no_environments_are_refused():
    with pytest.raises(UsageError, match="at least 1"):
        align_echo.make_vec("alfworld", n=0)
