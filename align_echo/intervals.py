"""Figures over trajectories with 95% intervals: success, score, and the bootstrap over tasks. Pure functions.

Rates and shares are percentages (0 to 100), scores are in [0, 1]. Trajectories with a fault have no score: every
function skips them, callers count them. Not here: agents' actions (`align_echo.rollout.refusals`).
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
"""Maximum tasks times resamples drawn at once; for more tasks, the resamples come in blocks."""

Z95 = NormalDist().inv_cdf(0.975)
Floats = npt.NDArray[np.float64]
NOTHING = "there is no finished episode to measure"
ROUNDING = 1e-6
"""Tolerance for stored figures outside of their bounds."""

TaskKey = tuple[str, str, str]
"""Environment, split and task id."""

ALIKE = 6
"""Minimum number of tasks with the same change to rule out chance: 2 * 0.5**6 = 0.03."""


class Estimate(Frozen):
    """A figure over `n` tasks with the ends of its 95% interval, as in every summary.

    `ci95` is None if the data give no interval, as for one task or for tasks with equal values.
    """

    value: float
    n: PositiveInt
    ci95: tuple[float, float] | None

    @model_validator(mode="before")
    @classmethod
    def _read_old_ends(cls, values: Any) -> Any:
        """Read files of older versions, whose intervals have two keys, `low` and `high`."""
        if isinstance(values, Mapping) and {"low", "high"} <= values.keys() and "ci95" not in values:
            rest = {name: value for name, value in values.items() if name not in ("low", "high")}
            return {**rest, "ci95": (values["low"], values["high"])}
        return values

    @property
    def low(self) -> float:
        """Lower end of the interval, minus infinity without one."""
        return -math.inf if self.ci95 is None else self.ci95[0]

    @property
    def high(self) -> float:
        """Upper end of the interval, infinity without one."""
        return math.inf if self.ci95 is None else self.ci95[1]

    @property
    def sign(self) -> int:
        """Return 1 or -1 if the figure is significantly above or below zero, else 0.

        Decided by the interval. Tasks with equal values give no interval: from `ALIKE` tasks on, the sign test
        decides, two-sided at 5%.
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
    """Build a validator of stored estimates. Computed estimates pass, so that no evaluation fails at its end."""

    def check(stored: Any, read: ValidatorFunctionWrapHandler) -> Estimate:
        estimate: Estimate = read(stored)
        problem = "" if isinstance(stored, Estimate) else _problem(estimate, low, high, interval_holds_value)
        if problem:
            raise ValueError(problem)
        return estimate

    return WrapValidator(check)


def _problem(estimate: Estimate, low: float, high: float, interval_holds_value: bool) -> str:
    """Describe why an estimate is impossible; "" if it is possible."""
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
"""Estimate in [0, 1]."""

Area = Annotated[Estimate, _checked_on_reading(0, 1, interval_holds_value=False)]
"""Area under a curve: a rank statistic, possibly outside of its bootstrap interval."""

Points = Annotated[Estimate, _checked_on_reading(-100, 100)]
ScoreChange = Annotated[Estimate, _checked_on_reading(-1, 1)]
SharePoints = Annotated[Estimate, _checked_on_reading(-100, 100, interval_holds_value=False)]
"""Difference of two shares, or of other statistics than means over tasks; may be outside of its bootstrap interval."""

Reduction = Annotated[Estimate, _checked_on_reading(-math.inf, 100, interval_holds_value=False)]
"""Relative decrease of a share in percent; negative if it rose."""


def scored(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the trajectories without a fault."""
    return [trajectory for trajectory in trajectories if trajectory.fault is None]


def wilson(successes: int, n: int) -> Estimate:
    """Compute a rate in percent with its 95% Wilson interval. Raises `UsageError` unless 0 <= successes <= n and n >=
    1.
    """
    if n < 1 or not 0 <= successes <= n:
        raise UsageError(f"a rate needs at least one task and 0 <= successes <= n, not {successes} of {n}")
    low, high = _wilson_ends(successes / n, n)
    return Estimate(value=100 * successes / n, n=n, ci95=(low, high))


def _wilson_ends(rate: float, n: float) -> tuple[float, float]:
    """Compute both ends in percent, for a rate in [0, 1] over `n` independent draws."""
    scale = 1 + Z95**2 / n
    centre = (rate + Z95**2 / (2 * n)) / scale
    half = Z95 / scale * (rate * (1 - rate) / n + Z95**2 / (4 * n**2)) ** 0.5
    return (0.0 if rate == 0 else 100 * (centre - half)), (100.0 if rate == 1 else 100 * (centre + half))


def success_rate(trajectories: Sequence[Trajectory]) -> Estimate:
    """Compute the percent of won episodes, with a Wilson interval. Raises `UsageError` if there are none.

    Episodes of the same task are not independent: the interval uses `effective_draws`.
    """
    groups = by_task(scored(trajectories)).values()
    return clustered_rate(
        [sum(trajectory.won for trajectory in group) for group in groups], [len(group) for group in groups]
    )


def clustered_rate(successes: Sequence[int], sizes: Sequence[int]) -> Estimate:
    """Pool `successes[i]` of `sizes[i]` over tasks, in percent, with the Wilson interval of `effective_draws`.

    There is no interval for one task. Raises `UsageError` if there is no task.
    """
    if not sizes:
        return wilson(0, 0)
    rate = sum(successes) / sum(sizes)
    ends = _wilson_ends(rate, effective_draws(successes, sizes)) if len(sizes) > 1 else None
    return Estimate(value=100 * rate, n=len(sizes), ci95=ends)


def effective_draws(won: Sequence[int], sizes: Sequence[int]) -> float:
    """Compute the number of independent draws equivalent to `won[i]` of `sizes[i]` episodes of task i: tasks to
    episodes.

    Draws with the variance of the rate under clustering by task (Kish 1965; for a Wilson interval: Franco et al., J.
    Surv. Stat. Methodol. 7(3), 2019). If all or none were won, the clustering is unknown: each task counts as one
    draw.
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
    """Compute the mean final score in [0, 1], with a bootstrap interval over tasks. Raises `UsageError` if there are
    none.
    """
    groups = by_task(scored(trajectories)).values()
    return mean_over_tasks([[trajectory.score for trajectory in group] for group in groups], seed=seed)


def mean_over_tasks(scores: Sequence[Sequence[float]], *, seed: int = 0) -> Estimate:
    """Compute `mean_score` from the episodes' scores of each task."""
    mean = share([sum(task) for task in scores], [len(task) for task in scores], seed=seed)
    if mean is None:
        raise UsageError(NOTHING)
    return mean


def by_task(trajectories: Sequence[Trajectory]) -> dict[TaskKey, list[Trajectory]]:
    """Group trajectories by (environment, split, task), in order of first appearance."""
    groups: dict[TaskKey, list[Trajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault(task_key(trajectory), []).append(trajectory)
    return groups


def task_key(trajectory: Trajectory) -> TaskKey:
    """Return the key of an episode's task, unique among all tasks."""
    return trajectory.environment, trajectory.split, trajectory.task_id


def ratio(numerators: Sequence[float], denominators: Sequence[float], *, seed: int = 0) -> Estimate:
    """Compute sum over sum (a pooled ratio; a mean if every denominator is 1), with a bootstrap interval over tasks.

    Raises `UsageError` if the denominators sum to 0.
    """
    if not sum(denominators):
        raise UsageError(NOTHING)
    parts = {"n": np.asarray(numerators, dtype=float), "d": np.asarray(denominators, dtype=float)}
    return bootstrap(parts, lambda sums: safe_ratio(sums["n"], sums["d"]), seed=seed)


def share(numerators: Sequence[float], denominators: Sequence[float], *, seed: int = 0) -> Estimate | None:
    """Compute a `ratio` whose per-task values lie in [0, 1]; None if the denominators sum to 0."""
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
    """Compute a statistic of sums over tasks, with a seeded 95% percentile interval from resampling whole tasks.

    `per_task[name]` has shape (tasks,); `statistic` maps sums of shape (k,) to values of shape (k,). Quantities of one
    task stay together, so a statistic of two variants is paired. Tasks with equal values give no interval; if all are
    at one of the `bounds`, the interval is Wilson's, with one draw per task. Raises `UsageError` if there is no task.
    """
    columns = np.stack(list(per_task.values()), axis=1)
    sums = np.concatenate([draws @ columns for draws in _draws(len(columns), seed, resamples)])
    values = statistic(dict(zip(per_task, sums.T, strict=True)))
    exact = statistic({name: np.asarray([column.sum()]) for name, column in per_task.items()})[0]
    return _bounded(_percentiles(exact, values, len(columns)), bounds, len(columns))


def bootstrap_times(
    statistic: Callable[[npt.NDArray[np.int64]], float], tasks: int, *, seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """Bootstrap a statistic that is no function of sums, such as a rank statistic; slower than `bootstrap`.

    `statistic` maps the count of each task (tasks,) to a value, NaN if undefined. Raises `UsageError` if there is no
    task.
    """
    values = np.asarray([statistic(times) for draws in _draws(tasks, seed, resamples) for times in draws])
    return _percentiles(statistic(np.ones(tasks, dtype=np.int64)), values, tasks)


def _draws(n: int, seed: int, resamples: int) -> Iterator[npt.NDArray[np.int64]]:
    """Draw n tasks with replacement, and yield the counts of each task in blocks of [some resamples, n]."""
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
    """Add an interval to an estimate without one at one of its bounds, based on `draws` tasks."""
    if estimate.ci95 is not None or estimate.n == 1 or estimate.value not in bounds:
        return estimate
    low, high = bounds
    ends = _wilson_ends(float(estimate.value == high), draws)
    first, last = (low + (high - low) * end / 100 for end in ends)
    return Estimate(value=estimate.value, n=estimate.n, ci95=(first, last))


def safe_ratio(numerators: Floats, denominators: Floats) -> Floats:
    """Divide elementwise; NaN for denominator 0."""
    return np.divide(numerators, denominators, out=np.full_like(numerators, np.nan), where=denominators != 0)
