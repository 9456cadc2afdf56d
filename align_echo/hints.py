"""What became of an interface's hints: counts by rule, over episodes, and which rules are no longer to be believed.

A rule is a kind of sentence that names commands, with the names blanked (`commands.skeleton_of`). Pure functions over
what `wrappers/hint_watch.py` saw on each turn. Left out: what happens at run time, and trying claims that no agent
followed (`align/audit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from align_echo.intervals import wilson
from align_echo.types import Frozen, HintEvent, Trajectory

BAR = 90.0
"""Percent of the followed hints of a rule that have to come true."""

FEWEST = 5
"""Hints of a rule that must have been followed and settled before it is judged across episodes."""


DIFFERENT = 2
"""Objects on which a rule must have failed before it is judged as a whole."""


class HintCount(Frozen):
    """What became of one rule: hints shown, hints that the agent's next action followed, those of them that did what
    they had promised and those that did not (the rest was never settled), and episodes in which it was silenced.

    A hint that would have closed a circle counts as one that did not, though it was not shown. `unnamed` of those that
    did not were about what the environment had named nowhere, or nobody knows whether it had (older runs); `failed_on`
    are objects of the others, the first `DIFFERENT` in the order of the alphabet, "" for a hint about no object.
    """

    rule: str
    fired: int = 0
    followed: int = 0
    came_true: int = 0
    failed: int = 0
    silenced: int = 0
    unnamed: int = 0
    failed_on: tuple[str, ...] = ()


def below_bar(count: HintCount) -> bool:
    """Whether a rule is silenced from the start of an episode, for its record in earlier ones.

    Its followed hints, at least `FEWEST`, came true so rarely that the whole 95% Wilson interval lies below `BAR`, and
    they failed on `DIFFERENT` objects, or are about none. Failures about what the environment had not named do not
    count. One failure does not condemn a rule: leaving it out takes its help from every episode to come, while a wrong
    hint costs an obeying agent a turn or two, after which it is withheld in that episode anyway.
    """
    settled = count.came_true + count.failed - count.unnamed
    if settled < FEWEST or (len(count.failed_on) < DIFFERENT and "" not in count.failed_on):
        return False
    return wilson(count.came_true, settled).high < BAR


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
            objects = sorted({*old.failed_on, *count.failed_on})[:DIFFERENT]
            total[count.rule] = HintCount(rule=count.rule, failed_on=tuple(objects), **sums)
    return tuple(sorted(total.values(), key=lambda count: (-count.fired, count.rule)))


_NUMBERS = tuple(name for name, field in HintCount.model_fields.items() if field.annotation is int)


def _of_episode(turns: Sequence[Sequence[HintEvent]]) -> Iterator[HintCount]:
    """What became of each rule, turn by turn; that it was silenced counts once."""
    silenced: set[str] = set()
    for event in (event for turn in turns for event in turn):
        failed = event.came_true is False
        yield HintCount(
            rule=event.rule,
            fired=event.fired,
            followed=event.followed,
            came_true=event.came_true is True,
            failed=failed,
            silenced=event.silenced and event.rule not in silenced,
            unnamed=failed and not event.failed_on,
            failed_on=event.failed_on,
        )
        silenced |= {event.rule} if event.silenced else set()
