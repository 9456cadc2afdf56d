"""Chance: actions that are refused at times, in the same state, and how often to repeat an action to know better."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from align_echo.align.probe.effects.outcomes import Instance, Observer
from align_echo.interface.rules.answers import SAME

EACH = 8
"""Actions of each form and answer that are repeated."""

LONGEST = 12
"""Maximum repeats of an action."""

MIN_SHOWN, MIN_TASKS = 3, 2
"""Actions, and tasks, in which chance must show."""

SURE = 0.005
"""Probability that an action which would work is refused at every repeat, at most."""


def count_repeats(observer: Observer, played: Iterable[Instance]) -> int:
    """Return how often a refused action is repeated before it counts as refused; 0 in a world without chance.

    Chance shows where an action is answered otherwise when it is repeated, although nothing that can be seen changed
    between. The number is chosen for `SURE`, by the refusals in a row that were seen.
    """
    by_answer: dict[tuple[str, str, bool], list[Instance]] = defaultdict(list)
    for instance in played:
        by_answer[instance.tree.form, instance.text, instance.same].append(instance)
    runs: list[int] = []
    tasks: set[str] = set()
    answers: set[str] = set()
    for instances in by_answer.values():
        for instance in instances[:: -(-len(instances) // EACH)]:
            run = _refused_in_a_row(observer, instance, 2) and _refused_in_a_row(observer, instance, LONGEST)
            if run and _changed_nothing(observer, instance):
                tasks.add(instance.state.task_id)
                runs.append(run)
                answers |= _texts(observer, instance)
    observer.repeats, observer.by_chance = 0, answers
    return _enough(runs) if len(runs) >= MIN_SHOWN and len(tasks) >= MIN_TASKS else 0


def _changed_nothing(observer: Observer, instance: Instance) -> bool:
    """Whether all actions are answered alike before and after an action, its own answer left aside, which comes again.
    """
    observer.repeats, observer.by_chance = LONGEST, set()
    if observer.page(instance.child) not in dict(observer.answers(instance.child, instance.action)):
        return False
    observer.by_chance = _texts(observer, instance)
    return observer.changed(instance) is False


def _texts(observer: Observer, instance: Instance) -> set[str]:
    return {SAME} if instance.same else {observer.read(instance.child)[1]}


def _enough(runs: Sequence[int]) -> int:
    """Return the repeats after which an action that would work was surely not refused by chance alone."""
    refused = (sum(runs) - len(runs) + 1) / (sum(runs) + 1)  # of a geometric distribution, one refusal added
    return min(LONGEST, math.ceil(math.log(SURE) / math.log(refused)))


def _refused_in_a_row(observer: Observer, instance: Instance, most: int) -> int:
    """Return how often an action is answered alike before another answer comes; 0 if none comes, or if two answers
    take turns."""
    answers = [instance.text]
    state = instance.child
    while not state.over and len(answers) <= max(most, 3):
        again = observer.play(state, instance.action)
        if again is None or again.child.over:
            return 0
        answers.append(again.text)
        state = again.child
    run = next((number for number, text in enumerate(answers) if text != answers[0]), 0)
    takes_turns = answers[2:] == answers[:-2]
    return 0 if takes_turns or run > most else run
