"""Many environments stepped together in one process: gymnasium's `SyncVectorEnv`, with infos put together at once.

What comes back is the same to the byte. gymnasium writes each value of each environment's info into an array by itself,
which takes longer than a step of a fast engine; here the infos of one step wait until all environments have had their
turn, and each key becomes an array in one go. Infos of differing shape are left to gymnasium.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import concatenate, iterate
from numpy.typing import NDArray

NUMBERS = (int, float, bool)


class TextVectorEnv(gym.vector.SyncVectorEnv):
    """See `make_vec`. Everything but the speed is gymnasium's."""

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """As gymnasium's."""
        observations: list[Any] = []
        rewards, terminated, truncated = np.zeros(self.num_envs), *np.zeros((2, self.num_envs), dtype=np.bool_)
        infos: list[dict[str, Any]] = []
        over = self._autoreset_envs.tolist()
        for number, (env, action) in enumerate(zip(self.envs, iterate(self.action_space, actions), strict=True)):
            if over[number]:
                observation, info = env.reset()
            else:
                observation, rewards[number], terminated[number], truncated[number], info = env.step(action)
            observations.append(observation)
            infos.append(info)
        self._env_obs, self._rewards = observations, rewards
        self._terminations, self._truncations = terminated, truncated
        self._observations = concatenate(self.single_observation_space, observations, self._observations)
        self._autoreset_envs = terminated | truncated
        return deepcopy(self._observations), rewards.copy(), terminated.copy(), truncated.copy(), self._gathered(infos)

    def _gathered(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """What gymnasium makes of the infos of all environments."""
        together = self._together(infos)
        if together is None:
            together = {}
            for number, info in enumerate(infos):
                together = self._add_info(together, info, number)
        return together

    def _together(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """The same, where all infos have the same keys and plain values; None for all else."""
        keys = list(infos[0])
        if any(list(info) != keys for info in infos):
            return None
        together: dict[str, Any] = {}
        for key in keys:
            column = [info[key] for info in infos]
            array = None if key == "final_obs" or key.startswith("_") else _array(column)
            if array is None:
                return None
            together[key], together[f"_{key}"] = array, np.ones(self.num_envs, dtype=np.bool_)
        return together


def _array(column: list[Any]) -> NDArray[Any] | None:
    """Plain numbers of one type as an array of it, other plain objects as one of objects; None for all else."""
    kinds = set(map(type, column))
    if len(kinds) == 1 and kinds <= set(NUMBERS):
        return np.array(column, dtype=type(column[0]))
    if type(column[0]) in NUMBERS or any(issubclass(kind, np.ndarray | np.generic | dict) for kind in kinds):
        return None
    return np.fromiter(column, dtype=object, count=len(column))
