"""Many environments in one process: everything that gymnasium's own vector environment gives, to the byte."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import align_echo
from align_echo.wrappers.vector import TextVectorEnv
from tests.room_env import RoomEnv


class StrangeEnv(gym.Env[Any, Any]):
    """Somebody's environment, which puts into its info whatever there is, now and then."""

    observation_space = gym.spaces.Dict({"text": gym.spaces.Text(30), "cell": gym.spaces.Box(0, 9, (2,), np.float32)})
    action_space = gym.spaces.Discrete(3)

    def __init__(self, number: int) -> None:
        self._number = number
        self._turn = 0

    def _seen(self) -> dict[str, Any]:
        return {"text": f"turn {self._turn}", "cell": np.array([self._turn % 9, self._number], np.float32)}

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "count": self._turn,
            "share": self._turn / 3,
            "big": 2**40,
            "single": np.float32(0.5),
            "row": np.arange(3) + self._turn,
            "list": [1, 2],
            "pair": ("a", self._number),
            "nested": {"deep": {"value": self._number}, "text": "x"},
            "sometimes_text": "word" if self._turn % 2 else None,
            "sometimes_float": 1 if self._number else 1.5,
        }
        if (self._turn + self._number) % 3 == 0:
            info["rare"] = True
        if self._turn % 4 == 3:
            return {"won": bool(self._number), "name": f"n{self._number}", "score": float(self._turn)}
        if self._turn % 4 == 2:
            return {"_mask": 1, "mask": 2}
        return info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._turn = int(self.np_random.integers(3))
        return self._seen(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._turn += 1
        return self._seen(), int(action), self._turn > 6 + self._number, self._turn > 8, self._info()


def told(value: Any) -> Any:
    """A value with all that tells it from others: kinds and shapes, too."""
    if isinstance(value, np.ndarray):
        return "array", value.dtype.str, value.shape, [told(item) for item in value.tolist()]
    if isinstance(value, dict):
        return [(key, told(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [told(item) for item in value]
    return type(value).__name__, repr(value)


TextActions = Callable[[int], Any]
WORDS = ("look", "inventory", "go to study", "take mug 1", "nonsense")


def words(turn: int) -> Any:
    return tuple(WORDS[(turn * 3 + number) % len(WORDS)] for number in range(3))


def numbers(turn: int) -> Any:
    return np.array([(turn + number) % 3 for number in range(3)])


WORLDS: dict[str, tuple[list[Callable[[], gym.Env[Any, Any]]], TextActions]] = {
    "alfworld": ([partial(align_echo.make, "alfworld", split="valid_unseen", step_limit=4)] * 3, words),
    "alfworld under an interface": (
        [partial(align_echo.make, "alfworld", split="valid_unseen", step_limit=4, interface="probe")] * 3,
        words,
    ),
    "m3tooleval": ([partial(align_echo.make, "m3tooleval", step_limit=3)] * 3, words),
    "math": ([partial(align_echo.make, "math", step_limit=3)] * 3, words),
    "a room": ([partial(RoomEnv, 5)] * 3, words),
    "a stranger's": ([partial(StrangeEnv, number) for number in range(3)], numbers),
}


@pytest.mark.parametrize("world", WORLDS)
def test_many_play_as_gymnasium_has_them_play(world):
    makers, actions = WORLDS[world]
    theirs, ours = gym.vector.SyncVectorEnv(makers), TextVectorEnv(makers)
    assert isinstance(ours, gym.vector.VectorEnv)
    assert (ours.num_envs, ours.metadata) == (theirs.num_envs, theirs.metadata)
    assert (ours.action_space, ours.observation_space) == (theirs.action_space, theirs.observation_space)
    seeds: list[int | list[int | None]] = [5, [1, 8, 3]]
    for seed in seeds:
        assert told(ours.reset(seed=seed)) == told(theirs.reset(seed=seed))
        for turn in range(14):
            assert told(ours.step(actions(turn))) == told(theirs.step(actions(turn)))
    mask = {"reset_mask": np.array([True, False, True])}
    assert told(ours.reset(seed=2, options={**mask})) == told(theirs.reset(seed=2, options={**mask}))
    assert told(ours.step(actions(0))) == told(theirs.step(actions(0)))
    assert told(ours.get_attr("action_space")) == told(theirs.get_attr("action_space"))
    ours.close()
    theirs.close()


def test_what_was_given_does_not_change_with_the_next_step():
    envs = TextVectorEnv(WORLDS["a stranger's"][0])
    envs.reset(seed=0)
    first = envs.step(numbers(0))
    before = told(first)
    envs.step(numbers(1))
    assert told(first) == before


def test_a_wrong_number_of_actions_is_refused_as_gymnasium_does():
    for kind in (gym.vector.SyncVectorEnv, TextVectorEnv):
        envs = kind(WORLDS["a room"][0])
        envs.reset(seed=0)
        with pytest.raises(ValueError, match="zip"):
            envs.step(("look",))


def test_make_vec_makes_them():
    envs = align_echo.make_vec("alfworld", n=2, split="valid_unseen")
    assert isinstance(envs, TextVectorEnv)
    envs.close()
