"""Metrics of what agents do, each with a 95% interval; pure functions but for the replay of actions.

Shares are percentages (0 to 100). Trajectories that ended in a fault are left out by every function, the callers count
them. Success and score are in `align_echo.intervals`, comparisons in `comparison.py`, tables in `tables.py`.

The invalid-action metric (the ALIGN paper, section 4.3): the agent's own actions, first line of each, are replayed from
a fresh reset in the plain environment without any interface. A step is invalid if the environment refuses it
(`align_echo/refusals.py` has how that is known); counted are the invalid steps inside maximal runs of two or more,
divided by all steps, pooled over tasks. A step whose reply held no action counts as invalid. A step after the replayed
episode has ended counts as valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from align_echo.errors import UsageError
from align_echo.intervals import NOTHING, Estimate, by_task, scored, share
from align_echo.invalid import steps_in_runs
from align_echo.refusals import WHY_UNKNOWN, RefusalJudge
from align_echo.types import Step, Trajectory
from align_echo.wrappers.catalogue import recorded_environment


def share_of_replies(
    trajectories: Sequence[Trajectory], holds: Callable[[Step], bool], *, seed: int = 0
) -> Estimate | None:
    """Percent of the agent's replies of which something holds, pooled, with an interval over tasks; None for no reply.
    """
    groups = by_task(scored(trajectories)).values()
    counts = [float(sum(holds(step) for trajectory in group for step in trajectory.steps)) for group in groups]
    return _percent(counts, [float(sum(len(trajectory.steps) for trajectory in group)) for group in groups], seed)


# ---------------------------------------------------------------- consecutive invalid actions


def share_in_runs(invalid: Sequence[Sequence[bool]]) -> float | None:
    """Percent of all steps of all tasks that lie inside runs of two or more invalid ones; None where there is no step.
    """
    steps = sum(len(task) for task in invalid)
    return 100 * sum(steps_in_runs(task) for task in invalid) / steps if steps else None


def share_estimate(
    trajectories: Sequence[Trajectory], invalid: Sequence[Sequence[bool]] | None, *, seed: int = 0
) -> Estimate | None:
    """`share_in_runs` with an interval over tasks; None where `invalid` is. `invalid[i]` holds the steps of
    `trajectories[i]`.
    """
    return None if invalid is None else _percent(*run_counts(trajectories, invalid), seed)


def run_counts(
    trajectories: Sequence[Trajectory], invalid: Sequence[Sequence[bool]]
) -> tuple[list[float], list[float]]:
    """(steps inside runs, all steps) per task, tasks in order of their first trajectory."""
    flags = {id(trajectory): task for trajectory, task in zip(trajectories, invalid, strict=True)}
    groups = by_task(trajectories).values()
    bad = [float(sum(steps_in_runs(flags[id(trajectory)]) for trajectory in group)) for group in groups]
    return bad, [float(sum(len(flags[id(trajectory)]) for trajectory in group)) for group in groups]


def consecutive_invalid_share(trajectories: Sequence[Trajectory], *, data_root: str | Path | None = None) -> float:
    """ALIGN's metric: percent (0 to 100) of the agent's actions inside runs of two or more consecutive invalid ones.

    The actions are replayed in the plain environment that the trajectories name, without their interface (see the
    module's docstring). `data_root` is the data folder they were made with, if not the default. Trajectories with a
    fault are left out. Raises `UsageError` for an unknown environment, split or task, for a `module:Name` that nobody
    said to this program, and where the metric is not defined: without a turn, and where nothing tells which actions
    were refused.
    """
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in scored(trajectories):
        if trajectory.steps:
            groups.setdefault(trajectory.environment, []).append(trajectory)
    flags: list[Sequence[bool]] = []
    for name, played in groups.items():
        spec = recorded_environment(name, "a trajectory", "name it first: align_echo.make(NAME)")
        judged = RefusalJudge(spec, [each.task_id for each in played], data_root).judge(played)
        if judged.refused is None:
            known = f"; {judged.shares.in_words}" if judged.shares else ""
            raise UsageError(f"the metric is not defined in {name}: {WHY_UNKNOWN}{known}")
        flags += judged.refused
    percent = share_in_runs(flags)
    if percent is None:
        raise UsageError("the metric is not defined: no turn was played in an episode that ended without a fault")
    return percent


def mean_length(trajectories: Sequence[Trajectory]) -> float:
    """Mean number of the agent's turns. Raises `UsageError` for no episode."""
    if not trajectories:
        raise UsageError(NOTHING)
    return fmean(len(trajectory.steps) for trajectory in trajectories)


def _percent(counts: Sequence[float], sizes: Sequence[float], seed: int) -> Estimate | None:
    pooled = share(counts, sizes, seed=seed)
    return None if pooled is None else pooled.scaled(100)
