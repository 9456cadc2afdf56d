"""The environment as its users see it: text, score, turns, probes, snapshots."""

from __future__ import annotations

import warnings

import pytest
from gymnasium.utils.env_checker import check_env

import align_echo
from align_echo.errors import EngineError, UsageError
from align_echo.wrappers.scienceworld import make_env
from align_echo.wrappers.scienceworld.env import ScienceWorldEnv
from align_echo.wrappers.scienceworld.spec import CONTRACT, is_invalid, task_type
from tests.wrappers.scienceworld.conftest import needs_engine, play_gold

pytestmark = needs_engine

BOIL = "boil/easy/21"
FIND = "find-non-living-thing/easy/225"
LIFE = "lifespan-longest-lived/easy/93"


def test_an_episode_starts_with_a_look_around_and_the_task_as_goal(env):
    observation, info = env.reset(options={"task": BOIL})
    assert observation.startswith("This room is called the ")
    assert info["goal"].startswith("Your task is to boil lead.")
    assert (info["task_type"], info["raw_score"], info["turns"]) == ("boil", 0.0, 0)
    assert task_type(BOIL) == "boil"
    assert "admissible_actions" not in info


def test_a_simplification_is_the_engines(env):
    env.reset(options={"task": "boil/none/21"})
    assert is_invalid(env.step("teleport to kitchen")[0])
    env.reset(options={"task": "boil/teleportAction/21"})
    assert env.step("teleport to kitchen")[0] == "You teleport to the kitchen."


def test_a_wrong_focus_ends_the_episode_with_minus_100_and_score_0(env):
    env.reset(options={"task": LIFE})
    env.step("look around")
    before = env.state.score
    _, reward, terminated, truncated, info = env.step("focus on air")
    assert (terminated, truncated) == (True, False)
    assert (info["raw_score"], info["score"], info["won"]) == (-100.0, 0.0, False)
    assert reward == -before
    with pytest.raises(EngineError, match="over"):
        env.step("look around")


@pytest.mark.long
def test_rewards_add_up_to_the_score_that_was_gained(env):
    env.reset(options={"task": FIND})
    start = env.state.score
    rewards = []
    while not env.state.done:
        rewards.append(env.step(env.oracle().expert_action())[1])
    assert sum(rewards) == pytest.approx(1.0 - start)


def test_the_step_limit_truncates():
    env = make_env(split="align_test", data_root=None, step_limit=3)
    env.reset(options={"task": BOIL})
    assert [env.step(action)[2:4] for action in ("look around", "nonsense", "inventory")] == [
        (False, False), (False, False), (False, True)
    ]  # fmt: skip
    env.close()


@pytest.mark.parametrize("action", ["", "xyzzy", "open the moon", "open\nfridge", "naïve \ud800", "look " * 20000])
def test_nothing_that_is_said_breaks_it(env, action):
    env.reset(options={"task": BOIL})
    observation, *_ = env.step(action)
    assert is_invalid(observation)
    assert not is_invalid(env.step("look around")[0])


def test_only_the_one_refusal_counts_as_invalid(env):
    env.reset(options={"task": BOIL})
    observation, *_ = env.step("pick up substance")
    assert observation.startswith("Ambiguous request")
    assert not is_invalid(observation)
    observation, *_ = env.step("look around")
    assert observation.startswith("Unknown action.")
    assert not is_invalid(observation)


def test_looks_take_no_move_and_leave_a_question_open(env):
    env.reset(options={"task": BOIL})
    question, *_ = env.step("pick up substance")
    before = env.state
    assert env.probe("look around").startswith("This room is called the bathroom.")
    assert env.probe("inventory").startswith("In your inventory, you see:")
    assert env.goal in env.probe("task")
    assert env.state == before
    assert env.info(None)["turns"] == 1
    answer, *_ = env.step("1")
    assert "0:" in question
    assert not answer.startswith(("Unknown action", "No known action"))
    with pytest.raises(UsageError, match="read-only"):
        env.probe("open door to kitchen")


def test_what_is_offered_are_forms_of_play_and_names(env):
    env.reset(options={"task": BOIL})
    offered = env.offered()
    assert {"move {0} to {1}", "focus on {0}", "wait1", *CONTRACT.read_only_actions} <= set(offered.templates)
    assert "reset task" not in offered.templates
    assert "sink" in offered.names
    assert offered == env.offered()
    assert not is_invalid(env.step("look at sink")[0])


@pytest.mark.long
def test_the_oracle_follows_the_gold_path_and_says_when_it_was_left(env):
    play_gold(env, LIFE)
    assert (env.oracle().expert_action(), env.oracle().distance()) == (None, 0)
    env.reset(options={"task": LIFE})
    length = env.oracle().distance()
    env.step(env.oracle().expert_action())
    assert env.oracle().distance() == length - 1
    env.step("wait1")
    assert (env.oracle().expert_action(), env.oracle().distance()) == (None, None)


@pytest.mark.long
def test_the_same_actions_tell_the_same_story_in_another_process_of_java():
    actions = ["look around", "teleport to kitchen", "look around", "open cupboard", "pick up substance", "0", "wait"]
    actions += ["teleport to outside", "look around", "wait", "look around", "go to foundry", "pick up door"]
    stories = []
    for _ in range(2):
        env = ScienceWorldEnv("align_test")
        env.reset(options={"task": "find-animal/easy/225"})
        stories.append([env.step(action)[:4] for action in actions])
        env._simulator.close()
        env.close()
    assert stories[0] == stories[1]


@pytest.mark.long
def test_a_restored_moment_continues_as_it_did(env):
    env.reset(options={"task": BOIL})
    for action in ("go to kitchen", "xyzzy", "open cupboard", "pick up thermometer"):
        env.step(action)
    moment, looks = env.snapshot(), env.probe("look around")
    more = ("move thermometer to sink", "activate sink", "look around", "pick up substance", "0")
    straight = [env.step(action)[:4] for action in more]
    env.restore(moment)
    assert env.probe("look around") == looks
    assert env.state == moment.state
    assert [env.step(action)[:4] for action in more] == straight
    env.reset(options={"task": LIFE})
    env.restore(moment)
    assert env.task_type == "boil"
    assert [env.step(action)[:4] for action in more] == straight
    other = ScienceWorldEnv("align_test")
    other.restore(moment)
    assert [other.step(action)[:4] for action in more] == straight
    other.close()


def test_a_refused_action_is_undone_without_playing_again(env, monkeypatch):
    env.reset(options={"task": BOIL})
    env.step("go to kitchen")
    moment = env.snapshot()
    env.step("xyzzy")
    monkeypatch.setattr(env._simulator, "step", None)
    env.restore(moment)
    assert env.oracle()._history == ("go to kitchen",)


def test_an_unknown_task_is_refused_and_the_next_reset_works(env):
    env.reset(options={"task": BOIL})
    with pytest.raises(UsageError, match="no task"):
        env.reset(options={"task": "boil-water"})
    env.reset(options={"task": BOIL})
    assert env.step("look around")[0].startswith("This room")


@pytest.mark.long
def test_gymnasiums_checker_passes():
    env = make_env(split="dev", data_root=None, step_limit=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)
    env.close()


def test_it_has_one_engine_and_no_data(tmp_path):
    with pytest.raises(UsageError, match="only one"):
        align_echo.make("scienceworld", split="dev", engine="fast")
    with pytest.raises(UsageError, match="no data"):
        make_env(split="dev", data_root=tmp_path, step_limit=None)
