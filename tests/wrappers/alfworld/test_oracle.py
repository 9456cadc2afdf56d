"""The oracle: the expert wins, distances are exact, and both agree with the engine's own planner."""

from __future__ import annotations

import random

import pytest

from align_echo.wrappers.alfworld import data
from align_echo.wrappers.alfworld.data import read_json
from align_echo.wrappers.alfworld.env import AlfworldEnv
from align_echo.wrappers.alfworld.fast.engine import plan
from align_echo.wrappers.alfworld.oracle import MOST_STEPS, HouseOracle
from align_echo.wrappers.alfworld.spec import TASK_TYPES, TRAJECTORY, task_type

SMALL_ROOMS = ("-29", "-226", "-308", "-404", "-424")
"""Rooms of the unseen split in which the engine's planner answers within a second."""

CHANGING = ("take", "move", "open", "heat", "cool", "clean", "use")


def of_type(split: str, kind: str) -> list[str]:
    return [task_id for task_id in data.load_embedded().ids(split) if task_type(task_id) == kind]


@pytest.mark.parametrize("kind", TASK_TYPES)
@pytest.mark.parametrize("split", ["train", "valid_unseen"])
def test_the_expert_wins_as_fast_as_the_list_says(split, kind, expert_episode):
    env = AlfworldEnv(data.load_embedded(), split)
    for task_id in of_type(split, kind)[::20]:
        episode = expert_episode(env, task_id)
        assert env.state.won
        assert len(episode) - 1 == data.load_embedded().entries[task_id].expert_steps
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
        moment = unseen.snapshot()
        for action in info["admissible_actions"]:
            unseen.step(action)
            assert unseen.oracle().distance() >= distance - 1
            unseen.restore(moment)
        _, _, over, _, info = unseen.step(unseen.oracle().route()[0])
        if over:
            break


@pytest.mark.long
@pytest.mark.parametrize("kind", TASK_TYPES)
def test_the_engines_planner_finds_nothing_shorter(kind, engine, load):
    """From states that random play leads to, hands full of the wrong things, lamps on, one of two things in place."""
    rng = random.Random(kind)
    small = [task_id for task_id in of_type("valid_unseen", kind) if task_id.split("/")[1].endswith(SMALL_ROOMS)]
    game, folder = load(rng.choice(small))
    oracle = HouseOracle(engine, engine.reset(game), read_json(folder / TRAJECTORY))
    start = engine.sight
    compared = 0
    while compared < 8:
        engine.restore(start)
        for _ in range(rng.randrange(10)):
            if not engine.won:
                engine.step(meddle(rng, list(engine.admissible), (oracle.route() or ["look"])[0]))
        if not engine.won:
            assert oracle.distance() == len(plan(engine.sight) or [])
            compared += 1


def meddle(rng: random.Random, commands: list[str], useful: str) -> str:
    """Mostly actions that change something, now and then a useful one."""
    if rng.random() < 0.3:
        return useful
    changing = [command for command in commands if command.split()[0] in CHANGING]
    return rng.choice(changing if changing and rng.random() < 0.7 else commands)


def test_a_lamp_that_is_lit_needs_no_second_switch(unseen):
    _, info = unseen.reset(options={"task": of_type("valid_unseen", "look_at_obj_in_light")[0]})
    for walk in [action for action in info["admissible_actions"] if action.startswith("go to ")]:
        _, _, _, _, info = unseen.step(walk)
        lamps = [action for action in info["admissible_actions"] if action.startswith("use ")]
        if lamps:
            break
    unseen.step(lamps[0])
    route = unseen.oracle().route()
    assert not any(action.startswith("use ") for action in route)
    for action in route:
        assert not unseen.state.won
        unseen.step(action)
    assert unseen.state.won


def test_the_furniture_at_hand_is_preferred(unseen):
    """Of twenty drawers that would do, the one in front of the agent is nearest."""
    task_id = next(task_id for task_id in of_type("valid_unseen", "pick_and_place_simple") if "-Drawer-" in task_id)
    _, info = unseen.reset(options={"task": task_id})
    *fetching, _going, _opening, _moving = unseen.oracle().route()
    for action in fetching:
        unseen.step(action)
    moment = unseen.snapshot()
    for walk in [action for action in info["admissible_actions"] if action.startswith("go to drawer")]:
        unseen.restore(moment)
        unseen.step(walk)
        assert unseen.oracle().distance() == 2


def test_advice_does_not_depend_on_when_it_is_asked(unseen, expert_episode):
    """The expert keeps notes of where it looked; it must have seen every step, asked or not."""
    for kind in ("pick_two_obj_and_place", "pick_clean_then_place_in_recep"):
        steps = data.load_embedded().entries
        longest = max(of_type("valid_unseen", kind), key=lambda task_id: steps[task_id].expert_steps)
        actions = [action for action, _ in expert_episode(unseen, longest)][1:]
        for cut in range(3, len(actions), 4):
            unseen.reset(options={"task": longest})
            for action in actions[:cut]:
                unseen.step(action)
            assert unseen.oracle().expert_action() == actions[cut]


def test_the_oracle_helps_out_of_any_state(unseen):
    rng = random.Random(5)
    for kind in TASK_TYPES:
        _, info = unseen.reset(options={"task": rng.choice(of_type("valid_unseen", kind))})
        for _ in range(15):
            _, _, terminated, truncated, info = unseen.step(rng.choice(info["admissible_actions"]))
            if terminated or truncated:
                break
            assert unseen.oracle().expert_action() in info["admissible_actions"]


def test_where_the_expert_gives_up_a_shortest_way_is_named(unseen):
    env = AlfworldEnv(data.load_embedded(), "valid_unseen", step_limit=MOST_STEPS + 10)
    env.reset(options={"task": env.task_ids[0]})
    for _ in range(MOST_STEPS + 2):
        env.step("look")
    assert env.oracle().handcoded_action() is None
    route = env.oracle().route()
    assert route
    assert env.oracle().expert_action() == route[0]
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "valid_seen", "valid_unseen"])
def test_the_expert_wins_every_listed_game(split, expert_episode):
    env = AlfworldEnv(data.load_embedded(), split)
    for task_id in env.task_ids:
        episode = expert_episode(env, task_id)
        assert env.state.won, task_id
        assert len(episode) - 1 == data.load_embedded().entries[task_id].expert_steps
    env.close()
