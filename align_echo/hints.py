"""What became of an interface's hints: counts by rule, over episodes, and which rules are no longer to be believed.

A rule is a kind of sentence that names commands, with the names blanked (`commands.skeleton_of`). Pure functions over
what `wrappers/hint_watch.py` saw on each turn. Left out: what happens at run time, and trying claims that no agent
followed (`align/audit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pydantic import NonNegativeInt

from align_echo.intervals import wilson
from align_echo.types import Frozen, HintEvent, Trajectory

BAR = 90.0
"""Percent of the followed hints of a rule that have to come true."""

FEWEST = 5
"""Hints of a rule that must have been followed and settled before it is judged across episodes."""


class HintCount(Frozen):
    """What became of one rule: hints shown, hints that the agent's next action followed, those of them that did what
    they had promised and those that did not (the rest was never settled), and episodes in which it was silenced.

    A hint that would have closed a circle counts as one that did not, though it was not shown. `weak` of those that did
    not say nothing against the rule: the agent spoke of what the environment had named nowhere, or the rule had failed
    on the same objects in the same episode before.
    """

    rule: str
    fired: NonNegativeInt = 0
    followed: NonNegativeInt = 0
    came_true: NonNegativeInt = 0
    failed: NonNegativeInt = 0
    silenced: NonNegativeInt = 0
    weak: NonNegativeInt = 0


def below_bar(count: HintCount) -> bool:
    """Whether a rule is silenced from the start of an episode, for its record in earlier ones.

    Its followed hints, at least `FEWEST` without the weak failures, came true so rarely that the whole 95% Wilson
    interval lies below `BAR`: so it failed on different objects. One failure does not condemn a rule: leaving it out
    takes its help from every episode to come, while a wrong hint costs an obeying agent a turn or two, after which it
    is withheld in that episode anyway.
    """
    settled = count.came_true + count.failed - count.weak
    return settled >= FEWEST and wilson(count.came_true, settled).high < BAR


def silenced_by(record: Iterable[HintCount]) -> frozenset[str]:
    """The rules of a record that are silenced from the start."""
    return frozenset(count.rule for count in record if below_bar(count))


def count_hints(trajectories: Iterable[Trajectory]) -> tuple[HintCount, ...]:
    """What became of each rule in these episodes, the most shown first."""
    return merged(*(_of_episode([step.hints for step in trajectory.steps]) for trajectory in trajectories))


def merged(*records: Iterable[HintCount]) -> tuple[HintCount, ...]:
    """Several records as one, whatever their order: the most shown rule first, then by name."""
    total: dict[str, HintCount] = {}
    for record in records:
        for count in record:
            old = total.get(count.rule, HintCount(rule=count.rule))
            sums = {name: getattr(old, name) + getattr(count, name) for name in _NUMBERS}
            total[count.rule] = HintCount(rule=count.rule, **sums)
    return tuple(sorted(total.values(), key=lambda count: (-count.fired, count.rule)))


_NUMBERS = tuple(name for name in HintCount.model_fields if name != "rule")


def _of_episode(turns: Sequence[Sequence[HintEvent]]) -> Iterator[HintCount]:
    """What became of each rule, turn by turn; that it was silenced counts once."""
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
