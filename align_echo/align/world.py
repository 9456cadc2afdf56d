"""Training side of an environment for Algorithm 1: tasks, wrapped environments and expert solutions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym

from align_echo.align.run_folder import Event, IterationRecord, RunSummary
from align_echo.interface.contract import Interface
from align_echo.intervals import Estimate
from align_echo.registry import quantity
from align_echo.rollout.faults import fault_text
from align_echo.rollout.session import base_env
from align_echo.types import Trajectory
from align_echo.wrappers.environment import EnvironmentSpec


@dataclass(frozen=True)
class TrainingSplit:
    """Training split of an environment. `data_root=None` uses the environment's default location."""

    spec: EnvironmentSpec
    data_root: Path | None = None

    @property
    def split(self) -> str:
        """Name of the training split."""
        return self.spec.train_split

    @property
    def games(self) -> str:
        """Name of the game collection. Raises `MissingDataError`."""
        return self.spec.games(self.data_root)

    def env(self, interface: Interface | None = None) -> gym.Env[str, str]:
        """Create an environment, wrapped if `interface` is given. Raises `MissingDataError` or `InterfaceError`."""
        return self.spec.make(self.split, interface=interface, data_root=self.data_root)

    def tasks(self, iteration: int, seed: int, limit: int | None = None) -> list[str]:
        """Return ALIGN's training tasks of an iteration; at most `limit`, spread evenly over task types."""
        tasks = self.spec.training_tasks(data_root=self.data_root, iteration=iteration, seed=seed)
        return tasks if limit is None else spread(tasks, limit, self.spec.task_type)

    def gold(self, task_id: str) -> list[tuple[str, str]]:
        """Return the expert's actions with the raw observations, in order; empty if no expert solves the task."""
        if not self.spec.has_expert(task_id):
            return []
        env = self.env()
        try:
            env.reset(seed=0, options={"task": task_id})
            played: list[tuple[str, str]] = []
            over = False
            while not over and (action := base_env(env).oracle().expert_action()) is not None:
                observation, _, terminated, truncated, _ = env.step(action)
                played.append((action, observation))
                over = terminated or truncated
            return played if base_env(env).state.won else []
        finally:
            env.close()


def spread(tasks: Sequence[str], limit: int, type_of: Callable[[str], str]) -> list[str]:
    """Take at most `limit` tasks, alternating between types and preserving order within each type."""
    by_type: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        by_type[type_of(task)].append(task)
    turns = sorted((turn, task) for queue in by_type.values() for turn, task in enumerate(queue))
    chosen = {task for _, task in turns[:limit]}
    return [task for task in tasks if task in chosen]


# ---------------------------------------------------------------- what a run of ALIGN says of itself


def ending(summary: RunSummary) -> str:
    """Describe in one line why a run ended and what it produced."""
    if summary.stopped == "budget":
        count = f"{quantity(summary.misalignments, 'misalignment')} found, rules written for {summary.addressed}"
        if not summary.misalignments:
            count = "no result: nothing was found out before"
        return f"{summary.budget.in_words}; {count}"
    last = summary.iterations[-1]
    failed, played = quantity(last.failed, "episode"), quantity(last.tasks, "episode")
    why = {
        "no-failures": "every training task of the last iteration was won",
        "no-misalignments": f"in the {failed} that failed last, the {summary.backend} backend found no "
        "new misalignment of the kinds that it looks for, which is no proof that there is none",
        "iteration-limit": f"the iterations are used up; {last.failed} of {played} of the last one failed",
    }[summary.stopped]
    broke = f" ({_broken(last.faults)})" if last.faults else ""
    rules = f"rules written for {summary.addressed}{_coverage(summary)}"
    return f"{why}{broke}; {quantity(summary.misalignments, 'misalignment')} found, {rules}"


def iteration_line(record: IterationRecord) -> str:
    """Describe an iteration's result in one line."""
    misalignments = quantity(record.misalignments, "misalignment")
    words = {
        "written": f"rules were written for {record.addressed} of {misalignments}{_coverage(record)}",
        "unchanged": f"no rule was written for {misalignments}; the old interface is kept",
        "no-failures": "no episode failed",
        "no-misalignments": "no new misalignment was found",
    }
    if record.budget.ended_by:
        words["no-misalignments"] = "no result: the budget was spent before"
    played = f"{record.failed} of {quantity(record.tasks, 'episode')} failed"
    broke = f", {_broken(record.faults)}" if record.faults else ""
    return f"iteration {record.iteration}: {played}{broke}; {words[record.outcome]}"


def _coverage(counted: RunSummary | IterationRecord) -> str:
    """Describe the experiments behind the rules; "" without rules, and for a record of an older version."""
    coverage = counted.coverage
    return f" ({coverage.in_words})" if coverage and coverage.rules else ""


def given_up_line(label: str, share: Estimate, better: str, better_share: Estimate) -> str:
    """Explain why a run ends with an earlier version, with both shares."""
    return f"{label} lost {_lost(share)}, and {better} {_lost(better_share)}, which is clearly less: that one is kept"


def _broken(faults: int) -> str:
    return f"{faults} broke and {'was' if faults == 1 else 'were'} left out"


def _lost(share: Estimate) -> str:
    return f"{round(share.value * share.n / 100)} of {quantity(share.n, 'episode')}"


def episode_event(trajectory: Trajectory, iteration: int, done: int, total: int) -> Event:
    """Build the event for a finished episode."""
    won: bool | None = trajectory.won
    outcome = "won" if trajectory.won else "not won"
    if trajectory.fault is not None:
        won = None
        outcome = f"broke and is left out ({fault_text(trajectory.fault)})"
    return Event(
        kind="trajectory",
        message=f"{trajectory.task_id}: {outcome} after {quantity(len(trajectory.steps), 'action')}",
        iteration=iteration,
        done=done,
        total=total,
        task_id=trajectory.task_id,
        won=won,
        fault=trajectory.fault,
    )
