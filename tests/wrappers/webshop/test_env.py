"""The environment: gymnasium's rules, turns, scores, history, snapshots."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import align_echo
from align_echo.errors import EngineError, UsageError
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.text_env import ActionOptions
from align_echo.wrappers.webshop import make_env
from align_echo.wrappers.webshop.env import WebShopEnv
from align_echo.wrappers.webshop.spec import task_type


@pytest.fixture
def env(embedded):
    return WebShopEnv(embedded, "align_test")


def play_expert(env: WebShopEnv, task: str) -> tuple[list[str], tuple[str, float, bool, bool, dict[str, Any]]]:
    """The expert's actions, what they led to, and the last step's result."""
    observation, _ = env.reset(options={"task": task})
    lines = [observation]
    while True:
        action = str(env.oracle().expert_action())
        result = env.step(action)
        lines += [f"> {action}", result[0]]
        if result[2] or result[3]:
            return lines, result


@pytest.mark.parametrize("mode", ["text", "text_rich"])
def test_webshop_passes_gymnasiums_checker(mode):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make_env(split="test", data_root=None, step_limit=None, engine=mode), skip_render_check=True)


def test_gymnasium_makes_it_by_its_id():
    env = gymnasium.make("align_echo/WebShop-v0", split="align_test", engine="text_rich")
    observation, info = env.reset(seed=4, options={"task": "goal-7"})
    assert observation.startswith("WebShop\nInstruction:\n")
    assert info["task_id"] == "goal-7"


def test_a_purchase_ends_the_episode_with_its_score_as_the_reward(env):
    _, (_, reward, terminated, truncated, info) = play_expert(env, "goal-3")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert (info["score"], info["won"], info["admissible_actions"]) == (1.0, True, ())
    with pytest.raises(EngineError, match="over"):
        env.step("search[lamp]")


def test_a_poor_purchase_is_scored_below_one_and_not_won(env):
    env.reset(options={"task": "goal-3"})
    env.step("search[curtains]")
    env.step(env.state.admissible_actions[2])
    _, reward, terminated, _, info = env.step("click[Buy Now]")
    assert terminated
    assert reward == info["score"] < 1
    assert not info["won"]


def test_thirty_turns_end_the_episode(env):
    env.reset(options={"task": "goal-0"})
    results = [env.step("think") for _ in range(30)]
    assert [result[3] for result in results] == [False] * 29 + [True]
    assert all(result[1] == 0 for result in results)


def test_what_can_be_done_is_listed(env):
    _, info = env.reset(options={"task": "goal-0"})
    assert info["admissible_actions"] == (f"search[{info['goal']}]",)
    assert env.offered() == ActionOptions(("search[{0}]", "click[{0}]"), ("search",))
    _, _, _, _, info = env.step(info["admissible_actions"][0])
    names = env.offered().names
    assert info["admissible_actions"] == tuple(f"click[{name}]" for name in names)
    assert names[:2] == ("back to search", "next >")


def test_every_listed_action_leads_somewhere(env):
    env.reset(options={"task": "goal-1"})
    for action in ("search[dress]", "click[next >]", "click[< prev]", "FIRST", "click[features]"):
        env.step(env.state.admissible_actions[2] if action == "FIRST" else action)
        moment = env.snapshot()
        for listed in env.state.admissible_actions:
            env.step(listed)
            assert env.snapshot().engine != moment.engine, listed
            env.restore(moment)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=30) | st.sampled_from(["search[", "click[ ]", "search[]", "[]"]), max_size=4))
def test_any_text_is_an_action_and_one_that_means_nothing_changes_nothing(embedded, actions):
    env = WebShopEnv(embedded, "test", mode="text_rich")
    env.reset(options={"task": "goal-5"})
    env.step("search[red shoes]")
    before, page = env.state.observation, env.snapshot().engine
    for action in actions:
        if action.startswith(("search[", "click[")) and "]" in action:
            continue
        observation, reward, terminated, _, _ = env.step(action)
        assert (observation, reward, terminated) == (before, 0.0, False)
        assert env.snapshot().engine == page


def test_a_snapshot_brings_back_page_choices_turns_and_history(embedded):
    env = WebShopEnv(embedded, "test", num_prev_obs=3, num_prev_actions=3)
    env.reset(options={"task": "goal-3"})
    env.step(str(env.oracle().expert_action()))
    moment = env.snapshot()
    lines = [env.step(str(env.oracle().expert_action())) for _ in range(2)]
    env.reset(options={"task": "goal-9"})
    env.step("search[tea]")
    env.restore(moment)
    assert [env.step(str(env.oracle().expert_action())) for _ in range(2)] == lines


def test_earlier_observations_and_actions_come_first_the_oldest_before_the_rest(embedded):
    plain = WebShopEnv(embedded, "test")
    actions = ["search[red dress]", "click[next >]", "nothing", "click[< prev]"]
    first, _ = plain.reset(options={"task": "goal-3"})
    seen = [first, *(plain.step(action)[0] for action in actions)]
    both = WebShopEnv(embedded, "test", num_prev_obs=1, num_prev_actions=2)
    assert both.reset(options={"task": "goal-3"})[0] == first
    shown = [both.step(action)[0] for action in actions]
    assert shown[0] == " [SEP] ".join([first, actions[0], seen[1]])
    assert shown[1] == " [SEP] ".join([actions[0], seen[1], actions[1], seen[2]])
    assert shown[3] == " [SEP] ".join([actions[2], seen[3], actions[3], seen[4]])
    only_obs = WebShopEnv(embedded, "test", num_prev_obs=2)
    only_obs.reset(options={"task": "goal-3"})
    for action in actions[:1]:
        assert only_obs.step(action)[0] == " [SEP] ".join([first, seen[1]])


def test_environments_of_one_catalogue_do_not_see_each_other(embedded):
    first, two = WebShopEnv(embedded, "test"), WebShopEnv(embedded, "test")
    first.reset(options={"task": "goal-1"})
    two.reset(options={"task": "goal-2"})
    two.step("search[tea]")
    assert first.step("nothing")[0].startswith("WebShop")
    assert first.goal != two.goal


def test_wrong_arguments_are_refused_in_one_line(embedded):
    with pytest.raises(UsageError, match="text or text_rich"):
        WebShopEnv(embedded, "test", mode="html")
    with pytest.raises(UsageError, match="must not be negative"):
        WebShopEnv(embedded, "test", num_prev_obs=-1)
    with pytest.raises(UsageError, match="has no engine 'html'"):
        align_echo.make("webshop", engine="html")
    with pytest.raises(UsageError, match="in this split"):
        WebShopEnv(embedded, "align_test").reset(options={"task": "goal-50"})
    with pytest.raises(UsageError, match="reset"):
        WebShopEnv(embedded, "test").oracle()


def test_no_observation_is_called_invalid_and_the_catalogue_says_so():
    spec = environment("webshop")
    assert spec.is_invalid is None
    assert (task_type("goal-3"), task_type("synthetic-12")) == ("goal", "synthetic")


def test_what_is_only_a_look_does_not_exist(env):
    env.reset(options={"task": "goal-0"})
    with pytest.raises(UsageError, match="read-only"):
        env.probe("search[lamp]")
