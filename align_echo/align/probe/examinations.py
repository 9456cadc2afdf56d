"""Rules learned, tested on tasks they were not learned from, refined by what refuted them, tested again.

The whole list has its examination on tasks kept back for it; what is refuted once goes. How one rule is tested:
`trials.py`.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any

from align_echo.align.probe import runtime
from align_echo.align.probe.cases import Case, Slots, history_of, proposals, situation, try_case, walk
from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.names import skeleton
from align_echo.align.probe.rules import learn
from align_echo.align.probe.spec import Row, extended, identity, without
from align_echo.align.probe.trials import Trials, TrialVerdict, decided, obey
from align_echo.align.probe.vocabulary import Vocabulary

CYCLES = 3
ROUNDS = 1
TASKS_PER_ROUND = 10
TESTS_PER_CONTEXT = 2
"""Tests of one rule in one task, per way in which its names were last spoken of."""

CASES_PER_RULE = 4
WRONG_PER_RULE = 8
"""Of one task's tests that a rule passed, or failed, so many become cases to learn from."""

KEPT_BACK = 4
MANY_TASKS = 12
"""One in so many fresh tasks is kept for the examinations; where there are not many, every other one."""

MIN_WALKS = 12
"""Walks of an examination at least: where fewer tasks are kept back, each is walked several times."""

EXAMINATIONS = 6
"""Passes of the last one at most; rules that fail in the last pass go too."""

MIN_ALLOWED = 20
"""A rule is sure if it spoke of none of at least so many allowed actions of its template."""

TOO_MANY_CASES = 800
"""Of one template; the latest are learned from."""

_ACTIVE = ("active",)
"""What is in effect, of what is kept on a state."""

Spec = dict[str, Any]


def refine(
    lab: Lab,
    spec: Spec,
    slots: Slots,
    cases: list[Case],
    fresh: Sequence[str],
    rng: random.Random,
    say: Callable[[str], None],
) -> tuple[dict[str, list[Row]], Trials]:
    """Learn, look for counterexamples on fresh tasks, learn from them, hold an examination; then for what is left.

    Returned are the rules that no examination refuted, with the counts of the last pass of each (and those of the rules
    that went, also of `spec`'s own). Tests join `cases` only after they were counted; what is kept back for the
    examinations never does.
    """
    kept_back = fresh[:: KEPT_BACK if len(fresh) >= MANY_TASKS else 2]
    practice = [task_id for task_id in fresh if task_id not in kept_back] or kept_back
    gone = Trials()
    known, trials, passed = spec, Trials(), Trials()
    for cycle in range(CYCLES):
        for _ in range(ROUNDS):
            candidate = extended(known, _surely(learn(known, _latest(cases), lab.copies)), {})
            tasks = rng.sample(practice, min(TASKS_PER_ROUND, len(practice)))
            for _, met in _tested_on(lab, candidate, slots, tasks, rng, under=spec):
                cases += met
        candidate = extended(known, _surely(learn(known, _latest(cases), lab.copies)), {})
        passes = EXAMINATIONS if cycle == CYCLES - 1 else 2
        known, trials = examined(lab, candidate, slots, kept_back, rng, passes, gone)
        passed.add(trials)
        right, left = sum(trials.support.values()), len(list(_rows(known)))
        say(f"testing rules on fresh tasks: {cycle + 1} of {CYCLES}, {len(cases)} cases, {left} rules, {right} tests")
    old = {identity(template, row) for template, row in _rows(spec)}
    new: dict[str, list[Row]] = defaultdict(list)
    for template, row in _rows(known):
        if identity(template, row) not in old:
            new[template].append(row)
    for rule in gone.refuted:
        passed.take(gone, rule)
    return dict(new), passed


def examined(
    lab: Lab,
    whole: Spec,
    slots: Slots,
    tasks: Sequence[str],
    rng: random.Random,
    passes: int,
    gone: Trials,
) -> tuple[Spec, Trials]:
    """What an examination leaves of a spec, and the counts of its last pass; what is refuted goes, counted in `gone`.

    The rest has another examination on new walks, since rules lean on each other, until nothing is refuted any more.
    """
    trials = Trials()
    walked = sorted([*tasks] * (-(-MIN_WALKS // max(len(tasks), 1))))
    for _ in range(passes):
        trials = Trials()
        for counted, _ in _tested_on(lab, whole, slots, walked, rng):
            trials.add(counted)
        doubtful = [(template, row) for template, row in _rows(whole) if trials.refuted[identity(template, row)]]
        for template, row in doubtful:
            whole = without(whole, template, row)
            gone.take(trials, identity(template, row))
        for template, row in list(_rows(whole)):
            if row.get("must", False) and trials.alarms[identity(template, row)]:
                whole = without(whole, template, row)
                doubtful.append((template, row))
                continue
            enough = trials.allowed[template] >= MIN_ALLOWED
            row["sure"] = row["sure"] and enough and not trials.alarms[identity(template, row)]
        if not doubtful and not trials.alarms:
            break
    return whole, trials


def _rows(spec: Spec) -> Iterator[tuple[str, Row]]:
    for part in ("templates", "now"):
        for template, rows in spec[part].items():
            yield from ((template, row) for row in rows)


def _surely(learned: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Rules that count as sure until they speak of an allowed action."""
    return {template: [{**row, "sure": True} for row in rows] for template, rows in learned.items()}


def _latest(cases: Sequence[Case]) -> list[Case]:
    """The cases to learn from, not too many of one template."""
    by_template: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_template[case.template].append(case)
    return [case for known in by_template.values() for case in known[-TOO_MANY_CASES:]]


Question = tuple[LabState, str, bool]
"""A state, an action, and whether it counts as said in other words."""


def _tested_on(
    lab: Lab, spec: Spec, slots: Slots, tasks: Sequence[str], rng: random.Random, under: Spec | None = None
) -> list[tuple[Trials, list[Case]]]:
    """The tests on a walk through each task, counted, in order. With `under`, some of each rule are cases of that spec.

    Only walks and questions are drawn by lot, so tests can be done while further walks are taken.
    """
    batches = _batches(tasks, lab.copies) if lab.copies > 1 else [[task_id] for task_id in tasks]
    drawn = ([_drawn(lab, slots, task_id, rng) for task_id in batch] for batch in batches)
    return lab.share_out((partial(_judged, lab, spec, questions, under) for questions in drawn), len(batches))


def _batches(tasks: Sequence[str], processes: int) -> list[list[str]]:
    """Tasks in rows to be tested together, some two rows for each process: copying a process has its price. All walks
    through one task are in one row, since they share a tree."""
    walks = [[*same] for _, same in groupby(tasks)]
    size = -(-len(walks) // (2 * processes))
    return [[*chain.from_iterable(walks[start : start + size])] for start in range(0, len(walks), size)]


def _drawn(lab: Lab, slots: Slots, task_id: str, rng: random.Random) -> list[Question]:
    """Questions along a walk through a task."""
    vocabulary = Vocabulary(lab.name)
    return list(_questions(walk(lab, vocabulary, task_id, rng), vocabulary, slots, rng))


def _judged(
    lab: Lab, spec: Spec, walks: Sequence[Sequence[Question]], under: Spec | None
) -> tuple[Trials, list[Case]]:
    """The tests of some walks, and cases to learn from."""
    trials, cases = Trials(), list[Case]()
    for questions in walks:
        tests = _counted(lab, spec, questions, trials)
        cases += [] if under is None else [try_case(lab, under, state, action) for state, action in tests]
    return trials, cases


def _counted(
    lab: Lab, spec: Spec, questions: Sequence[Question], trials: Trials
) -> list[tuple[LabState, str]]:
    """The tests of one walk, counted; returned are some of each rule, to learn from."""
    cases: list[tuple[LabState, str]] = []
    counts: Counter[tuple[str, bool, bool]] = Counter()
    contexts: Counter[tuple[Any, ...]] = Counter()
    asked: tuple[LabState, str] | None = None
    circumstances: tuple[Any, ...] = ()
    for state, action, sure in questions:
        if asked != (state, action):  # each is there twice, one after the other
            asked, circumstances = (state, action), (*_context(spec, state, action), lab.takes(state, action))
        context = (*circumstances, sure)
        contexts[context] += 1
        if contexts[context] > TESTS_PER_CONTEXT:
            continue
        verdict = _tested(lab, spec, state, action, trials, sure=sure)
        wrong = bool(verdict and verdict.wrong)
        kind = (verdict.rule if verdict else skeleton(action, lab.name)[0], wrong, lab.takes(state, action))
        counts[kind] += 1
        if counts[kind] <= (WRONG_PER_RULE if wrong else CASES_PER_RULE):
            cases.append((state, action))
    return cases


def _tested(
    lab: Lab, spec: Spec, state: LabState, action: str, trials: Trials, *, sure: bool
) -> TrialVerdict | None:
    """The verdict on what is said of an action, counted; None if nothing is."""
    template, names = skeleton(action, lab.name)
    if lab.takes(state, action):
        trials.allowed[template] += 1
        decision = runtime.decide(spec, situation(lab, spec, state, action), template, list(names), True)
        if decision is not None and decision[1] != "now":
            rule = identity(template, decided(spec, template, decision))
            trials.alarms[rule] += 1
            return TrialVerdict(rule, "is allowed")
    verdict = obey(lab, spec, state, action, sure=sure)
    if verdict is not None:
        wrong = f"{state.task_id}: {action}: {verdict.wrong}" if verdict.wrong else ""
        trials.count(verdict.rule, state.task_id, wrong)
    return verdict


def _questions(
    states: Sequence[LabState], vocabulary: Vocabulary, slots: Slots, rng: random.Random
) -> Iterator[tuple[LabState, str, bool]]:
    """(state, action, whether it counts as said in other words): refused actions in both ways, allowed ones in one; of
    the forms in `slots` only."""
    for _, state, action in proposals(states, vocabulary, slots, rng):
        if vocabulary.form(action) in slots:
            yield state, action, False
            yield state, action, True
    for state in states:
        by_template: dict[str, list[str]] = defaultdict(list)
        for action in sorted(state.admissible):
            if vocabulary.form(action) in slots:
                by_template[vocabulary.form(action)].append(action)
        for options in by_template.values():
            yield state, rng.choice(options), True


def _context(spec: Spec, state: LabState, action: str) -> tuple[Any, ...]:
    """The circumstances of an action, coarsely: how its names were last spoken of, and what is in effect."""
    history = history_of(spec, state)
    template, names = skeleton(action, spec["name"])
    shapes = tuple(history["shape"].get(name, "") for name in names)
    kept = state.read_by(spec)
    if _ACTIVE not in kept:
        kept[_ACTIVE] = tuple(sorted(key for key, active in history["active"].items() if active))
    return template, shapes, kept[_ACTIVE]
