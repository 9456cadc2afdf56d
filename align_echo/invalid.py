"""Invalid actions of an episode, step by step, and the number of them in runs; pure functions.

Not here: the replay for ALIGN's metric and its interval (`align_echo.evaluate.metrics`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from align_echo.types import Trajectory


def steps_in_runs(invalid: Sequence[bool]) -> int:
    """Count the steps inside runs of two or more consecutive invalid steps."""
    lengths = [sum(1 for _ in run) for bad, run in groupby(invalid) if bad]
    return sum(length for length in lengths if length >= 2)


def shown_invalid(trajectory: Trajectory, is_invalid: Callable[[str], bool]) -> list[bool]:
    """Flag each step that showed the agent a refusal in the engine's own words (an interface may change them)."""
    return [step.action is None or is_invalid(step.observation) for step in trajectory.steps]


def met_refusal(trajectory: Trajectory, is_invalid: Callable[[str], bool]) -> list[bool]:
    """Flag each step whose reply had no action, was refused by the engine, or was kept from it by an interface."""
    return [step.raw_observation is None or is_invalid(step.raw_observation) for step in trajectory.steps]
