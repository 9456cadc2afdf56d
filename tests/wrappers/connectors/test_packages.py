"""The connectors with the packages themselves: what an agent is shown, when it has won, and whose chance it is."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import align_echo
from align_echo.errors import MissingExtraError, UsageError
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.connectors.gymnasium import _ToyText
from align_echo.wrappers.text_env import TextEnv

PACKAGES = {"minigrid": "pygame", "textarena": "chess", "tau2": "loguru", "textworld": "jericho"}
"""A package of each connector's extra beside the one of its name."""

LAKE, TAXI = "gymnasium:FrozenLake-v1", "gymnasium:Taxi-v4"
DOOR, BALL = "minigrid:MiniGrid-DoorKey-5x5-v0", "minigrid:BabyAI-GoToRedBallGrey-v0"
HANOI, SOKOBAN = "textarena:TowerOfHanoi-v0", "textarena:Sokoban-v0"
Turn = tuple[str, float, bool, bool, dict[str, Any]]
NAMES = (LAKE, TAXI, "gymnasium:CliffWalking-v1", "gymnasium:Blackjack-v1", DOOR, BALL, HANOI, SOKOBAN, "tau2:mock")


def made(name: str, task: str | None = None) -> TextEnv:
    """Make an environment in the first state of a task, or skip the test where its package is missing."""
    prefix = name.partition(":")[0]
    if any(find_spec(module) is None for module in (prefix, PACKAGES.get(prefix, prefix))):
        pytest.skip(f"the package of {prefix} is not installed: pip install '.[{prefix}]'")
    env = align_echo.make(name)
    assert isinstance(env, TextEnv)
    env.reset(options={"task": align_echo.tasks(name)[0] if task is None else task})
    return env


def forms(env: TextEnv) -> list[str]:
    return environment(env.contract.environment).action_format.split(" | ")


def walked(env: TextEnv, turns: int, seed: int = 0) -> list[Turn]:
    """Play random forms of the action format and return what was shown."""
    draw, seen = random.Random(seed), list[Turn]()
    for _ in range(turns):
        if env.over:
            break
        seen.append(env.step(draw.choice([*forms(env), "xyzzy"])))
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_all_chance_is_the_tasks(name):
    """The same task is played twice alone, and once beside another one that draws from the same generators."""
    first = align_echo.tasks(name)[1] if find_spec(PACKAGES.get(name.partition(":")[0], "gymnasium")) else "1"
    alone = walked(made(name, first), 12)
    random.seed(7)
    assert walked(made(name, first), 12) == alone
    one, other = made(name, first), made(name)
    turns = iter(random.Random(0).choices(range(2), k=200))
    played, draw = list[Turn](), random.Random(0)
    while not one.over and len(played) < 12:
        if next(turns):
            played.append(one.step(draw.choice([*forms(one), "xyzzy"])))
        elif not other.over:
            other.step(forms(other)[0])
    assert played == alone


@pytest.mark.parametrize("name", NAMES)
def test_a_state_can_be_come_back_to_from_another_task(name):
    env = made(name)
    walked(env, 2)
    if env.over:
        env = made(name)
    snapshot = env.snapshot()
    after = walked(env, 8, seed=1)
    env.reset(options={"task": env.task_ids[1]})
    walked(env, 3)
    for _ in range(2):
        env.restore(snapshot)
        assert walked(env, 8, seed=1) == after


@pytest.mark.parametrize("name", NAMES)
def test_the_generators_of_the_process_are_left_alone(name):
    env = made(name)
    random.seed(3)
    np.random.seed(3)
    before = (random.getstate(), repr(np.random.get_state()))
    env.reset(options={"task": env.task_ids[1]})
    walked(env, 3)
    assert (random.getstate(), repr(np.random.get_state())) == before


@pytest.mark.parametrize("name", NAMES)
def test_another_word_is_answered_and_changes_nothing(name):
    env = made(name)
    text, reward, terminated, truncated, _ = env.step("xyzzy")
    assert (bool(text), terminated, truncated) == (True, False, False)
    assert reward <= 0


@pytest.mark.parametrize("says_nothing", [False, True])
@pytest.mark.parametrize("name", [TAXI, "gymnasium:CliffWalking-v1", LAKE, "gymnasium:Blackjack-v1", DOOR])
def test_turns_without_an_action_cost_what_idle_steps_cost(name, says_nothing):
    """The agent idles to the turn limit: it says a word of its own each turn, or nothing that can be read."""
    idle = {TAXI: 1800 / 2020, "gymnasium:CliffWalking-v1": 0.99}  # 200 steps into a wall
    env = made(name)
    env.step_limit = 10_000
    shown = [env.pass_turn() if says_nothing else env.step("xyzzy") for _ in range(100)]
    half = env.snapshot()
    while not env.over and env.turns < 1_000:
        shown.append(env.pass_turn() if says_nothing else env.step("xyzzy"))
    assert env.state.score == pytest.approx(idle.get(name, 0.0))
    assert not env.state.won
    end = env.state.score
    env.restore(half)
    while not env.over and env.turns < 1_000:
        env.step("xyzzy")
    assert env.state.truncated
    assert env.state.score == pytest.approx(end)


def test_a_hand_that_is_played_to_its_end_counts_as_gymnasium_counts_it():
    ends = []
    for task in align_echo.tasks("gymnasium:Blackjack-v1")[:12]:
        for words in (["stick"], ["xyzzy", "xyzzy", "stick"]):
            env = made("gymnasium:Blackjack-v1", task)
            for word in words:
                env.step(word)
            ends.append(env.state.raw_score)
    assert ends[::2] == ends[1::2]
    assert {-1.0, 1.0} <= {*ends}


def test_steps_that_name_nothing_count_in_a_levels_reward():
    played = []
    for idle in (0, 20):
        env = made("minigrid:MiniGrid-Empty-5x5-v0")
        for _ in range(idle):
            env.step("xyzzy")
        for action in ("forward", "forward", "right", "forward", "forward"):
            env.step(action)
        assert env.state.won
        played.append(env.state.score)
    assert played == pytest.approx([1 - 0.9 * 5 / 100, 1 - 0.9 * 25 / 100])


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("gymnasium:CliffWalking-v1", "dance", "left"),
        (LAKE, "dance", "left"),
        (DOOR, "dance", "left"),
        (HANOI, "dance", "[A C]"),
        ("tau2:mock", "dance", '{"name": "get_users", "arguments": {}}'),
    ],
)
def test_the_connectors_own_refusals_are_declared(name, wrong, right):
    env = made(name)
    spec = environment(name)
    assert spec.is_invalid is not None
    assert [spec.is_invalid(env.step(action)[0]) for action in (wrong, right)] == [True, False]


def test_squares_in_colour_are_spelled_out():
    assert made(LAKE).state.observation == "\n[red S]FFF\nFHFH\nFFFH\nHFFG\n"
    taxi = made(TAXI)
    assert "\x1b" not in taxi.state.observation
    assert "[yellow " in taxi.state.observation
    assert taxi.state.admissible_actions is not None
    assert {*taxi.state.admissible_actions} <= {*forms(taxi)}


def test_every_state_of_the_taxi_is_shown_without_escape_codes():
    """A taxi with its passenger at the destination has three colours on one square."""
    inner = gym.make("Taxi-v4", render_mode="ansi", disable_env_checker=True)
    inner.reset(seed=0)
    shown = []
    for state in range(inner.unwrapped.observation_space.n):  # type: ignore[attr-defined]
        inner.unwrapped.s = state  # type: ignore[attr-defined]
        shown.append(_ToyText(inner)._shown(state))
    assert not any("\x1b" in text for text in shown)
    assert any("[magenta [blue [yellow R]]]" in text for text in shown)
    assert all("[yellow " in text or "[green " in text for text in shown)


def test_a_walk_along_the_cliff_is_won_and_its_return_scaled():
    env = made("gymnasium:CliffWalking-v1")
    for action in ("up", *["right"] * 11, "down"):
        *_, terminated, _, info = env.step(action)
    assert (terminated, info["won"], info["raw_score"]) == (True, True, -13.0)
    assert info["score"] == pytest.approx(1 - 13 / 20_000)


def test_a_time_limit_of_gymnasium_is_truncation():
    cliff = made("gymnasium:CliffWalking-v1")
    cliff.step_limit = 1000
    steps = list(itertools.takewhile(lambda step: not step[3], (cliff.step("left") for _ in range(500))))
    assert len(steps) == 199


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gymnasium:CartPole-v1", "CartPole-v1 is no environment over text.*--env module:Name"),
        ("gymnasium:FrozenLak-v1", r"FrozenLak.*gymnasium\.pprint_registry\(\)\" lists them$"),
        ("gymnasium:os:Thing-v0", "write --env os:Thing-v0"),
        ("minigrid:CartPole-v1", "no level of MiniGrid"),
        ("minigrid:DoorKey", r"did you mean MiniGrid-DoorKey-5x5-v0.*pprint_registry\(\)\" lists them$"),
        ("textarena:TowerOfHano-v0", "did you mean TowerOfHanoi-v0"),
        ("textarena:qqq", r"no game 'qqq'; python -c .* lists them$"),
        ("textarena:Chess-v0", "cannot be played alone"),
        ("tau2:bakery", "no domain 'bakery'"),
    ],
)
def test_a_wrong_name_is_one_line(name, message):
    prefix = name.partition(":")[0]
    if find_spec(prefix) is None:
        pytest.skip(f"the package of {prefix} is not installed: pip install '.[{prefix}]'")
    with pytest.raises(UsageError, match=message) as error:
        environment(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("prefix", sorted(PACKAGES))
def test_a_missing_package_is_one_line_that_names_the_extra(prefix, monkeypatch):
    monkeypatch.setattr("align_echo.errors.find_spec", lambda module: None)
    with pytest.raises(MissingExtraError, match=rf"pip install '\.\[{prefix}\]'"):
        environment(f"{prefix}:anything")


def test_the_key_and_the_door_are_described_from_where_the_agent_stands():
    env = made(DOOR)
    assert env.goal == "use the key to open the door and then get to the goal"
    assert env.state.observation == "You see: wall 1 forward; yellow key 1 right"
    env.step("right")
    assert "yellow key 1 forward" in env.state.observation
    env.step("pickup")
    assert env.state.observation.endswith("\nYou carry: yellow key")


def test_a_level_with_its_own_turn_limit_ends_there():
    env = made(BALL)
    env.step_limit = 10_000
    steps = list(itertools.takewhile(lambda step: not step[3], (env.step("left") for _ in range(1000))))
    assert 10 < len(steps) < 999


def test_the_tower_is_moved_and_only_new_messages_are_shown():
    env = made(HANOI)
    assert forms(env) == ["[A C]"]
    for move in ("A C", "A B", "C B", "A C", "B A", "B C", "A C"):
        text, _, terminated, _, info = env.step(f"[{move}]")
    assert (terminated, info["won"], info["score"]) == (True, True, 1.0)
    assert "You have to move the disks" not in text
    assert text.endswith("Congratulations! You solved the Tower of Hanoi puzzle.")


def test_gold_tool_calls_of_retail_are_won_and_none_are_not():
    made("tau2:mock")
    from tau2.domains.retail.environment import get_tasks

    spec = environment("tau2:retail")
    names = {tool["function"]["name"] for tool in spec.tools}  # type: ignore[call-overload,index]
    assert {"cancel_pending_order", "get_order_details"} <= names
    assert not {*spec.tasks("train")} & {*spec.tasks("test")}
    task = next(
        task for task in get_tasks() if any(a.name.startswith("exchange") for a in task.evaluation_criteria.actions)
    )
    env = align_echo.make("tau2:retail", split="train" if task.id in spec.tasks("train") else "test")
    env.reset(options={"task": task.id})
    *_, terminated, _, info = env.step("done")
    assert (terminated, info["won"]) == (True, False)
    env.reset(options={"task": task.id})
    for call in task.evaluation_criteria.actions:
        env.step(call.model_dump_json(include={"name", "arguments"}))
    *_, info = env.step("done")
    assert (info["won"], info["score"]) == (True, 1.0)


@pytest.mark.long
def test_cooking_games_are_made_once_and_their_expert_wins(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("ALIGN_ECHO_CACHE", str(tmp_path))
    env = made("textworld:make", "0")
    assert env.state.observation.startswith("-= ")
    game = next(tmp_path.rglob("cooking-0.z8"))
    at = game.stat().st_mtime_ns
    moments, said, shown = [], [], []
    while not env.over:
        action = env.oracle().expert_action()
        assert action is not None
        moments.append(env.snapshot())
        said.append(action)
        shown.append(env.step(action))
    assert env.state.won
    env.reset(options={"task": "1"})
    for number, moment in reversed([*enumerate(moments)]):
        env.restore(moment)
        assert env.fork_way == "by the declared save and restore"
        assert [env.step(action) for action in said[number:]] == shown[number:]
        assert env.state.won
    assert not any(text.rstrip().endswith("-=") for text, *_ in shown)
    assert made("textworld:make", "0").state.observation
    assert game.stat().st_mtime_ns == at
    single = environment(f"textworld:{game}")
    assert single.tasks(single.test_split) == ["cooking-0.z8"]
    (tmp_path / "all" / "train").mkdir(parents=True)
    (tmp_path / "all" / "test").mkdir()
    for split in ("train", "test"):
        for ending in (".z8", ".json"):
            (tmp_path / "all" / split / f"a{ending}").write_bytes(game.with_suffix(ending).read_bytes())
    assert environment(f"textworld:{tmp_path / 'all'}").splits == ("test", "train")


def test_listing_the_connectors_imports_none_of_their_packages():
    code = (
        "import sys; from align_echo.wrappers.catalogue import CONNECTORS; "
        "[CONNECTORS.get(name) for name in CONNECTORS.entries()]; "
        "print([name for name in ('minigrid', 'textarena', 'tau2', 'textworld', 'pygame') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
