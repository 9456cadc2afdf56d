"""Episodes: what gymnasium asks, ends, scores, refused actions, coming back to a moment, the identity interface."""

from __future__ import annotations

import warnings
from typing import NotRequired, get_origin, get_type_hints

import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import align_echo
from align_echo.errors import EngineError, UsageError
from align_echo.evaluate.plan import pick_tasks
from align_echo.interface.contract import identity
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import StepInfo
from tests.conformance.subjects import (
    ENDLESS,
    NONSENSE,
    actions_of,
    frozen,
    frozen_tasks,
    looks,
    play,
    play_expert,
    raw,
    sample,
    start,
    with_expert,
)

MANY = 500
OF_ONE_TYPE = 300
"""Splits of more than MANY tasks are sampled: one task of each type, or so many where all are of one type."""


@pytest.fixture
def wrapped(spec):
    made = align_echo.make(spec.name, split=spec.test_split, interface=identity(spec.contract))
    yield made
    made.close()


# ---------------------------------------------------------------- the same text for ever


def test_frozen_episodes_read_as_recorded(spec, env):
    episodes = frozen(spec)
    assert len(episodes) >= 3
    for episode in episodes:
        observation, info = start(env, episode["task"])
        assert info["goal"] == episode["goal"]
        assert observation == episode["observation"]
        assert play(env, actions_of(episode["steps"])) == episode["steps"]


@pytest.mark.long
def test_the_identity_interface_changes_nothing(spec, env, wrapped):
    for episode in frozen(spec):
        actions = actions_of(episode["steps"])
        observation, steps = start(env, episode["task"])[0], play(env, actions)
        shown, info = start(wrapped, episode["task"])
        assert (shown, info["rules"]) == (observation, "")
        assert play(wrapped, actions) == steps


# ---------------------------------------------------------------- gymnasium


def test_the_raw_environment_passes_gymnasiums_checker(spec):
    env = raw(spec, step_limit=limit_for_checker(spec))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)
    env.close()


def test_the_wrapped_environment_passes_gymnasiums_checker(spec):
    limit = limit_for_checker(spec)
    env = align_echo.make(spec.name, split=spec.test_split, interface=identity(spec.contract), step_limit=limit)
    check_env(env, skip_render_check=True)
    env.close()


def limit_for_checker(spec: EnvironmentSpec) -> int:
    """The environment's own step limit, and two turns where it has one: the checker takes a truncated first step for a
    broken environment."""
    return max(spec.step_limit, 2)


def test_info_holds_the_documented_keys_and_no_others(spec, env):
    hints = get_type_hints(StepInfo, include_extras=True)
    required = {key for key, hint in hints.items() if get_origin(hint) is not NotRequired}
    _, info = start(env, sample(spec, 1)[0])
    for later in (info, env.step("xyzzy")[4]):
        assert required <= set(later) <= set(hints)
        assert 0.0 <= later["score"] <= 1.0


# ---------------------------------------------------------------- ends and scores


@pytest.mark.long
def test_the_expert_scores_1_and_rewards_add_up_to_the_score(spec):
    env = raw(spec, step_limit=ENDLESS)
    for task in frozen_tasks(spec):
        at_first = start(env, task)[1]["score"]
        steps = play_expert(env, task)
        assert (steps[-1].score, steps[-1].terminated, steps[-1].truncated) == (1.0, True, False), task
        assert at_first + sum(step.reward for step in steps) == pytest.approx(1.0)
        assert not any(step.terminated or step.truncated for step in steps[:-1])
    env.close()


@pytest.mark.slow
def test_the_expert_scores_1_on_every_task_that_has_one(spec):
    lost = []
    for split in spec.splits:
        ids = with_expert(spec, split)
        assert ids
        if len(ids) > MANY:
            types = len({spec.task_type(task) for task in ids})
            ids = pick_tasks(ids, types if types > 1 else OF_ONE_TYPE, task_type=spec.task_type)
        env = raw(spec, split=split, step_limit=ENDLESS)
        lost += [task for task in ids if play_expert(env, task)[-1].score != 1.0]
        env.close()
    assert lost == []


@pytest.mark.slow
def test_where_there_is_no_expert_the_oracle_knows_no_action(spec):
    ids = [task for task in sample(spec, 30) if not spec.has_expert(task)]
    env = raw(spec)
    for task in ids:
        start(env, task)
        assert (env.oracle().expert_action(), env.oracle().distance()) == (None, None)
    env.close()


def test_the_step_limit_truncates_and_does_not_terminate(spec):
    env = raw(spec, step_limit=3)
    start(env, sample(spec, 1)[0])
    steps = play(env, ["xyzzy"] * 5)
    assert [(step.terminated, step.truncated) for step in steps] == [(False, False), (False, False), (False, True)]
    env.close()


def test_a_win_on_the_last_allowed_step_terminates_and_does_not_truncate(spec, env):
    episode = frozen(spec)[0]
    actions = actions_of(episode["steps"])
    short = raw(spec, step_limit=len(actions))
    start(short, episode["task"])
    assert play(short, actions)[-1][3:] == (True, False, 1.0)
    with pytest.raises(EngineError, match="over"):
        short.step(actions[0])
    short.close()


def test_a_step_before_a_reset_is_refused(spec):
    env = raw(spec)
    with pytest.raises(UsageError, match="reset"):
        env.step("xyzzy")
    env.close()


# ---------------------------------------------------------------- what must change nothing


@pytest.mark.long
def test_an_action_that_no_engine_knows_changes_nothing(spec):
    env = raw(spec, step_limit=ENDLESS)
    for task in frozen_tasks(spec)[:2]:
        gold = play_expert(env, task)
        half = len(gold) // 2
        start(env, task)
        play(env, actions_of(gold[:half]))
        before, goal, seen = env.info(None)["score"], env.goal, looks(env)
        for refused in play(env, NONSENSE):
            assert (refused.reward, refused.score, refused.terminated) == (0.0, before, False)
        assert env.goal == goal
        assert looks(env) == seen
        rest = play(env, actions_of(gold[half:]))
        assert rest[0] == gold[half]
        assert rest[-1].score == gold[-1].score == 1.0
    env.close()


@pytest.mark.long
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(action=st.text(max_size=60))
@example(action="")
@example(action="\ud800")
@example(action="go to " * 50_000)
@example(action="click[buy now]\nsearch[x]\n\n")
@example(action="{0} %s \\ $(x) '; \"\x00")
def test_any_text_is_an_action_that_is_answered(spec, env, action):
    start(env, frozen_tasks(spec)[0])
    before = env.info(None)["score"]
    (step,) = play(env, [action])
    assert step.observation in env.observation_space
    assert step.score - before == pytest.approx(step.reward)
    assert 0.0 <= step.score <= 1.0


def test_a_look_takes_no_turn_and_changes_nothing(spec, env):
    task = frozen_tasks(spec)[0]
    gold = play_expert(env, task)
    start(env, task)
    for expected in gold:
        looks(env)
        assert play(env, [expected.action]) == [expected]
    assert env.info(None)["turns"] == len(gold)


def test_a_moment_can_be_come_back_to_and_goes_on_as_before(spec, env):
    first, second = frozen_tasks(spec)[:2]
    gold = play_expert(env, first)
    half = len(gold) // 2
    start(env, first)
    play(env, actions_of(gold[:half]))
    seen, moment, before = looks(env), env.snapshot(), env.info(None)
    for detour in ([], list(NONSENSE), actions_of(gold[half:])):
        env.restore(moment)
        play(env, detour)
        env.restore(moment)
        assert env.info(None) == before
        assert looks(env) == seen
        env.restore(moment)
        assert play(env, actions_of(gold[half:])) == gold[half:]
    start(env, second)
    env.restore(moment)
    assert (env.info(None)["task_id"], env.goal) == (first, before["goal"])
    assert play(env, actions_of(gold[half:])) == gold[half:]
