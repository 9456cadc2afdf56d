"""The training side of an environment, as Algorithm 1 uses it: which tasks, wrapped how, an expert's way through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym

from align_echo.interface import Interface
from align_echo.session import base_env
from align_echo.wrappers.environment import EnvironmentSpec


@dataclass(frozen=True)
class World:
    """The training split of an environment. `data_root` None: where the environment looks by itself."""

    spec: EnvironmentSpec
    data_root: Path | None = None

    @property
    def split(self) -> str:
        """The training split."""
        return self.spec.train_split

    @property
    def games(self) -> str:
        """Which games are played, for the record. Raises `MissingDataError`."""
        return self.spec.games(self.data_root)

    def env(self, interface: Interface | None = None) -> gym.Env[str, str]:
        """A new environment, wrapped if an interface is given. Raises `MissingDataError`, `InterfaceError`."""
        return self.spec.make(self.split, interface=interface, data_root=self.data_root)

    def tasks(self, iteration: int, seed: int, limit: int | None = None) -> list[str]:
        """ALIGN's training tasks of an iteration; at most `limit` of them, spread evenly over the task types."""
        tasks = self.spec.training_tasks(data_root=self.data_root, iteration=iteration, seed=seed)
        return tasks if limit is None else spread(tasks, limit, self.spec.task_type)

    def gold(self, task_id: str) -> list[tuple[str, str]]:
        """The expert's actions and what the raw environment answers, in order; empty where there is no expert."""
        env = self.env()
        try:
            env.reset(seed=0, options={"task": task_id})
            played: list[tuple[str, str]] = []
            over = False
            while not over and (action := base_env(env).oracle().expert_action()) is not None:
                observation, _, terminated, truncated, _ = env.step(action)
                played.append((action, observation))
                over = terminated or truncated
            return played
        finally:
            env.close()


def spread(tasks: Sequence[str], limit: int, type_of: Callable[[str], str]) -> list[str]:
    """At most `limit` tasks, one of each type in turn, in their given order."""
    by_type: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        by_type[type_of(task)].append(task)
    turns = sorted((turn, task) for queue in by_type.values() for turn, task in enumerate(queue))
    chosen = {task for _, task in turns[:limit]}
    return [task for task in tasks if task in chosen]
