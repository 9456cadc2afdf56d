"""Metrics over trajectories, each with a 95% interval; pure functions but for the replay of the invalid-action metric.

Rates and shares are percentages (0 to 100), scores lie in [0, 1]. Trajectories that ended in a fault have no score:
every function leaves them out, the callers count them. Comparisons are in `comparison.py`, tables in `tables.py`.

The invalid-action metric (the ALIGN paper, section 4.3): the agent's own actions, first line of each, are replayed from
a fresh reset in the plain environment without any interface. A step is invalid if the environment refuses it; counted
are the invalid steps inside maximal runs of two or more, divided by all steps, pooled over tasks. A step whose reply
held no action counts as invalid. A step after the replayed episode has ended counts as valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import NormalDist, fmean

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from align_echo.errors import UsageError
from align_echo.types import Frozen, Step, Trajectory
from align_echo.wrappers.catalogue import environment, make

RESAMPLES = 4000
Z95 = NormalDist().inv_cdf(0.975)
Floats = npt.NDArray[np.float64]


class Estimate(Frozen):
    """A figure with its 95% interval (`low`, `high`) over `n` tasks."""

    value: float
    low: float
    high: float
    n: int


def scored(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """The trajectories without a fault."""
    return [trajectory for trajectory in trajectories if trajectory.fault is None]


def wilson(successes: int, n: int) -> Estimate:
    """A rate in percent with its 95% Wilson interval. Raises `UsageError` unless 0 <= successes <= n and n >= 1."""
    if n < 1 or not 0 <= successes <= n:
        raise UsageError(f"a rate needs at least one task and 0 <= successes <= n, not {successes} of {n}")
    low, high = _wilson_ends(successes / n, n)
    return Estimate(value=100 * successes / n, low=low, high=high, n=n)


def _wilson_ends(rate: float, n: float) -> tuple[float, float]:
    """Both ends in percent, of a rate in [0, 1] over `n` independent draws."""
    scale = 1 + Z95**2 / n
    centre = (rate + Z95**2 / (2 * n)) / scale
    half = Z95 / scale * (rate * (1 - rate) / n + Z95**2 / (4 * n**2)) ** 0.5
    return (0.0 if rate == 0 else 100 * (centre - half)), (100.0 if rate == 1 else 100 * (centre + half))


def success_rate(trajectories: Sequence[Trajectory]) -> Estimate:
    """Percent of the episodes that were won, with its Wilson interval. Raises `UsageError` for none.

    Several episodes of one task are no independent draws: the interval is that of `effective_draws` of them.
    """
    groups = by_task(scored(trajectories)).values()
    won, sizes = [sum(one.won for one in group) for group in groups], [len(group) for group in groups]
    if not sizes:
        return wilson(0, 0)
    rate = sum(won) / sum(sizes)
    low, high = _wilson_ends(rate, effective_draws(won, sizes))
    return Estimate(value=100 * rate, low=low, high=high, n=len(sizes))


def effective_draws(won: Sequence[int], sizes: Sequence[int]) -> float:
    """How many independent draws say as much as `won[i]` of `sizes[i]` episodes of task i: tasks to episodes.

    The draws whose variance is that of the rate with tasks as clusters (Kish 1965; a Wilson interval over so many:
    Franco et al., J. Surv. Stat. Methodol. 7(3), 2019). Where all or none were won the clusters say nothing of
    themselves: a task then counts as one draw.
    """
    tasks, episodes = len(sizes), sum(sizes)
    rate = sum(won) / episodes
    spread = sum((one - rate * size) ** 2 for one, size in zip(won, sizes, strict=True))
    if tasks == 1 or rate in (0, 1):
        return tasks
    if spread == 0:
        return episodes
    variance = spread / episodes**2 * tasks / (tasks - 1)
    return min(max(rate * (1 - rate) / variance, tasks), episodes)


def mean_score(trajectories: Sequence[Trajectory], *, seed: int = 0) -> Estimate:
    """Mean final score in [0, 1], with a percentile bootstrap interval over tasks. Raises `UsageError` for none."""
    groups = by_task(scored(trajectories))
    totals = [sum(trajectory.score for trajectory in group) for group in groups.values()]
    return ratio(totals, [len(group) for group in groups.values()], seed=seed)


def share_of_replies(
    trajectories: Sequence[Trajectory], holds: Callable[[Step], bool], *, seed: int = 0
) -> Estimate:
    """Percent of the agent's replies of which something holds, pooled, with a bootstrap interval over tasks."""
    groups = by_task(scored(trajectories)).values()
    counts = [float(sum(holds(step) for one in group for step in one.steps)) for group in groups]
    return _scaled(ratio(counts, [float(sum(len(one.steps) for one in group)) for group in groups], seed=seed), 100)


# ---------------------------------------------------------------- consecutive invalid actions


def steps_in_runs(invalid: Sequence[bool]) -> int:
    """How many steps lie inside maximal runs of two or more invalid ones."""
    lengths = [sum(1 for _ in run) for bad, run in groupby(invalid) if bad]
    return sum(length for length in lengths if length >= 2)


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
    bad = [float(sum(steps_in_runs(flags[id(one)]) for one in group)) for group in groups]
    return bad, [float(sum(len(flags[id(one)]) for one in group)) for group in groups]


def shown_invalid(trajectory: Trajectory, is_invalid: Callable[[str], bool]) -> list[bool]:
    """Per step, whether the agent was shown a refusal in the engine's own words (an interface may change them)."""
    return [step.action is None or is_invalid(step.observation) for step in trajectory.steps]


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


def replay_all(trajectories: Sequence[Trajectory], *, data_root: str | Path | None = None) -> list[list[bool]]:
    """`replay_invalid` of every trajectory, in order, in the environments and splits that they name."""
    envs: dict[tuple[str, str], gym.Env[str, str]] = {}
    limit = max((len(trajectory.steps) for trajectory in trajectories), default=0) + 1
    flags = []
    try:
        for trajectory in trajectories:
            key = (trajectory.environment, trajectory.split)
            if key not in envs:
                envs[key] = make(key[0], split=key[1], data_root=data_root, step_limit=limit)
            flags.append(replay_invalid(envs[key], environment(key[0]).is_invalid, trajectory))
    finally:
        for env in envs.values():
            env.close()
    return flags


def consecutive_invalid_share(trajectories: Sequence[Trajectory], *, data_root: str | Path | None = None) -> float:
    """ALIGN's metric: percent (0 to 100) of the agent's actions inside runs of two or more consecutive invalid ones.

    The actions are replayed in the plain environment that the trajectories name, without their interface (see the
    module's docstring). `data_root` is the data folder they were made with, if not the default. Trajectories with a
    fault are left out. Raises `UsageError` for an unknown environment, split or task.
    """
    return share_in_runs(replay_all(scored(trajectories), data_root=data_root))


def first_line(action: str) -> str:
    """The first line of an action, as the metric replays it."""
    return action.strip().split("\n", 1)[0]


# ---------------------------------------------------------------- bootstrap over tasks


def by_task(trajectories: Sequence[Trajectory]) -> dict[tuple[str, str, str], list[Trajectory]]:
    """Trajectories grouped by (environment, split, task), in order of first appearance."""
    groups: dict[tuple[str, str, str], list[Trajectory]] = {}
    for trajectory in trajectories:
        key = (trajectory.environment, trajectory.split, trajectory.task_id)
        groups.setdefault(key, []).append(trajectory)
    return groups


def ratio(numerators: Sequence[float], denominators: Sequence[float], *, seed: int = 0) -> Estimate:
    """Sum over sum (a pooled ratio; a mean where every denominator is 1), with a bootstrap interval over tasks."""
    parts = {"n": np.asarray(numerators, dtype=float), "d": np.asarray(denominators, dtype=float)}
    return bootstrap(parts, lambda sums: safe_ratio(sums["n"], sums["d"]), seed=seed)


def bootstrap(
    per_task: Mapping[str, Floats],
    statistic: Callable[[Mapping[str, Floats]], Floats],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """A statistic of sums over tasks, with a seeded 95% percentile interval from resampling whole tasks.

    `per_task[name]` has shape (tasks,); `statistic` maps sums of shape (k,) to values of shape (k,). Quantities of one
    task stay together, so a statistic on two variants is paired. Raises `UsageError` for no task.
    """
    columns = np.stack(list(per_task.values()), axis=1)
    n = len(columns)
    if n == 0:
        raise UsageError("there is no finished episode to measure")
    generator = np.random.default_rng(seed)
    draws = generator.multinomial(n, np.full(n, 1 / n), size=resamples)
    values = statistic(dict(zip(per_task, (draws @ columns).T, strict=True)))
    exact = statistic({name: np.asarray([column.sum()]) for name, column in per_task.items()})[0]
    finite = values[np.isfinite(values)]
    low, high = np.percentile(finite, [2.5, 97.5]) if len(finite) else (exact, exact)
    return Estimate(value=float(exact), low=float(low), high=float(high), n=n)


def safe_ratio(numerators: Floats, denominators: Floats) -> Floats:
    """Elementwise quotient, 0 where the denominator is 0."""
    return np.divide(numerators, denominators, out=np.zeros_like(numerators), where=denominators != 0)


def mean_length(trajectories: Sequence[Trajectory]) -> float:
    """Mean number of the agent's turns; 0 for none."""
    return fmean(len(trajectory.steps) for trajectory in trajectories) if trajectories else 0.0


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(value=factor * estimate.value, low=factor * estimate.low, high=factor * estimate.high, n=estimate.n)
