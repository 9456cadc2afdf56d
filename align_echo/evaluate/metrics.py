"""Metrics of what agents do, each with a 95% interval; pure functions but for the replay of invalid actions.

Shares are percentages (0 to 100). Trajectories that ended in a fault are left out by every function, the callers count
them. Success and score are in `align_echo.intervals`, comparisons in `comparison.py`, tables in `tables.py`.

The invalid-action metric (the ALIGN paper, section 4.3): the agent's own actions, first line of each, are replayed from
a fresh reset in the plain environment without any interface. A step is invalid if the environment refuses it; counted
are the invalid steps inside maximal runs of two or more, divided by all steps, pooled over tasks. A step whose reply
held no action counts as invalid. A step after the replayed episode has ended counts as valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import gymnasium as gym

from align_echo.errors import UsageError
from align_echo.evaluate.refusals import refusal_test
from align_echo.intervals import Estimate, by_task, ratio, scored
from align_echo.invalid import steps_in_runs
from align_echo.types import Step, Trajectory
from align_echo.wrappers.catalogue import recorded_environment
from align_echo.wrappers.environment import EnvironmentSpec


def share_of_replies(
    trajectories: Sequence[Trajectory], holds: Callable[[Step], bool], *, seed: int = 0
) -> Estimate:
    """Percent of the agent's replies of which something holds, pooled, with a bootstrap interval over tasks."""
    groups = by_task(scored(trajectories)).values()
    counts = [float(sum(holds(step) for trajectory in group for step in trajectory.steps)) for group in groups]
    return _scaled(
        ratio(counts, [float(sum(len(trajectory.steps) for trajectory in group)) for group in groups], seed=seed), 100
    )


# ---------------------------------------------------------------- consecutive invalid actions


def share_in_runs(invalid: Sequence[Sequence[bool]]) -> float:
    """Percent of all steps of all tasks that lie inside runs of two or more invalid ones; 0 where there is no step."""
    steps = sum(len(task) for task in invalid)
    return 100 * sum(steps_in_runs(task) for task in invalid) / steps if steps else 0.0


def share_estimate(trajectories: Sequence[Trajectory], invalid: Sequence[Sequence[bool]], *, seed: int = 0) -> Estimate:
    """`share_in_runs` with a bootstrap interval over tasks. `invalid[i]` holds the steps of `trajectories[i]`."""
    bad, steps = run_counts(trajectories, invalid)
    return _scaled(ratio(bad, steps, seed=seed), 100)


def run_counts(
    trajectories: Sequence[Trajectory], invalid: Sequence[Sequence[bool]]
) -> tuple[list[float], list[float]]:
    """(steps inside runs, all steps) per task, tasks in order of their first trajectory."""
    flags = {id(trajectory): task for trajectory, task in zip(trajectories, invalid, strict=True)}
    groups = by_task(trajectories).values()
    bad = [float(sum(steps_in_runs(flags[id(trajectory)]) for trajectory in group)) for group in groups]
    return bad, [float(sum(len(flags[id(trajectory)]) for trajectory in group)) for group in groups]


def replay_invalid(env: gym.Env[str, str], is_invalid: Callable[[str], bool], trajectory: Trajectory) -> list[bool]:
    """Per step, whether the plain environment refuses the agent's own action when replayed from a fresh reset.

    `env` must be the raw environment with a step limit of at least the trajectory's length. Raises `UsageError` for an
    environment that does not know the task, `EngineError` if the engine breaks.
    """
    env.reset(seed=trajectory.seed, options={"task": trajectory.task_id})
    flags: list[bool] = []
    over = False
    for action in trajectory.actions:
        if action is None:
            flags.append(True)
        elif over:
            flags.append(False)
        else:
            observation, _, terminated, truncated, _ = env.step(first_line(action))
            flags.append(is_invalid(observation))
            over = terminated or truncated
    return flags


def replay_all(
    spec: EnvironmentSpec,
    is_invalid: Callable[[str], bool],
    trajectories: Sequence[Trajectory],
    *,
    data_root: str | Path | None = None,
) -> list[list[bool]]:
    """`replay_invalid` of trajectories of one environment, in order, in the splits that they name."""
    envs: dict[str, gym.Env[str, str]] = {}
    limit = max((len(trajectory.steps) for trajectory in trajectories), default=0) + 1
    flags = []
    try:
        for trajectory in trajectories:
            split = trajectory.split
            if split not in envs:
                envs[split] = spec.make(split, data_root=data_root, step_limit=limit)
            flags.append(replay_invalid(envs[split], is_invalid, trajectory))
    finally:
        for env in envs.values():
            env.close()
    return flags


def consecutive_invalid_share(trajectories: Sequence[Trajectory], *, data_root: str | Path | None = None) -> float:
    """ALIGN's metric: percent (0 to 100) of the agent's actions inside runs of two or more consecutive invalid ones.

    The actions are replayed in the plain environment that the trajectories name, without their interface (see the
    module's docstring). `data_root` is the data folder they were made with, if not the default. Trajectories with a
    fault are left out. Raises `UsageError` for an unknown environment, split or task, for a `module:Name` that nobody
    said to this program, and for an environment in which no text tells a refusal.
    """
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in scored(trajectories):
        groups.setdefault(trajectory.environment, []).append(trajectory)
    flags: list[list[bool]] = []
    for name, played in groups.items():
        spec = recorded_environment(name, "a trajectory", "name it first: align_echo.make(NAME)")
        test = refusal_test(spec, data_root)
        if test is None:
            raise UsageError(f"the metric is not defined in {name}: nothing that it answers tells a refused action")
        flags += replay_all(spec, test.is_invalid, played, data_root=data_root)
    return share_in_runs(flags)


def first_line(action: str) -> str:
    """The first line of an action, as the metric replays it."""
    return action.strip().split("\n", 1)[0]


def mean_length(trajectories: Sequence[Trajectory]) -> float:
    """Mean number of the agent's turns; 0 for none."""
    return fmean(len(trajectory.steps) for trajectory in trajectories) if trajectories else 0.0


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    low, high = estimate.ci95
    return Estimate(value=factor * estimate.value, n=estimate.n, ci95=(factor * low, factor * high))
