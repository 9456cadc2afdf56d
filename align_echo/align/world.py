"""The training side of an environment, as Algorithm 1 uses it: which tasks, wrapped how, an expert's way through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym

from align_echo.align.run_folder import Event, IterationRecord, RunSummary
from align_echo.faults import fault_text
from align_echo.interface import Interface
from align_echo.intervals import Estimate
from align_echo.registry import quantity
from align_echo.session import base_env
from align_echo.types import Trajectory
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


# ---------------------------------------------------------------- what a run of ALIGN says of itself


def ending(summary: RunSummary) -> str:
    """Why a run ended and what came of it, in one line."""
    last = summary.iterations[-1]
    failed, played = quantity(last.failed, "episode"), quantity(last.tasks, "episode")
    why = {
        "no-failures": "every training task of the last iteration was won",
        "no-misalignments": f"in the {failed} that failed last, the {summary.backend} backend found no "
        "new misalignment of the kinds that it looks for, which is no proof that there is none",
        "iteration-limit": f"the iterations are used up; {last.failed} of {played} of the last one failed",
    }[summary.stopped]
    broke = f" ({_broken(last.faults)})" if last.faults else ""
    rules = f"rules written for {summary.addressed}"
    return f"{why}{broke}; {quantity(summary.misalignments, 'misalignment')} found, {rules}"


def iteration_line(record: IterationRecord) -> str:
    """What came of an iteration, in one line."""
    found = quantity(record.misalignments, "misalignment")
    words = {
        "written": f"rules were written for {record.addressed} of {found}",
        "unchanged": f"no rule was written for {found}; the old interface is kept",
        "no-failures": "no episode failed",
        "no-misalignments": "no new misalignment was found",
    }
    played = f"{record.failed} of {quantity(record.tasks, 'episode')} failed"
    broke = f", {_broken(record.faults)}" if record.faults else ""
    return f"iteration {record.iteration}: {played}{broke}; {words[record.outcome]}"


def given_up_line(label: str, share: Estimate, better: str, better_share: Estimate) -> str:
    """Why a run ends with an earlier version than its last, with both shares."""
    return f"{label} lost {_lost(share)}, and {better} {_lost(better_share)}, which is clearly less: that one is kept"


def _broken(faults: int) -> str:
    return f"{faults} broke and {'was' if faults == 1 else 'were'} left out"


def _lost(share: Estimate) -> str:
    return f"{round(share.value * share.n / 100)} of {quantity(share.n, 'episode')}"


def episode_event(trajectory: Trajectory, iteration: int, done: int, total: int) -> Event:
    """The event of an episode that has ended."""
    won: bool | None = trajectory.won
    ended = "won" if trajectory.won else "not won"
    if trajectory.fault is not None:
        won = None
        ended = f"broke and is left out ({fault_text(trajectory.fault)})"
    return Event(
        kind="trajectory",
        message=f"{trajectory.task_id}: {ended} after {quantity(len(trajectory.steps), 'action')}",
        iteration=iteration,
        done=done,
        total=total,
        task_id=trajectory.task_id,
        won=won,
        fault=trajectory.fault,
    )
