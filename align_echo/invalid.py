"""Invalid actions of an episode, step by step, and how many of them come in a row; pure functions.

Left out: the replay of ALIGN's metric and its interval (`align_echo.evaluate.metrics`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from align_echo.types import Trajectory


def steps_in_runs(invalid: Sequence[bool]) -> int:
    """How many steps lie inside maximal runs of two or more invalid ones."""
    lengths = [sum(1 for _ in run) for bad, run in groupby(invalid) if bad]
    return sum(length for length in lengths if length >= 2)


def shown_invalid(trajectory: Trajectory, is_invalid: Callable[[str], bool]) -> list[bool]:
    """Per step, whether the agent was shown a refusal in the engine's own words (an interface may change them)."""
    return [step.action is None or is_invalid(step.observation) for step in trajectory.steps]


def met_refusal(trajectory: Trajectory, is_invalid: Callable[[str], bool]) -> list[bool]:
    """Per step, whether the reply held no action, the engine refused it, or an interface kept it from the engine."""
    return [step.raw_observation is None or is_invalid(step.raw_observation) for step in trajectory.steps]
