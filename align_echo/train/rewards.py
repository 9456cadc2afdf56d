"""Rewards of a critique: pure functions of the scores before and after it.

Scores lie in [0, 1]; s_o is the attempt's score, s_r the refined attempt's. Configs name a reward
(`collecting.critic_reward`): ours, or any function of two scores (`REWARDS`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from numbers import Real

from align_echo.errors import UsageError
from align_echo.registry import Registry, attempt, with_article

ETA = 0.1
"""Smoothing of ECHO's gain: its pole is this far beyond a full score."""

CriticReward = Callable[[float, float], float]
"""(s_o, s_r) -> reward of the critique."""


def saturation_gain(before: float, after: float, *, eta: float = ETA) -> float:
    """Compute g(s_o, s_r) = ln((1 - s_o + eta) / (1 - s_r + eta)): a gain near a full score counts more.

    Additive along a path, antisymmetric, finite everywhere. ECHO (paper 1), equations 3 to 6. Raises `UsageError` for
    scores outside [0, 1], and unless eta is above 0.
    """
    _check(before, after)
    if not 0 < eta < math.inf:
        raise UsageError(f"eta must be above 0, not {eta}")
    return math.log((1 - before + eta) / (1 - after + eta))


def linear_gain(before: float, after: float) -> float:
    """Compute s_r - s_o, the ablation of `saturation_gain`. Raises `UsageError` for scores outside [0, 1]."""
    _check(before, after)
    return after - before


def revision_reward(before: float, after: float) -> float:
    """Return 1 for a full score of the revision, else s_r - s_o: ICRL's critic reward, in [-1, 1].

    Raises `UsageError` for scores outside [0, 1].
    """
    gain = linear_gain(before, after)
    return 1.0 if after >= 1 else gain


TRIED = ((0.0, 0.0), (0.0, 1.0), (0.5, 0.75), (1.0, 0.5))
"""Scores before and after a critique to try a reward with."""


def _read(name: str, entry: object) -> CriticReward:
    """Wrap a function, so that it returns finite numbers or raises `UsageError`, and try it."""
    if not callable(entry):
        kind = with_article(type(entry).__name__)
        raise UsageError(f"{name} is {kind}: a critic reward is a function of the scores before and after a critique")

    def reward(before: float, after: float) -> float:
        value = entry(before, after)
        if not isinstance(value, Real) or not math.isfinite(value):
            scores = f"scores {before:g} and {after:g}"
            raise UsageError(f"the critic reward {name} gives {value!r} for {scores}: it must give a finite number")
        return float(value)

    for scores in TRIED:
        attempt(partial(reward, *scores), f"the critic reward {name} fails for scores {scores}")
    return reward


REWARDS: Registry[CriticReward] = Registry("critic reward", "align_echo.critic_rewards", _read)


def _check(before: float, after: float) -> None:
    for score in (before, after):
        if not 0 <= score <= 1:
            raise UsageError(f"a score must lie in [0, 1], not {score}: scale the environment's rewards first")
