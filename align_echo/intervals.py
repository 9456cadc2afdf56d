"""Figures over trajectories with 95% intervals: success, score, and the bootstrap over tasks. Pure functions.

Rates and shares are percentages (0 to 100), scores lie in [0, 1]. Trajectories that ended in a fault have no score:
every function leaves them out, the callers count them. Left out: what agents did (`align_echo.evaluate.metrics`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import PositiveInt, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from align_echo.errors import UsageError
from align_echo.types import Frozen, Trajectory

RESAMPLES = 4000
AT_ONCE = 2**21
"""Tasks times resamples that are drawn at once: of more tasks, the resamples come in blocks."""

Z95 = NormalDist().inv_cdf(0.975)
Floats = npt.NDArray[np.float64]
NOTHING = "there is no finished episode to measure"
ROUNDING = 1e-6
"""By how much a figure that a file holds may lie outside of its bounds."""

TaskKey = tuple[str, str, str]
"""Environment, split and task id."""

ALIKE = 6
"""Tasks that must all have changed alike before chance is ruled out: 2 * 0.5**6 = 0.03."""


class Estimate(Frozen):
    """A figure over `n` tasks with the two ends of its 95% interval, as every summary writes it. `ci95` is None where
    the data give no interval: one task does not, and neither do tasks that are all alike.
    """

    value: float
    n: PositiveInt
    ci95: tuple[float, float] | None

    @model_validator(mode="before")
    @classmethod
    def _of_older_folders(cls, values: Any) -> Any:
        """Read what older versions wrote, whose intervals have two keys, `low` and `high`."""
        if isinstance(values, Mapping) and {"low", "high"} <= values.keys() and "ci95" not in values:
            rest = {name: value for name, value in values.items() if name not in ("low", "high")}
            return {**rest, "ci95": (values["low"], values["high"])}
        return values

    @property
    def low(self) -> float:
        """The lower end of the interval, minus infinity without one."""
        return -math.inf if self.ci95 is None else self.ci95[0]

    @property
    def high(self) -> float:
        """The upper end of the interval, infinity without one."""
        return math.inf if self.ci95 is None else self.ci95[1]

    @property
    def sign(self) -> int:
        """Return 1 or -1 where the figure is shown to be above or below zero, else 0.

        Its interval shows it. Tasks that are all alike give no interval: there the sign test does, two-sided at 5%,
        from `ALIKE` tasks on.
        """
        if self.ci95 is None and self.n >= ALIKE:
            return (self.value > 0) - (self.value < 0)
        return (self.low > 0) - (self.high < 0)

    def interval(self, digits: int = 1, *, signed: bool = False) -> str:
        """Return the interval as text, "[39.1, 86.2]"; "-" without one."""
        if self.ci95 is None:
            return "-"
        low, high = (f"{end:{'+' if signed else ''}.{digits}f}" for end in self.ci95)
        return f"[{low}, {high}]"

    def scaled(self, factor: float) -> Estimate:
        """Return the same figure in another unit."""
        ends = None if self.ci95 is None else (factor * self.ci95[0], factor * self.ci95[1])
        return Estimate(value=factor * self.value, n=self.n, ci95=ends)


def _checked_on_reading(low: float, high: float, *, interval_holds_value: bool = True) -> WrapValidator:
    """Return a check of what a file holds. An estimate that was computed passes: no evaluation may fail at its end."""

    def check(stored: Any, read: ValidatorFunctionWrapHandler) -> Estimate:
        estimate: Estimate = read(stored)
        problem = "" if isinstance(stored, Estimate) else _problem(estimate, low, high, interval_holds_value)
        if problem:
            raise ValueError(problem)
        return estimate

    return WrapValidator(check)


def _problem(estimate: Estimate, low: float, high: float, interval_holds_value: bool) -> str:
    """Say in words why this can be no such figure; "" if it can."""
    ends = estimate.ci95 or (estimate.value, estimate.value)
    for number in (estimate.value, *ends):
        if not math.isfinite(number) or not low - ROUNDING <= number <= high + ROUNDING:
            return f"{number:g} is no number in [{low:g}, {high:g}]"
    interval = f"its interval [{ends[0]:g}, {ends[1]:g}]"
    if ends[0] > ends[1]:
        return f"{interval} ends before it begins"
    if interval_holds_value and not ends[0] - ROUNDING <= estimate.value <= ends[1] + ROUNDING:
        return f"{interval} does not hold its value {estimate.value:g}"
    return ""


Percent = Annotated[Estimate, _checked_on_reading(0, 100)]
Score = Annotated[Estimate, _checked_on_reading(0, 1)]
"""A figure in [0, 1]."""

Area = Annotated[Estimate, _checked_on_reading(0, 1, interval_holds_value=False)]
"""An area under a curve: a statistic of ranks, which its bootstrap interval need not hold."""

Points = Annotated[Estimate, _checked_on_reading(-100, 100)]
ScoreChange = Annotated[Estimate, _checked_on_reading(-1, 1)]
SharePoints = Annotated[Estimate, _checked_on_reading(-100, 100, interval_holds_value=False)]
"""A difference of two shares, or of what is no mean over tasks: its bootstrap interval need not hold it."""

Reduction = Annotated[Estimate, _checked_on_reading(-math.inf, 100, interval_holds_value=False)]
"""By how many percent a share fell; below 0 where it rose."""


def scored(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """The trajectories without a fault."""
    return [trajectory for trajectory in trajectories if trajectory.fault is None]


def wilson(successes: int, n: int) -> Estimate:
    """A rate in percent with its 95% Wilson interval. Raises `UsageError` unless 0 <= successes <= n and n >= 1."""
    if n < 1 or not 0 <= successes <= n:
        raise UsageError(f"a rate needs at least one task and 0 <= successes <= n, not {successes} of {n}")
    low, high = _wilson_ends(successes / n, n)
    return Estimate(value=100 * successes / n, n=n, ci95=(low, high))


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
    return clustered_rate(
        [sum(trajectory.won for trajectory in group) for group in groups], [len(group) for group in groups]
    )


def clustered_rate(successes: Sequence[int], sizes: Sequence[int]) -> Estimate:
    """`successes[i]` of `sizes[i]` of task i, pooled, in percent; the Wilson interval of `effective_draws` of them,
    none for one task.

    Raises `UsageError` for no task.
    """
    if not sizes:
        return wilson(0, 0)
    rate = sum(successes) / sum(sizes)
    ends = _wilson_ends(rate, effective_draws(successes, sizes)) if len(sizes) > 1 else None
    return Estimate(value=100 * rate, n=len(sizes), ci95=ends)


def effective_draws(won: Sequence[int], sizes: Sequence[int]) -> float:
    """How many independent draws say as much as `won[i]` of `sizes[i]` episodes of task i: tasks to episodes.

    The draws whose variance is that of the rate with tasks as clusters (Kish 1965; a Wilson interval over so many:
    Franco et al., J. Surv. Stat. Methodol. 7(3), 2019). Where all or none were won the clusters say nothing of
    themselves: a task then counts as one draw.
    """
    tasks, episodes = len(sizes), sum(sizes)
    rate = sum(won) / episodes
    spread = sum((wins - rate * size) ** 2 for wins, size in zip(won, sizes, strict=True))
    if tasks == 1 or rate in (0, 1):
        return tasks
    if spread == 0:
        return episodes
    variance = spread / episodes**2 * tasks / (tasks - 1)
    return min(max(rate * (1 - rate) / variance, tasks), episodes)


def mean_score(trajectories: Sequence[Trajectory], *, seed: int = 0) -> Estimate:
    """Mean final score in [0, 1], with a percentile bootstrap interval over tasks. Raises `UsageError` for none."""
    groups = by_task(scored(trajectories)).values()
    return mean_of_tasks([[trajectory.score for trajectory in group] for group in groups], seed=seed)


def mean_of_tasks(scores: Sequence[Sequence[float]], *, seed: int = 0) -> Estimate:
    """As `mean_score`, of the scores of the episodes of each task."""
    mean = share([sum(task) for task in scores], [len(task) for task in scores], seed=seed)
    if mean is None:
        raise UsageError(NOTHING)
    return mean


def by_task(trajectories: Sequence[Trajectory]) -> dict[TaskKey, list[Trajectory]]:
    """Group trajectories by task, in order of first appearance."""
    groups: dict[TaskKey, list[Trajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault(task_of(trajectory), []).append(trajectory)
    return groups


def task_of(trajectory: Trajectory) -> TaskKey:
    """Return what tells the task of an episode from all others."""
    return trajectory.environment, trajectory.split, trajectory.task_id


def ratio(numerators: Sequence[float], denominators: Sequence[float], *, seed: int = 0) -> Estimate:
    """Sum over sum (a pooled ratio; a mean where every denominator is 1), with a bootstrap interval over tasks. Raises
    `UsageError` where there is nothing to divide by.
    """
    if not sum(denominators):
        raise UsageError(NOTHING)
    parts = {"n": np.asarray(numerators, dtype=float), "d": np.asarray(denominators, dtype=float)}
    return bootstrap(parts, lambda sums: safe_ratio(sums["n"], sums["d"]), seed=seed)


def share(numerators: Sequence[float], denominators: Sequence[float], *, seed: int = 0) -> Estimate | None:
    """As `ratio`, of what lies in [0, 1] in every task; None where there is nothing to divide by."""
    if not sum(denominators):
        return None
    return _bounded(ratio(numerators, denominators, seed=seed), (0, 1), sum(map(bool, denominators)))


def bootstrap(
    per_task: Mapping[str, Floats],
    statistic: Callable[[Mapping[str, Floats]], Floats],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """A statistic of sums over tasks, with a seeded 95% percentile interval from resampling whole tasks.

    `per_task[name]` has shape (tasks,); `statistic` maps sums of shape (k,) to values of shape (k,). Quantities of one
    task stay together, so a statistic on two variants is paired. Tasks that are all alike give no interval; where all
    of several are at one of the `bounds` that no task can pass, it is Wilson's, with a task as one draw. Raises
    `UsageError` for no task.
    """
    columns = np.stack(list(per_task.values()), axis=1)
    sums = np.concatenate([draws @ columns for draws in _draws(len(columns), seed, resamples)])
    values = statistic(dict(zip(per_task, sums.T, strict=True)))
    exact = statistic({name: np.asarray([column.sum()]) for name, column in per_task.items()})[0]
    return _bounded(_percentiles(exact, values, len(columns)), bounds, len(columns))


def bootstrap_times(
    statistic: Callable[[npt.NDArray[np.int64]], float], tasks: int, *, seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """As `bootstrap`, of a statistic that is no function of sums, such as one of ranks; slower.

    `statistic` maps how many times each task counts (tasks,) to a value, NaN where there is none. Raises `UsageError`
    for no task.
    """
    values = np.asarray([statistic(times) for draws in _draws(tasks, seed, resamples) for times in draws])
    return _percentiles(statistic(np.ones(tasks, dtype=np.int64)), values, tasks)


def _draws(n: int, seed: int, resamples: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield how many times each of n tasks was drawn, in n draws with replacement: blocks of [some resamples, n]."""
    if n == 0:
        raise UsageError(NOTHING)
    generator, left = np.random.default_rng(seed), resamples
    while left > 0:
        rows = min(left, max(1, AT_ONCE // n))
        yield generator.multinomial(n, np.full(n, 1 / n), size=rows)
        left -= rows


def _percentiles(exact: float, values: Floats, n: int) -> Estimate:
    finite = values[np.isfinite(values)]
    low, high = map(float, np.percentile(finite, [2.5, 97.5])) if len(finite) else (exact, exact)
    return Estimate(value=float(exact), n=n, ci95=(low, high) if low < high else None)


def _bounded(estimate: Estimate, bounds: tuple[float, float], draws: int) -> Estimate:
    """The estimate, with an interval where it has none and lies at one of its bounds; `draws` tasks say so."""
    if estimate.ci95 is not None or estimate.n == 1 or estimate.value not in bounds:
        return estimate
    low, high = bounds
    ends = _wilson_ends(float(estimate.value == high), draws)
    first, last = (low + (high - low) * end / 100 for end in ends)
    return Estimate(value=estimate.value, n=estimate.n, ci95=(first, last))


def safe_ratio(numerators: Floats, denominators: Floats) -> Floats:
    """Elementwise quotient, NaN where the denominator is 0."""
    return np.divide(numerators, denominators, out=np.full_like(numerators, np.nan), where=denominators != 0)
