"""TextWorldExpress: the engine's text and scores, tasks that no two splits share, an expert from beside its path."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest

from align_echo.errors import EngineError, MissingExtraError, UsageError
from align_echo.wrappers import java
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.java import JavaProcess, java_pool
from align_echo.wrappers.scienceworld.env import JavaSimulator
from align_echo.wrappers.textworldexpress import training_tasks
from align_echo.wrappers.textworldexpress.env import ExpressEnv, ExpressSimulator, gold_path, plans, without_circles
from align_echo.wrappers.textworldexpress.spec import GAMES, read_task, task_ids

needs_engine = pytest.mark.skipif(
    find_spec("textworld_express") is None, reason="the extra is not installed: pip install '.[textworldexpress]'"
)


LOST_BY_ITS_OWN_PATH = {"peckingorder/10568"}
"""The engine made two things of one name, and takes the wrong one by its own path."""


@pytest.fixture(scope="module")
def env() -> Iterator[ExpressEnv]:
    env = ExpressEnv("test")
    yield env
    env.close()


def test_no_two_splits_share_a_task_and_each_has_every_game():
    splits = {split: task_ids(split) for split in environment("textworldexpress").splits}
    assert {split: len(ids) for split, ids in splits.items()} == {"train": 8000, "dev": 8000, "test": 8000}
    assert len({task for ids in splits.values() for task in ids}) == 24_000
    first, second = (training_tasks(data_root=None, iteration=iteration, seed=3) for iteration in range(2))
    assert {task.partition("/")[0] for task in first} == {*GAMES}
    assert not {*first} & {*second}
    assert {*first, *second} <= {*splits["train"]}


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("cookingwrld/20000", "did you mean cookingworld"),
        ("coin/0", "coin has no seed 0 in split test; it has 20000 to 20999"),
        ("coin/020000", "does not end in a seed"),
        ("coin", "does not end in a seed"),
    ],
)
def test_a_task_that_is_not_there_is_told_in_one_line(task, message):
    with pytest.raises(UsageError, match=message):
        read_task(task, "test")


@pytest.mark.long
@needs_engine
def test_it_says_what_upstreams_own_wrapper_says(env):
    from textworld_express import TextWorldExpressEnv

    upstream = TextWorldExpressEnv()
    for game in GAMES:
        rng = random.Random(game)
        observation, info = env.reset(options={"task": f"{game}/20007"})
        expected, told = upstream.reset(seed=20007, gameFold="test", gameName=game, gameParams="")
        assert (observation, info["goal"]) == (expected, told["taskDescription"].strip())
        over = False
        for _ in range(25):
            if over:
                break
            assert [*env.state.admissible_actions] == sorted(told["validActions"])
            action = rng.choice([*env.state.admissible_actions, "fly to the moon"])
            observation, _, terminated, _, info = env.step(action)
            expected, _, over, told = upstream.step(action)
            assert (observation, terminated, info["raw_score"]) == (expected, over, told["score"])
    upstream.close()


@needs_engine
def test_a_wrong_action_that_loses_the_game_scores_0_and_keeps_the_engines_minus_1(env):
    env.reset(options={"task": "simonsays/20000"})
    wrong = next(action for action in env.state.admissible_actions if action != env.oracle().expert_action())
    _, reward, terminated, truncated, info = env.step(wrong)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert (info["score"], info["raw_score"], info["won"]) == (0.0, -1.0, False)
    assert env.oracle().expert_action() is None


@needs_engine
def test_partial_scores_are_rewarded_as_they_come(env):
    env.reset(options={"task": "mapreader/20003"})
    rewards = []
    over = False
    while not over:
        _, reward, over, _, _ = env.step(env.oracle().expert_action())
        rewards.append(reward)
    assert sum(rewards) == 1.0
    assert 0.5 in rewards[:-1]


@needs_engine
def test_looks_are_what_the_actions_answer_and_take_no_turn(env):
    env.reset(options={"task": "coin/20004"})
    env.step(env.oracle().expert_action())
    seen = {action: env.probe(action) for action in ("look around", "inventory")}
    assert env.info(None)["turns"] == 1
    assert {action: env.step(action)[0] for action in seen} == seen
    env.reset(options={"task": "simonsays/20004"})
    assert env.probe("look around") == env.step("look around")[0]


@needs_engine
@pytest.mark.parametrize("game", [game for game in GAMES if game not in ("simonsays", "peckingorder")])
def test_the_expert_wins_from_beside_its_path(env, game):
    """Two steps aside that lose nothing; in the other two games every step aside loses."""
    env.reset(options={"task": f"{game}/20011"})
    for _ in range(2):
        gold = env.oracle().expert_action()
        harmless = ("move", "open door", "look", "examine", "inventory")
        aside = [action for action in env.state.admissible_actions if action.startswith(harmless) and action != gold]
        env.step(aside[-1])
    over = False
    while not over:
        action = env.oracle().expert_action()
        assert action is not None
        _, _, over, truncated, info = env.step(action)
        assert not truncated
    assert info["won"]


def test_walks_aside_are_undone_before_the_path_goes_on():
    gold = ("look around", "move north", "take coin")
    assert plans(gold, ("move east", "look around", "move south"))[0] == (
        *("move north", "move west"),
        *("move north", "take coin"),
    )
    assert plans(gold, ("move north", "move west"))[0] == ("move east", "take coin")
    assert plans(gold, ("move east", "move west")) == plans(gold, ())
    assert plans(gold, ("move north", "take coin")) == []


@needs_engine
def test_a_moment_can_be_restored_after_the_simulator_died(env):
    env.reset(options={"task": "coin/20005"})
    env.step(env.oracle().expert_action())
    moment, seen = env.snapshot(), env.probe("look around")
    os.kill(env._simulator.pid, signal.SIGKILL)
    with pytest.raises(EngineError):
        env.step("look around")
    env.restore(moment)
    assert env.probe("look around") == seen
    assert env.step("look around")[0] == seen


@needs_engine
def test_java_processes_of_two_engines_are_pooled_apart():
    with java_pool(ExpressSimulator).borrowed() as express:
        assert express.start("coin", 0)["tasksuccess"] is False
    with java_pool(ExpressSimulator).borrowed() as again:
        assert again is express
    pools: list[object] = [java_pool(ExpressSimulator), java_pool(JavaSimulator)]
    assert pools[0] is not pools[1]


def test_walks_in_a_circle_are_left_out_where_nothing_is_done_on_them():
    east, west = "move east", "move west"
    assert without_circles((east, west, east, west), ("hall", "den", "hall", "den", "hall")) == ()
    assert without_circles((east, "take coin", west), ("hall", "den", "den", "hall")) == (east, "take coin", west)
    there = (east, "move north", "move south", "move south", "open door", west)
    assert without_circles(there, ("a", "b", "c", "b", "d", "d", "e")) == (east, "move south", "open door", west)


@pytest.mark.long
@needs_engine
def test_the_expert_passes_over_what_the_gold_path_says_and_the_engine_refuses():
    env = ExpressEnv("train")
    env.reset(options={"task": "cookingworld/6"})
    while (action := env.oracle().expert_action()) is not None:
        assert not env.refuses(env.step(action)[0]), action
    assert env.state.won
    env.close()


@needs_engine
def test_gold_paths_of_training_games_win():
    assert all(gold_path(game, 5) for game in GAMES)


@needs_engine
@pytest.mark.slow
@pytest.mark.parametrize("split", environment("textworldexpress").splits)
def test_the_expert_wins_many_games_of_each_kind_within_the_step_limit(split):
    env = ExpressEnv(split)
    lost = []
    for task in task_ids(split)[::16]:
        env.reset(options={"task": task})
        over = False
        while not over:
            action = env.oracle().expert_action()
            _, _, terminated, truncated, _ = env.step(action or "look around")
            over = terminated or truncated
        lost += [] if env.state.won else [task]
    env.close()
    assert {*lost} <= LOST_BY_ITS_OWN_PATH


@needs_engine
def test_a_program_that_cannot_be_made_leaves_no_process_behind(monkeypatch):
    started: list[JavaProcess] = []
    close = JavaProcess.close

    def closing(process: JavaProcess) -> None:
        started.append(process)
        close(process)

    monkeypatch.setattr(JavaProcess, "close", closing)
    arguments = ("TextWorldExpress", "textworldexpress", "textworld_express", "textworld-express.jar")
    with pytest.raises(EngineError, match=r"no\.such\.Program cannot be made"):
        JavaProcess(*arguments, entry="no.such.Program")
    assert [process.alive for process in started] == [False]


def test_threads_that_ask_at_once_share_a_pool(monkeypatch):
    both = threading.Barrier(2, timeout=60)

    def make(start: object, forget: object) -> object:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # a second thread that made a pool as well would meet this one here
        return object()

    class Program(JavaProcess):
        """Never started."""

    monkeypatch.setattr(java, "make_process_pool", make)
    with ThreadPoolExecutor(2) as threads:
        pools = list(threads.map(lambda _: java_pool(Program), range(2)))
    assert pools[0] is pools[1]


def test_without_the_extra_the_error_is_its_install_line(monkeypatch):
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[textworldexpress\]'"):
        ExpressSimulator()
