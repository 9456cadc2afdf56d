"""What a critique earned: pure functions of the score before it and the score after it.

Scores lie in [0, 1]; s_o is the attempt's, s_r the refined attempt's. Left out: what makes the scores (environments).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from align_echo.errors import UsageError

ETA = 0.1
"""ECHO's smoothing: how far beyond a full score the barrier of the gain stands."""

RewardName = Literal["saturation", "linear", "revision"]

CriticReward = Callable[[float, float], float]
"""(s_o, s_r) -> what the critique between them earned."""


def saturation_gain(before: float, after: float, *, eta: float = ETA) -> float:
    """g(s_o, s_r) = ln((1 - s_o + eta) / (1 - s_r + eta)): a point gained near a full score counts for more.

    Additive along a path and antisymmetric; finite everywhere. ECHO (paper 1), equations 3 to 6.
    Raises `UsageError` for scores outside [0, 1] and for an eta that is not above 0.
    """
    _check(before, after)
    if not 0 < eta < math.inf:
        raise UsageError(f"eta must be above 0, not {eta}")
    return math.log((1 - before + eta) / (1 - after + eta))


def linear_gain(before: float, after: float) -> float:
    """s_r - s_o, the ablation of `saturation_gain`. Raises `UsageError` for scores outside [0, 1]."""
    _check(before, after)
    return after - before


def revision_reward(before: float, after: float) -> float:
    """1 if the revision has a full score, else s_r - s_o: ICRL's critic reward. In [-1, 1].

    Raises `UsageError` for scores outside [0, 1].
    """
    gain = linear_gain(before, after)
    return 1.0 if after >= 1 else gain


REWARDS: dict[RewardName, CriticReward] = {
    "saturation": saturation_gain,
    "linear": linear_gain,
    "revision": revision_reward,
}
"""The rewards of a critique by the names that configs have for them."""


def _check(before: float, after: float) -> None:
    for score in (before, after):
        if not 0 <= score <= 1:
            raise UsageError(f"a score must lie in [0, 1], not {score}: scale the environment's rewards first")
