"""The environment as its users see it: text, info, turns, probes, snapshots, threads."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from align_echo.errors import EngineError, UsageError
from align_echo.wrappers.alfworld import make_env
from align_echo.wrappers.alfworld.data import load_embedded
from align_echo.wrappers.alfworld.env import AlfworldEnv
from align_echo.wrappers.alfworld.spec import is_invalid

KITCHEN = next(id_ for id_ in load_embedded().ids("valid_unseen") if "pick_heat" in id_)
BATHROOM = next(id_ for id_ in load_embedded().ids("valid_unseen") if id_.split("/")[1].endswith("-424"))


def test_the_first_observation_is_the_room_and_the_task(unseen):
    observation, info = unseen.reset(options={"task": KITCHEN})
    room, task = observation.split("\n")
    assert room.startswith("You are in the middle of a room. Looking quickly around you, you see ")
    assert task == f"Your task is to: {info['goal']}"
    assert info["goal"].endswith(".")
    assert info["task_id"] == KITCHEN
    assert info["task_type"] == "pick_heat_then_place_in_recep"


def test_interface_code_is_given_the_room_and_the_task_as_published_interfaces_expect(unseen):
    observation, _ = unseen.reset(options={"task": unseen.task_ids[0]})
    room, task = unseen.opening(observation)
    assert room.startswith("You are in the middle of a room.")
    assert task.startswith("Your task is to: ")
    assert f"{room}\n{task}" == observation


def test_info_tells_nothing_of_the_solution(unseen):
    _, info = unseen.reset(options={"task": KITCHEN})
    _, _, _, _, later = unseen.step("look")
    for shown in (info, later):
        assert set(shown) == {
            "task_id", "task_type", "goal", "score", "won", "turns", "engine_calls", "raw_observation",
            "admissible_actions",
        }  # fmt: skip
        assert list(shown["admissible_actions"]) == sorted(shown["admissible_actions"])


def test_winning_ends_the_episode_with_the_full_score(unseen, expert_episode):
    expert_episode(unseen, KITCHEN)
    assert unseen.state.won
    assert unseen.state.score == 1.0
    with pytest.raises(EngineError, match="over"):
        unseen.step("look")


def test_the_last_step_pays_one_and_all_others_nothing(unseen):
    unseen.reset(options={"task": BATHROOM})
    rewards = []
    over = False
    while not over:
        _, reward, over, _, info = unseen.step(unseen.oracle().expert_action())
        rewards.append(reward)
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
    assert info["score"] == 1.0
    assert info["won"] is True


def test_the_step_limit_truncates():
    env = make_env(split="valid_unseen", data_root=None, step_limit=3)
    env.reset(options={"task": KITCHEN})
    ends = [env.step("look")[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_a_refused_action_says_nothing_happens(unseen):
    unseen.reset(options={"task": KITCHEN})
    for action in ("put mug 1 in shelf 1", "go to nowhere", "look\nlook", "LOOK", ""):
        observation, *_ = unseen.step(action)
        assert observation == "Nothing happens."
        assert is_invalid(observation)
    assert not is_invalid(unseen.step("  look ")[0])


def test_every_admissible_action_is_accepted(unseen):
    unseen.reset(options={"task": BATHROOM})
    _, _, _, _, info = unseen.step("go to toilet 1")
    moment = unseen.snapshot()
    for action in info["admissible_actions"]:
        unseen.restore(moment)
        assert not is_invalid(unseen.step(action)[0])


def test_probes_look_without_acting(unseen):
    unseen.reset(options={"task": BATHROOM})
    unseen.step("go to toilet 1")
    before = unseen.state
    assert unseen.probe("look").startswith("You are facing the toilet 1.")
    assert unseen.probe("inventory") == "You are not carrying anything."
    assert unseen.state == before
    assert unseen.info(None)["turns"] == 1
    assert unseen.info(None)["engine_calls"] == 3
    with pytest.raises(UsageError, match="read-only"):
        unseen.probe("go to toilet 1")


def follow(env: AlfworldEnv, actions: list[str]) -> list[tuple[Any, dict[str, Any]]]:
    return [(env.step(action), env.info(None)) for action in actions]


def test_a_restored_snapshot_continues_exactly(unseen, expert_episode):
    actions = [action for action, _ in expert_episode(unseen, KITCHEN)][1:]
    unseen.reset(options={"task": KITCHEN})
    half = len(actions) // 2
    follow(unseen, actions[:half])
    moment = unseen.snapshot()
    distance = unseen.oracle().distance()
    straight = follow(unseen, actions[half:])
    unseen.restore(moment)
    assert unseen.oracle().distance() == distance
    assert unseen.oracle().expert_action() == actions[half]
    assert follow(unseen, actions[half:]) == straight


def test_a_snapshot_outlives_other_tasks_and_serves_other_environments(unseen):
    unseen.reset(options={"task": KITCHEN})
    unseen.step("go to fridge 1")
    moment = unseen.snapshot()
    wanted = follow(unseen, ["open fridge 1", "look", "go to microwave 1"])
    unseen.reset(options={"task": BATHROOM})
    unseen.restore(moment)
    assert unseen.goal != ""
    assert unseen.task_type == "pick_heat_then_place_in_recep"
    assert follow(unseen, ["open fridge 1", "look", "go to microwave 1"]) == wanted
    other = AlfworldEnv(load_embedded(), "valid_unseen")
    other.restore(moment)
    assert follow(other, ["open fridge 1", "look", "go to microwave 1"]) == wanted


def test_a_task_of_another_split_is_refused(unseen):
    with pytest.raises(UsageError, match="no task"):
        unseen.reset(options={"task": load_embedded().ids("train")[0]})


FRESH = """
import os, sys
from align_echo.wrappers.alfworld import make_env
from align_echo.wrappers.alfworld.fast.engine import plan
before = list(sys.argv), sys.stdout, dict(os.environ)
env = make_env(split="valid_unseen", data_root=None, step_limit=None)
env.reset(options={"task": sys.argv[1]})
env.step("look")
env.oracle().route()
plan(env._engine.sight)
assert (list(sys.argv), sys.stdout, dict(os.environ)) == before
"""


def test_loading_leaves_the_process_as_it_was(tmp_path):
    """In a process that has loaded nothing yet: the translator overwrites sys.argv, ALFWorld sets a variable."""
    environment = {k: v for k, v in os.environ.items() if k != "ALFWORLD_DATA"} | {"ALIGN_ECHO_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FRESH, BATHROOM], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


TOGETHER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from align_echo.wrappers.alfworld import make_env

def first(task):
    env = make_env(split="valid_unseen", data_root=None, step_limit=None)
    return env.reset(options={"task": task})[0], env.step("go to sinkbasin 1")[0]

with ThreadPoolExecutor(4) as pool:
    for texts in pool.map(first, sys.argv[1:] * 4):
        print(*texts)
"""


def test_threads_may_start_at_once_in_a_fresh_process(tmp_path):
    """TextWorld's parsers and the translator are one for the process: nothing is parsed yet when all threads start."""
    environment = {**os.environ, "ALIGN_ECHO_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", TOGETHER, BATHROOM], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    texts = done.stdout.split("You are in the middle")[1:]
    assert len(texts) == 4
    assert len(set(texts)) == 1


def test_threads_do_not_disturb_each_other(expert_episode):
    tasks = [KITCHEN, BATHROOM] * 2

    def run(task: str) -> list[tuple[str, str]]:
        env = make_env(split="valid_unseen", data_root=None, step_limit=None)
        try:
            episode: list[tuple[str, str]] = expert_episode(env, task)
            return episode
        finally:
            env.close()

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, tasks))
    assert together == [run(task) for task in tasks]


def test_stepping_before_a_reset_or_after_close_is_refused():
    env = make_env(split="train", data_root=None, step_limit=None)
    with pytest.raises(UsageError, match="reset"):
        env.step("look")
    with pytest.raises(UsageError, match="reset"):
        env.oracle()
    env.reset(seed=0)
    env.close()
    with pytest.raises(EngineError, match="reset"):
        env.step("look")
    assert env.reset(seed=0)[0].startswith("You are in the middle of a room.")
    assert env.step("look")[0].startswith("You are in the middle of a room.")
    env.close()


def test_at_one_position_all_is_answered_alike_however_it_was_reached(unseen):
    unseen.reset(options={"task": KITCHEN})
    first, second = [action for action in unseen.state.admissible_actions if action.startswith("go to")][:2]
    positions, answers = [], []
    for way in ([second], [first, "no such action", second], [first]):
        unseen.reset(options={"task": KITCHEN})
        for action in way:
            unseen.step(action)
        positions.append(unseen.position())
        here = unseen.snapshot()
        answers.append([unseen.state.admissible_actions])
        for action in unseen.state.admissible_actions:
            answers[-1].append((action, unseen.step(action)[0], unseen.position()))
            unseen.restore(here)
    assert positions[0] == positions[1] != positions[2]
    assert answers[0] == answers[1]
