"""Rewards to advantages: how much better a sample did than the rest of its group.

Samples with the same key form a group: the samples of a task for GRPO, those of one role on a task for ECHO and ICRL.
Groups may differ in size. There are no value functions. Configs name an advantage (`step.advantage`): ours, or any
function of rows and their groups (`ADVANTAGES`).
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from align_echo.errors import UsageError
from align_echo.registry import Registry, attempt, with_article
from align_echo.tokens import TokenSequence
from align_echo.train.rows import Row

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


# ---------------------------------------------------------------- by name


class AdvantageFunction(Protocol):
    """Function of B rows that returns their advantages [B], or `GroupAdvantages` to count groups as well.

    `groups` [B] has equal keys for rows to compare, `scaled` is `step.scaled`.
    """

    def __call__(
        self, rows: Sequence[Row], groups: Sequence[Hashable], scaled: bool, /
    ) -> Sequence[float] | GroupAdvantages:
        """Compute the advantages."""


CheckedAdvantage = Callable[[Sequence[Row], Sequence[Hashable], bool], GroupAdvantages]


def compared(rows: Sequence[Row], groups: Sequence[Hashable], scaled: bool) -> GroupAdvantages:
    """Compare rewards within groups."""
    return group_advantages([row.reward for row in rows], groups, scaled=scaled)


def uncompared(rows: Sequence[Row], groups: Sequence[Hashable], scaled: bool) -> GroupAdvantages:
    """Return each reward as its own advantage, for rows to imitate. There are no groups."""
    return GroupAdvantages(tuple(row.reward for row in rows), 0, 0, 0)


_TOKENS = TokenSequence(ids=(1, 2), mask=(0, 1), logprobs=(0.0, -1.0), turns=((1, 2),))

TRIED = [Row(_TOKENS, "policy", group, reward) for group, reward in (("a", 0.0), ("a", 1.0), ("a", 0.5), ("b", 1.0))]
"""Rows to try an advantage with."""


def read_advantage(name: str, entry: object) -> CheckedAdvantage:
    """Wrap a function, so that it returns `GroupAdvantages` or raises `UsageError`, and try it."""
    if not callable(entry):
        kind = with_article(type(entry).__name__)
        raise UsageError(f"{name} is {kind}: an advantage is a function of rows, their groups and step.scaled")

    def advantages(rows: Sequence[Row], groups: Sequence[Hashable], scaled: bool) -> GroupAdvantages:
        return counted(name, entry(rows, groups, scaled), groups)

    attempt(lambda: advantages(TRIED, [row.group for row in TRIED], True), f"the advantage {name} fails")
    return advantages


def counted(name: str, result: object, groups: Sequence[Hashable]) -> GroupAdvantages:
    """Check advantages and count the groups in which all are 0, if this is not done. Raises `UsageError`."""
    if isinstance(result, GroupAdvantages):
        return result
    try:
        values = tuple(map(float, result))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        values = ()
    if len(values) != len(groups) or not all(map(math.isfinite, values)):
        raise UsageError(
            f"the advantage {name} gives {str(result)[:60]} for {len(groups)} rows: "
            "it must give a finite number for each"
        )
    members: dict[Hashable, list[float]] = defaultdict(list)
    for key, value in zip(groups, values, strict=True):
        members[key].append(value)
    idle = [len(group) for group in members.values() if not any(group)]
    return GroupAdvantages(values, len(members), sum(size > 1 for size in idle), idle.count(1))


ADVANTAGES: Registry[CheckedAdvantage] = Registry("advantage", "align_echo.advantages", read_advantage)
