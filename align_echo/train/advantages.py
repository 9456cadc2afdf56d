"""Rewards to advantages: how much better a sample did than the rest of its group.

Samples with the same key form a group: the samples of a task for GRPO, those of one role on a task for ECHO and ICRL.
Groups may differ in size. There are no value functions.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from align_echo.errors import UsageError

DELTA = 1e-4
"""Added to a group's standard deviation, as TRL does."""


@dataclass(frozen=True)
class GroupAdvantages:
    """Advantages `values` [B] in the order of the rewards, and the number of groups: all of them, those without
    variance, and those of a single sample."""

    values: tuple[float, ...]
    groups: int
    zero_variance: int
    singletons: int


def group_advantages(
    rewards: Sequence[float], keys: Sequence[Hashable], *, delta: float = DELTA, scaled: bool = True
) -> GroupAdvantages:
    """Compute (r - mean) / (std + delta) within each group; with `scaled` off, r - mean.

    The advantages of a group have mean 0. They are all 0 for a group of one sample (counted in `singletons`) and for a
    group with equal rewards (counted in `zero_variance`). std is the sample's (n - 1), as in TRL.
    DeepSeekMath (GRPO); by role: ICRL (paper 4) equation 5, ECHO (paper 1) section 3.3.
    Raises `UsageError` if there are not as many keys as rewards, or a reward is not finite.
    """
    if len(rewards) != len(keys):
        raise UsageError(f"{len(rewards)} rewards and {len(keys)} group keys: give one key to each reward")
    wrong = next((index for index, reward in enumerate(rewards) if not math.isfinite(reward)), None)
    if wrong is not None:
        raise UsageError(f"reward {wrong} is {rewards[wrong]}: leave out what has no score, such as broken rollouts")
    members: dict[Hashable, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        members[key].append(index)
    values = [0.0] * len(rewards)
    zero_variance = singletons = 0
    for indices in members.values():
        group = [rewards[index] for index in indices]
        if len(group) == 1:
            singletons += 1
        elif max(group) == min(group):
            zero_variance += 1
        else:
            mean = statistics.fmean(group)
            scale = statistics.stdev(group, mean) + delta if scaled else 1.0
            for index in indices:
                values[index] = (rewards[index] - mean) / scale
    return GroupAdvantages(tuple(values), len(members), zero_variance, singletons)


def uncompared(rewards: Sequence[float]) -> GroupAdvantages:
    """Return each reward as its own advantage, for rows to imitate. There are no groups."""
    return GroupAdvantages(tuple(rewards), 0, 0, 0)
