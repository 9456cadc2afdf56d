"""A plain `gymnasium.Env` over strings plays like our own: tasks, scores, forks, and what it lacks."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from pydantic import JsonValue

import align_echo
from align_echo.errors import EngineError, UsageError
from align_echo.interface.contract import identity, identity_source
from align_echo.rollout.answers import ask_nonsense
from align_echo.rollout.refusals import RefusalJudge
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.plain import GOAL, PlainEnv, TextEnvironment
from tests.doors import REFUSED, Doors

RANGE = (-4.0, 2.0)
DOORS = TextEnvironment(Doors, return_range=RANGE)


def made(declared: TextEnvironment = DOORS, split: str = "train") -> PlainEnv:
    env = declared.spec("doors").make(split)
    assert isinstance(env, PlainEnv)
    return env


def right_door(opening: str) -> str:
    return "open red" if "red one leads" in opening else "open green"


def wrong_door(opening: str) -> str:
    return "open green" if "red one leads" in opening else "open red"


def test_a_task_is_a_seed_and_the_same_in_every_environment():
    openings = [made().reset(options={"task": str(seed)})[0] for seed in range(12)]
    assert [made().reset(options={"task": str(seed)})[0] for seed in range(12)] == openings
    assert len(set(openings)) == 2
    spec = DOORS.spec("doors")
    assert not set(spec.tasks("train")) & set(spec.tasks("test"))
    with pytest.raises(UsageError, match="no task 'x'"):
        made().reset(options={"task": "x"})


def test_the_score_is_the_return_scaled_by_the_declared_range():
    env = made()
    opening, info = env.reset(options={"task": "1"})
    assert info["score"] == pytest.approx(4 / 6)
    assert info["goal"] == GOAL
    _, reward, terminated, _, info = env.step(wrong_door(opening))
    assert (info["raw_score"], terminated, info["won"]) == (-1.0, False, False)
    assert reward == pytest.approx(-1 / 6)
    _, _, terminated, _, info = env.step(right_door(opening))
    assert (info["raw_score"], terminated, info["won"]) == (1.0, True, False)
    opening, _ = env.reset(options={"task": "1"})
    _, _, terminated, _, info = env.step(right_door(opening))
    assert (info["score"], terminated, info["won"]) == (1.0, True, True)


def test_won_is_a_declared_threshold():
    env = made(TextEnvironment(Doors, return_range=RANGE, won_at=1.0))
    opening, _ = env.reset(options={"task": "1"})
    env.step(wrong_door(opening))
    assert env.step(right_door(opening))[4]["won"]


def test_a_return_outside_of_the_range_says_what_to_declare():
    env = made(TextEnvironment(Doors))
    opening, _ = env.reset(options={"task": "0"})
    with pytest.raises(UsageError, match=r"return 2, outside of 0 to 1: declare .*return_range"):
        env.step(right_door(opening))


def test_an_end_by_the_environment_itself_is_truncation():
    env = made()
    opening, _ = env.reset(options={"task": "0"})
    ends = [env.step(wrong_door(opening))[2:4] for _ in range(4)]
    assert ends == [(False, False)] * 3 + [(False, True)]
    with pytest.raises(EngineError, match="over"):
        env.step("open red")


def test_a_state_is_come_back_to_by_playing_again():
    env = made()
    opening, _ = env.reset(options={"task": "0"})
    env.step(wrong_door(opening))
    moment = env.snapshot()
    env.step(wrong_door(opening))
    env.step(right_door(opening))
    env.restore(moment)
    assert (env.info(None)["turns"], env.state.raw_score, env.over) == (1, -1.0, False)
    assert env.unwrapped._inner.opened == [wrong_door(opening).split()[1]]  # type: ignore[attr-defined]
    env.reset(options={"task": "5"})
    env.restore(moment)
    assert env.info(None)["task_id"] == "0"
    assert env.step(right_door(opening))[4]["raw_score"] == 1.0


class Restless(Doors):
    """Its words are drawn by nobody's seed."""

    count = itertools.count()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        text, *rest = super().step(action)
        return (f"{text} ({next(self.count)})", *rest)  # type: ignore[return-value]


def test_what_does_not_repeat_itself_is_played_and_not_forked():
    env = made(TextEnvironment(Restless, return_range=RANGE))
    env.reset(options={"task": "0"})
    env.step("wait")
    moment = env.snapshot()
    env.step("wait")
    with pytest.raises(EngineError, match="does not repeat itself"):
        env.restore(moment)


class Told(Doors):
    """With all that info may hold, and levels in place of seeds."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=0)
        self.right = (options or {})["level"]
        return f"The {self.right} one leads out.", self.info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return (*super().step(action)[:4], self.info())

    def info(self) -> dict[str, Any]:
        return {"goal": f"open the {self.right} door", "moves": ["open red", "open green"]}


LEVELS = {"train": ["red"], "test": ["green"]}
TOLD = TextEnvironment(
    Told,
    splits=LEVELS,
    option="level",
    return_range=RANGE,
    admissible="moves",
    read_only_actions=("listen",),
    task_type=lambda task: f"{task} doors",
    expert=lambda env: f"open {env.right}",
    distance=lambda env: 1,
)


def test_what_info_and_the_declaration_tell_is_used():
    spec = TOLD.spec("told")
    assert (spec.tasks("test"), spec.has_expert("green"), spec.measures_distance) == (["green"], True, True)
    env = made(TOLD, "test")
    _, info = env.reset(options={"task": "green"})
    assert (info["goal"], info["task_type"]) == ("open the green door", "green doors")
    assert info["admissible_actions"] == ("open green", "open red")
    assert (env.oracle().expert_action(), env.oracle().distance()) == ("open green", 1)
    assert env.probe("listen") == REFUSED
    assert (env.info(None)["turns"], env.state.raw_score) == (0, 0.0)


def test_without_a_declaration_there_is_no_oracle():
    spec = DOORS.spec("doors")
    assert not spec.has_expert("0")
    assert not spec.measures_distance
    env = made()
    env.reset(options={"task": "0"})
    assert env.oracle().expert_action() is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"return_range": (1.0, 1.0)}, "return_range"),
        ({"splits": {"train": [1]}}, "no split 'test'"),
        ({"splits": {"train": [1, 1], "test": [2]}}, "names the task '1' 2 times"),
        ({"splits": {"train": [], "test": [2]}}, "the split 'train' names no task"),
        ({"splits": {"train": ["a"], "test": ["b"]}}, "no seeds"),
    ],
)
def test_a_declaration_that_nothing_can_follow_is_refused(given, told):
    with pytest.raises(UsageError, match=told):
        TextEnvironment(Doors, **given)


class Numbers(gym.Env[Any, Any]):
    """Shows no text."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(3), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(2), 0.0, False, False, {}


def test_an_environment_that_shows_no_text_says_what_to_do():
    with pytest.raises(UsageError, match=r"shows an ndarray, not text: wrap it in a gymnasium\.ObservationWrapper"):
        align_echo.make("tests.wrappers.test_plain:Numbers").reset()


def test_a_gymnasium_id_is_a_name():
    gym.register("Doors-v0", entry_point="tests.doors:Doors")
    env = align_echo.make("Doors-v0")
    assert "Two doors" in env.reset(options={"task": "0"})[0]
    assert environment("Doors-v0").name == "Doors-v0"


def test_refusals_are_inferred_from_what_nonsense_is_answered():
    is_refusal = RefusalJudge(DOORS.spec("doors")).text_test
    assert is_refusal is not None
    assert is_refusal(REFUSED)
    assert not is_refusal("A broom cupboard.")


@pytest.mark.parametrize("name", ["alfworld"])
def test_what_is_inferred_of_our_own_is_what_they_declare(name):
    spec = environment(name)
    declared = RefusalJudge(spec).text_test
    inferred = ask_nonsense(dataclasses.replace(spec, is_invalid=None), ()).is_refusal
    assert declared is not None
    assert inferred is not None
    for text in ("Nothing happens.", "You are in the middle of a room.", ""):
        assert inferred(text) == declared(text)


def test_where_nonsense_changes_nothing_no_refusal_is_inferred():
    assert RefusalJudge(environment("webshop")).text_test is None


def test_an_interface_goes_around_it(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(identity_source(DOORS.spec("doors").contract))
    spec = DOORS.spec("doors")
    env = spec.make("train", interface=spec.interface(path))
    opening, _ = env.reset(options={"task": "0"})
    assert env.step(right_door(opening))[0] == "You are out."


def test_a_reward_below_0_is_no_claim_of_the_interface_that_passes_it_on():
    spec = DOORS.spec("doors")
    env = spec.make("train", interface=identity(spec.contract))
    opening, _ = env.reset(options={"task": "1"})
    _, reward, _, _, info = env.step(wrong_door(opening))
    assert float(reward) < 0
    assert info["forged"] == ()
    env.close()


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ({"make": "Depot-v0"}, "for a registered id: lambda: gymnasium.make"),
        ({"step_limit": "8"}, "step_limit is a number of turns"),
        ({"is_invalid": "That fails."}, "is_invalid is a function"),
        ({"read_only_actions": "look"}, r"write \('look',\)"),
        ({"return_range": (0, float("inf"))}, "from a lower to a higher return"),
        ({"won_at": 99}, "won_at is a return above 0"),
        ({"splits": {"train": range(5), "test": range(4, 9)}}, "'train' and 'test' share the task '4'"),
    ],
)
def test_a_declaration_of_another_kind_is_refused_in_one_line(declaration, message):
    with pytest.raises(UsageError, match=message) as refusal:
        TextEnvironment(**{"make": Doors, **declaration})
    assert "\n" not in str(refusal.value)


class Empty(gym.Env[str, str]):
    """Answers what a test puts here."""

    first: Any = ("A text.", {})
    then: Any = ("A text.", 0.0, False, False, {})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return self.first

    def step(self, action: str) -> Any:
        return {"old": 1}[action] if self.then is KeyError else self.then


class NoReset(gym.Env[str, str]):
    def step(self, action: str) -> Any:
        return "A text.", 0.0, False, False, {}


class NoStep(gym.Env[str, str]):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return "A text.", {}


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (NoReset, r"has no reset\(\): write one that returns \(text, info\)"),
        (NoStep, r"has no step\(\): write one that returns \(text, reward, terminated, truncated, info\)"),
        ({"first": "A text."}, r"reset\(\) of empty returned a str, not \(text, info\)"),
        ({"then": ("", 0.0, False, {})}, r"step\(\) of empty returned a tuple of 4, not \(text, reward, terminated"),
        ({"then": ("", None, False, False, {})}, r"step\(\) of empty returned a NoneType as reward, not"),
        ({"then": ("", 0.0, False, False, None)}, r"step\(\) of empty returned a NoneType as info, not"),
        ({"then": KeyError}, r"failed in step\(\), which returns \(text, reward, .*: KeyError: 'wait'"),
        (dict, r"makes a dict, not a gymnasium.Env with reset\(\) that returns \(text, info\), step\(\) that"),
    ],
)
def test_an_environment_of_another_shape_is_told_the_method_and_what_it_returns(world, message):
    kind: Any = type("Given", (Empty,), world) if isinstance(world, dict) else world

    def play() -> None:
        env = TextEnvironment(kind).spec("empty").make("train")
        env.reset(options={"task": "0"})
        env.step("wait")

    with pytest.raises((UsageError, EngineError), match=message) as error:
        play()
    assert "\n" not in str(error.value)


def test_an_environment_whose_own_code_cannot_make_it_is_an_engine_that_broke():
    def broken() -> gym.Env[str, str]:
        raise OSError("no device\nat all")

    with pytest.raises(EngineError, match=r"^depot cannot be made: OSError: no device$"):
        TextEnvironment(broken).spec("depot").make("train")


def test_an_id_that_a_module_registers_is_named_as_gymnasium_names_it():
    spec = environment("tests.registers_doors:Doors-v7")
    assert spec.name == "tests.registers_doors:Doors-v7"
    env = spec.make("train")
    assert "door" in env.reset(options={"task": "3"})[0]
    env.close()
    with pytest.raises(UsageError, match="has no Doors-v8"):
        environment("tests.registers_doors:Doors-v8")


def test_what_is_declared_is_on_record():
    assert DOORS.spec("doors").declared == {"return_range": [-4.0, 2.0], "won_at": None, "step_limit": 50}


class Dice(gym.Env[str, str]):
    """Throws with the generators of the process."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.sum = random.randint(1, 6)
        return f"{self.sum}", {"won": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.sum += random.randint(1, 6) + int(np.random.randint(100))
        return f"{self.sum}", 0.0, False, False, {"won": np.bool_(action == "call it")}


DICE = TextEnvironment(Dice, global_random=True)


def thrown(env: PlainEnv, turns: int) -> list[str]:
    return [env.step("throw")[0] for _ in range(turns)]


def test_global_random_is_the_tasks_and_the_callers_stays_its_own():
    one, other = made(DICE), made(DICE)
    first = [one.reset(options={"task": "1"})[0], *thrown(one, 3)]
    random.seed(5)
    np.random.seed(5)
    expected = (random.Random(5).random(), np.random.RandomState(5).rand())
    other.reset(options={"task": "1"})
    one.reset(options={"task": "2"})
    both = [(thrown(one, 1), thrown(other, 1))[1][0] for _ in range(3)]
    assert both == first[1:]
    assert (random.random(), np.random.rand()) == expected


class Slow(Dice):
    """Gives other threads a chance between its draws."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        draws = [random.randint(1, 6) for _ in range(5) if not threading.Event().wait(0.001)]
        self.sum += sum(draws)
        return f"{self.sum}", 0.0, False, False, {}


def test_global_random_is_each_episodes_own_in_threads():
    envs = [made(TextEnvironment(Slow, global_random=True)) for _ in range(4)]
    tasks = [str(number) for number in range(4)]

    def play(number: int) -> list[str]:
        envs[number].reset(options={"task": tasks[number]})
        return thrown(envs[number], 10)

    alone = [play(number) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(play, range(4))) == alone


def test_global_random_comes_back_with_a_state():
    env = made(DICE)
    env.reset(options={"task": "1"})
    thrown(env, 2)
    state = env.snapshot()
    after = thrown(env, 3)
    env.reset(options={"task": "2"})
    env.restore(state)
    assert thrown(env, 3) == after


def test_info_says_who_has_won():
    env = made(DICE)
    env.reset(options={"task": "1"})
    assert not env.step("throw")[4]["won"]
    assert env.step("call it")[4]["won"]


class Unsteady(Doors):
    """Counts its resets, so that a replay goes differently."""

    resets = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        text, info = super().reset(seed=seed, options=options)
        Unsteady.resets += 1
        return f"{text} ({Unsteady.resets})", info


def _put(env: Any, state: dict[str, Any]) -> None:
    vars(env).update(copy.deepcopy(state))


SAVED = TextEnvironment(
    Unsteady,
    return_range=RANGE,
    save=lambda env: copy.deepcopy(vars(env)),
    restore=_put,
    read_only_actions=("open red",),
)


def test_a_state_is_restored_by_the_environments_own_functions_not_by_replay():
    env = made(SAVED)
    opening, _ = env.reset(options={"task": "1"})
    env.step(wrong_door(opening))
    state, before = env.snapshot(), Unsteady.resets
    ended = env.step(right_door(opening))
    assert ended[4]["raw_score"] == 1.0
    env.restore(state)
    assert Unsteady.resets == before
    assert env.probe("open red")
    assert env.step(right_door(opening))[:4] == ended[:4]
    env.reset(options={"task": "2"})
    env.restore(state)
    assert env.step(right_door(opening))[4]["raw_score"] == 1.0


def test_save_and_restore_are_declared_together():
    with pytest.raises(UsageError, match="save and restore belong together"):
        TextEnvironment(Doors, save=copy.deepcopy)


def test_schemas_of_tools_are_carried_in_the_specification():
    tool: dict[str, JsonValue] = {"type": "function", "function": {"name": "open", "parameters": {"type": "object"}}}
    assert TextEnvironment(Doors, tools=(tool,)).spec("doors").tools == (tool,)
    assert DOORS.spec("doors").tools == ()
