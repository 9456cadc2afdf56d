"""Tasks: an id means the same everywhere, splits share nothing where they say so, a seed draws the same task."""

from __future__ import annotations

import os
from itertools import chain

import pytest

import align_echo
from align_echo.errors import EngineError, UsageError
from align_echo.wrappers.text_env import TEXT_CHARACTERS
from tests.conformance.fingerprint import fingerprint, of_fresh_process
from tests.conformance.subjects import frozen_tasks, looks, play_expert, sample, start


@pytest.mark.long
def test_a_fresh_process_sees_the_tasks_of_this_one_in_the_same_order(spec):
    here, there = fingerprint(spec, 2), of_fresh_process(spec.name, 2, hash_seed=other_than_here())
    assert here == there
    assert list(here["starts"]) == list(there["starts"])


def other_than_here() -> int:
    """A salt for Python's hashes that this process does not have."""
    return 2 if os.environ.get("PYTHONHASHSEED") == "1" else 1


def test_no_split_is_empty_or_names_a_task_twice(spec):
    for split in spec.splits:
        ids = align_echo.tasks(spec.name, split=split)
        assert ids
        assert len(ids) == len(set(ids)), split


def test_splits_of_a_partition_share_no_task(spec):
    for partition in spec.partitions or (spec.splits,):
        assert set(partition) <= set(spec.splits)
        ids = list(chain.from_iterable(align_echo.tasks(spec.name, split=split) for split in partition))
        assert len(ids) == len(set(ids)), partition


def test_the_training_split_and_the_test_split_share_no_task(spec):
    train, test = (set(align_echo.tasks(spec.name, split=split)) for split in (spec.train_split, spec.test_split))
    assert not train & test


def test_training_tasks_are_of_the_training_split_and_new_in_the_next_iteration(spec):
    first, second = (
        spec.training_tasks(data_root=None, iteration=iteration, seed=0) for iteration in range(2)
    )
    assert first
    assert set(first) | set(second) <= set(align_echo.tasks(spec.name, split=spec.train_split))
    assert not set(first) & set(second)


def test_ids_and_texts_are_within_the_observation_space(spec, env):
    ids = chain.from_iterable(align_echo.tasks(spec.name, split=split) for split in spec.splits)
    allowed = set(TEXT_CHARACTERS)
    assert [task for task in ids if not set(task) <= allowed or task != task.strip()] == []
    for task in frozen_tasks(spec)[:3]:
        observation, info = start(env, task)
        texts = [observation, info["goal"], *looks(env)]
        texts += [step.observation for step in play_expert(env, task)]
        assert [text for text in texts if text not in env.observation_space] == []


@pytest.mark.long
def test_a_seed_draws_the_same_task_twice_and_seeds_draw_different_ones(spec, env):
    drawn = [env.reset(seed=seed)[1]["task_id"] for seed in range(8)]
    assert [env.reset(seed=seed)[1]["task_id"] for seed in range(8)] == drawn
    assert len(set(drawn)) > 1
    assert set(drawn) <= set(env.task_ids)


def test_the_type_in_the_spec_is_the_type_that_the_environment_tells(spec, env):
    for task in sample(spec, 4):
        assert start(env, task)[1]["task_type"] == spec.task_type(task)


@pytest.mark.parametrize("task", ["no/such/task", "", "goal-x", "two\nlines"])
def test_an_unknown_task_is_refused_in_one_line(env, task):
    with pytest.raises(UsageError) as refusal:
        start(env, task)
    assert "\n" not in str(refusal.value)


def test_after_a_refused_task_nothing_of_the_one_before_can_be_played_on(spec, env):
    start(env, sample(spec, 1)[0])
    with pytest.raises(UsageError):
        start(env, "no/such/task")
    with pytest.raises(EngineError, match="over"):
        env.step("look")
