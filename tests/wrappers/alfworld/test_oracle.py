"""The oracle: the expert wins, distances are exact, and both agree with the engine's own planner."""

from __future__ import annotations

import random

import pytest

from align_echo.wrappers.alfworld import manifest
from align_echo.wrappers.alfworld.data import EmbeddedGames, read_json
from align_echo.wrappers.alfworld.env import AlfworldEnv
from align_echo.wrappers.alfworld.oracle import Oracle
from align_echo.wrappers.alfworld.spec import TASK_TYPES, task_type

SMALL = 200_000
"""Characters of SAS text up to which the engine's planner answers in a fraction of a second."""


def of_type(split: str, kind: str) -> list[str]:
    return [task_id for task_id in EmbeddedGames().ids(split) if task_type(task_id) == kind]


@pytest.mark.parametrize("kind", TASK_TYPES)
@pytest.mark.parametrize("split", ["train", "valid_unseen"])
def test_the_expert_wins_as_fast_as_the_list_says(split, kind, expert_episode):
    env = AlfworldEnv(EmbeddedGames(), split)
    for task_id in of_type(split, kind)[::20]:
        episode = expert_episode(env, task_id)
        assert env.state.won
        assert len(episode) - 1 == manifest.shipped().entries[task_id].expert_steps
    env.close()


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_following_the_route_wins_in_as_many_steps_as_the_distance(kind, unseen):
    rng = random.Random(kind)
    task_id = rng.choice(of_type("valid_unseen", kind))
    _, info = unseen.reset(options={"task": task_id})
    for _ in range(6):
        for _ in range(3):
            if not unseen.state.won:
                _, _, _, _, info = unseen.step(rng.choice(info["admissible_actions"]))
        moment = unseen.snapshot()
        distance = unseen.oracle().distance()
        while not unseen.state.won:
            assert unseen.oracle().distance() == distance
            unseen.step(unseen.oracle().route()[0])
            distance -= 1
        assert distance == unseen.oracle().distance() == 0
        unseen.restore(moment)


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_no_single_action_is_worth_more_than_one_step(kind, unseen):
    """A distance that is too long somewhere would show as a jump of two or more."""
    task_id = random.Random(kind).choice(of_type("valid_unseen", kind))
    _, info = unseen.reset(options={"task": task_id})
    for _ in range(4):
        distance = unseen.oracle().distance()
        here = unseen.snapshot()
        for action in info["admissible_actions"]:
            unseen.step(action)
            assert unseen.oracle().distance() >= distance - 1
            unseen.restore(here)
        _, _, over, _, info = unseen.step(unseen.oracle().route()[0])
        if over:
            break


def test_the_engines_planner_finds_nothing_shorter(engine, load):
    rng = random.Random(3)
    compared = 0
    for task_id in rng.sample(EmbeddedGames().ids("train"), 15):
        game, files = load(task_id)
        if len(game.translation.sas) > SMALL:
            continue
        oracle = Oracle(engine, engine.reset(game), read_json(files.trajectory))
        for _ in range(6):
            for _ in range(4):
                if not engine.won:
                    engine.step(rng.choice(sorted(engine.commands)))
            if not engine.won:
                assert oracle.distance() == len(engine.plan())
                compared += 1
    assert compared >= 12


def test_asking_late_gives_the_same_advice_as_asking_always(unseen):
    task_id = of_type("valid_unseen", "pick_two_obj_and_place")[0]
    actions = ["look", "go to nowhere", "inventory"]
    for ask_always in (True, False):
        unseen.reset(options={"task": task_id})
        for action in actions:
            if ask_always:
                unseen.oracle().expert_action()
            unseen.step(action)
        if ask_always:
            wanted = unseen.oracle().expert_action()
    assert unseen.oracle().expert_action() == wanted


def test_the_oracle_helps_out_of_any_state(unseen):
    """After random play the expert may be at a loss; its advice still is an action the engine accepts."""
    rng = random.Random(5)
    for kind in TASK_TYPES:
        _, info = unseen.reset(options={"task": rng.choice(of_type("valid_unseen", kind))})
        for _ in range(15):
            _, _, terminated, truncated, info = unseen.step(rng.choice(info["admissible_actions"]))
            if terminated or truncated:
                break
            assert unseen.oracle().expert_action() in info["admissible_actions"]


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "valid_seen", "valid_unseen"])
def test_the_expert_wins_every_listed_game(split, expert_episode):
    env = AlfworldEnv(EmbeddedGames(), split)
    for task_id in env.task_ids:
        episode = expert_episode(env, task_id)
        assert env.state.won, task_id
        assert len(episode) - 1 == manifest.shipped().entries[task_id].expert_steps
    env.close()
