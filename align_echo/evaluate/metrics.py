"""Metrics of agents' behaviour, each with a 95% interval; pure functions except for the replay of actions.

Shares are percentages (0 to 100). All functions leave out trajectories with a fault; callers count them. Success and
score are in `align_echo.intervals`, comparisons in `comparison.py`, tables in `tables.py`.

The invalid-action metric (the ALIGN paper, section 4.3): the agent's own actions, first line of each, are replayed from
a fresh reset in the plain environment without any interface. A step is invalid if the environment refuses it
(`align_echo/refusals.py` has how that is known). The metric counts invalid steps inside maximal runs of two or more,
divided by all steps, pooled over tasks. A step without an action counts as invalid. A step after the end of the
replayed episode counts as valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from align_echo.errors import UsageError
from align_echo.intervals import Estimate, scored, share
from align_echo.refusals import WHY_UNKNOWN, RefusalJudge
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import recorded_environment


def pooled_percent(counts: Sequence[float], sizes: Sequence[float], *, seed: int = 0) -> Estimate | None:
    """Pool counts over sizes of all tasks, in percent, with an interval over tasks; None without a turn."""
    pooled = share(counts, sizes, seed=seed)
    return None if pooled is None else pooled.scaled(100)


def consecutive_invalid_share(trajectories: Sequence[Trajectory], *, data_root: str | Path | None = None) -> float:
    """Compute ALIGN's metric: percent (0 to 100) of the agent's actions inside runs of two or more consecutive invalid
    ones.

    The actions are replayed in the plain environment named by the trajectories, without their interface (see the
    module's docstring). `data_root` is their data folder, if not the default. Trajectories with a fault are left out.
    Raises `UsageError` for an unknown environment, split or task, for a `module:Name` not yet registered, and if the
    metric is undefined: without a turn, or if refused actions are unknown.
    """
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in scored(trajectories):
        if trajectory.steps:
            groups.setdefault(trajectory.environment, []).append(trajectory)
    in_runs = turns = 0
    for name, played in groups.items():
        spec = recorded_environment(name, "a trajectory", "name it first: align_echo.make(NAME)")
        judge = RefusalJudge(spec, [trajectory_of_name.task_id for trajectory_of_name in played], data_root)
        refusals = judge.judge({name: played})[name]
        if refusals.in_runs is None:
            known = f"; {refusals.shares.in_words}" if refusals.shares else ""
            raise UsageError(f"the metric is not defined in {name}: {WHY_UNKNOWN}{known}")
        in_runs, turns = in_runs + sum(refusals.in_runs), turns + refusals.turns
    if not turns:
        raise UsageError("the metric is not defined: no turn was played in an episode that ended without a fault")
    return 100 * in_runs / turns
