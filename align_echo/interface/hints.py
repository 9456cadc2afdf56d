"""Statistics of an interface's hints: counts by rule, over episodes, and rules that are no longer trusted.

A rule is a kind of sentence that names commands, with the names blanked (`commands.skeleton_of`). Pure functions over
the observations of `wrappers/hint_watch.py` on each turn. Not here: handling at run time, and testing claims that no
agent followed (`evaluate/audit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from pydantic import NonNegativeInt

from align_echo.intervals import wilson
from align_echo.types import Frozen, HintEvent, Trajectory

BAR = 90.0
"""Percent of a rule's followed hints that must come true."""

FEWEST = 5
"""Minimum followed and settled hints of a rule before it is judged across episodes."""


class HintCount(Frozen):
    """Counts of one rule's hints: shown, followed by the agent's next action, came true, failed, and episodes with
    silencing.

    Followed hints that neither came true nor failed were never settled. A hint that would have closed a circle counts
    as failed, though it was not shown. `weak` failures say nothing against the rule: the agent named objects unknown
    to the environment, or the rule had failed on the same objects in the same episode before.
    """

    rule: str
    fired: NonNegativeInt = 0
    followed: NonNegativeInt = 0
    came_true: NonNegativeInt = 0
    failed: NonNegativeInt = 0
    silenced: NonNegativeInt = 0
    weak: NonNegativeInt = 0


def below_bar(count: HintCount) -> bool:
    """Return True if a rule is silenced from the start of an episode because of its record.

    Its followed hints, at least `FEWEST` without weak failures, came true so rarely that the whole 95% Wilson interval
    is below `BAR`: so it failed on different objects. One failure is not enough: dropping a rule removes its help from
    every later episode, while a wrong hint costs an obeying agent a turn or two and is then withheld in that episode
    anyway.
    """
    settled = count.came_true + count.failed - count.weak
    return settled >= FEWEST and wilson(count.came_true, settled).high < BAR


def silenced_by(record: Iterable[HintCount]) -> frozenset[str]:
    """Return the rules of a record to silence from the start."""
    return frozenset(count.rule for count in record if below_bar(count))


def count_hints(trajectories: Iterable[Trajectory]) -> tuple[HintCount, ...]:
    """Count each rule's hints in these episodes, most shown first."""
    return merged(*(_count_episode([step.hints for step in trajectory.steps]) for trajectory in trajectories))


def merged(*records: Iterable[HintCount]) -> tuple[HintCount, ...]:
    """Merge records, independent of their order: most shown rule first, then by name."""
    total: dict[str, HintCount] = {}
    for record in records:
        for count in record:
            old = total.get(count.rule, HintCount(rule=count.rule))
            sums = {name: getattr(old, name) + getattr(count, name) for name in _NUMBERS}
            total[count.rule] = HintCount(rule=count.rule, **sums)
    return tuple(sorted(total.values(), key=lambda count: (-count.fired, count.rule)))


_NUMBERS = tuple(name for name in HintCount.model_fields if name != "rule")


def _count_episode(turns: Sequence[Sequence[HintEvent]]) -> Iterator[HintCount]:
    """Yield each rule's counts, turn by turn; silencing counts once."""
    silenced: set[str] = set()
    for event in (event for turn in turns for event in turn):
        yield HintCount(
            rule=event.rule,
            fired=event.fired,
            followed=event.followed,
            came_true=event.came_true is True,
            failed=event.came_true is False,
            silenced=event.silenced and event.rule not in silenced,
            weak=event.weak,
        )
        silenced |= {event.rule} if event.silenced else set()


# ---------------------------------------------------------------- invalid


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
