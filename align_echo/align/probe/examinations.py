"""Learn rules, test them on other tasks, refine them by counterexamples, and test again.

The complete list is examined on reserved tasks; a single refutation removes a rule.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby
from typing import Any, NamedTuple

from align_echo.align.budget import BudgetSpentError
from align_echo.align.probe import runtime
from align_echo.align.probe.cases import (
    CYCLES,
    MIN_WALKS,
    TASKS_PER_ROUND,
    Case,
    Slots,
    build_history,
    is_so,
    proposals,
    replay_actions,
    situation,
    try_case,
    walk,
)
from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.names import skeleton
from align_echo.align.probe.rules import learn
from align_echo.align.probe.spec import Row, extend_spec, identity, remove_rule
from align_echo.align.probe.vocabulary import ActionVocabulary
from align_echo.types import Evidence, Trajectory

# ---------------------------------------------------------------- A rule on trial

MAX_CHAIN = 8


class TrialVerdict(NamedTuple):
    """Result of obeying: the credited or blamed rule, and the reason for blame ("" if correct)."""

    rule: str
    wrong: str


@dataclass
class TrialCounts:
    """Tests of each claim, by name: a rule's identity (`spec.identity`), a form, or another claim."""

    support: Counter[str] = field(default_factory=Counter)
    refuted: Counter[str] = field(default_factory=Counter)
    alarms: Counter[str] = field(default_factory=Counter)
    """Number of allowed actions the rule spoke about."""

    allowed: Counter[str] = field(default_factory=Counter)
    """Number of allowed actions tested against the rules, by template."""

    tasks: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    counterexample: dict[str, str] = field(default_factory=dict)
    example: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Example (task id, action) of a passed test, if recorded."""

    def of(self, claim: str) -> Evidence:
        """Return a claim's tests."""
        return Evidence(
            support=self.support[claim],
            refuted=self.refuted[claim],
            tasks=len(self.tasks[claim]),
            counterexample=self.counterexample.get(claim, ""),
        )

    def take(self, source: TrialCounts, rule: str) -> None:
        """Copy a rule's counts from other trials."""
        self.support[rule], self.refuted[rule] = source.support[rule], source.refuted[rule]
        self.tasks[rule] = source.tasks[rule]
        if rule in source.counterexample:
            self.counterexample[rule] = source.counterexample[rule]

    def add(self, trials: TrialCounts) -> None:
        """Add the counts of other trials."""
        self.support.update(trials.support)
        self.refuted.update(trials.refuted)
        for rule, tasks in trials.tasks.items():
            self.tasks[rule] |= tasks
        self.counterexample.update(trials.counterexample)
        self.alarms.update(trials.alarms)
        self.allowed.update(trials.allowed)

    def count(self, claim: str, task_id: str, counterexample: str) -> None:
        """Add a test in a task; an empty `counterexample` means it passed."""
        self.tasks[claim].add(task_id)
        if counterexample:
            self.refuted[claim] += 1
            self.counterexample[claim] = counterexample
        else:
            self.support[claim] += 1


def obey(lab: Lab, spec: dict[str, Any], start: LabState, action: str, *, sure: bool = False) -> TrialVerdict | None:
    """Follow the rules until the action is allowed; None if no rule applies.

    `sure`: the action was worded differently, so it was not tried itself (`runtime.decide`).
    """
    template, names = skeleton(action, lab.name)
    state, first = start, ""
    steps: list[str] = []
    seen = [lab.key(start)]
    for _ in range(MAX_CHAIN):
        decision = runtime.decide(spec, situation(lab, spec, state, action), template, list(names), sure)
        rule = identity(template, find_deciding_rule(spec, template, decision)) if decision else ""
        if decision is None or decision[1] in ("already", "now"):
            wrong = ""
            if decision is not None:
                right = lab.takes(state, action) if decision[1] == "now" else is_so(lab, state, action)
                wrong = "" if right else f"said {decision[1]} after {list(state.actions[len(start.actions) :])}"
            if not first or wrong:
                return TrialVerdict(rule, wrong) if rule else None
            if not _helped(lab, spec, start, state, action, steps[0], first):
                return TrialVerdict(first, f"said {steps[0]}, which leads nowhere")
            return TrialVerdict(first, "")
        if not lab.takes(state, decision[1]):
            return TrialVerdict(rule, f"said {decision[1]}, which is refused")
        first = first or rule
        steps.append(decision[1])
        state = lab.after(state, decision[1])
        if state.over:
            return TrialVerdict(first, "")
        if lab.key(state) in seen:
            return TrialVerdict(rule, f"said {decision[1]}, which leads in a circle")
        if lab.takes(state, action):
            if lab.key(lab.after(state, action)) in seen:
                return TrialVerdict(rule, f"said {decision[1]}, which undoes it")
            needless = _must(spec, template, first) is None and _does_without(lab, start, steps, action)
            return TrialVerdict(first, f"said {steps[0]}, which was not needed" if needless else "")
        seen.append(lab.key(state))
    return TrialVerdict(first, f"said {steps[0]}, and there is no end to it")


def _does_without(lab: Lab, state: LabState, steps: Sequence[str], action: str) -> bool:
    """Check if an action becomes possible without the first step, skipping refused steps.

    A first step that occurs again later is needed.
    """
    if steps[0] in steps[1:]:
        return False
    for step in steps[1:]:
        if state.over or not lab.takes(state, step):
            continue
        state = lab.after(state, step)
        if lab.takes(state, action):
            return True
    return False


def _helped(
    lab: Lab, spec: dict[str, Any], start: LabState, state: LabState, action: str, step: str, rule: str
) -> bool:
    """Check if obeying brought an action nearer or supplied its constant requirement, if the rule claims only this."""
    template, names = skeleton(action, lab.name)
    must = _must(spec, template, rule)
    if must is not None:
        known = situation(lab, spec, state, action)
        about = runtime.about(known, list(names))
        return not all(runtime.holds(spec, known, literal, about) for literal in must["if"])
    before, after = try_case(lab, spec, start, action), try_case(lab, spec, state, action)
    nearer = bool(after.steps) and (not before.steps or after.depth < before.depth)
    return nearer or before.agrees(step)


def _must(spec: dict[str, Any], template: str, rule: str) -> Row | None:
    """Return the rule if it claims only a constant requirement."""
    rows: list[Row] = spec["templates"].get(template, [])
    return next((row for row in rows if row.get("must", False) and identity(template, row) == rule), None)


def find_deciding_rule(spec: dict[str, Any], template: str, decision: tuple[int, str]) -> Row:
    """Return the rule behind a decision; "now" rules are numbered from -1 downwards."""
    row: Row = spec["now"][template][-1 - decision[0]] if decision[0] < 0 else spec["templates"][template][decision[0]]
    return row


def doubted_forms(lab: Lab, spec: dict[str, Any], failed: Iterable[Trajectory]) -> set[str]:
    """Find forms of refused actions about which `spec` is wrong, silent despite available help, or ignorant."""
    doubted: set[str] = set()
    for state, action, refused in replay_actions(lab, failed):
        form = skeleton(action, lab.name)[0]
        if not refused or form in doubted or form in spec["forms"]:
            continue
        if form not in spec["templates"]:
            doubted.add(form)
            continue
        verdict = obey(lab, spec, state, action)
        if verdict.wrong if verdict else _could_be_helped(lab, spec, state, action):
            doubted.add(form)
    lab.forget()
    return doubted


def _could_be_helped(lab: Lab, spec: dict[str, Any], state: LabState, action: str) -> bool:
    """Check if a refused action could be explained: by enabling steps, or as already in effect."""
    case = try_case(lab, spec, state, action)
    return case.already or bool(case.steps)


# ---------------------------------------------------------------- examinations

ROUNDS = 1
TESTS_PER_CONTEXT = 2
"""Tests per rule, task and context of its names."""

CASES_PER_RULE = 4
WRONG_PER_RULE = 8
"""Passed or failed tests per rule and task that become cases."""

KEPT_BACK = 4
MANY_TASKS = 12
"""Reserve a fresh task out of this number for examinations; with few tasks, every second."""

EXAMINATIONS = 6
"""Maximum passes of the last examination; rules failing its last pass are removed too."""

MIN_ALLOWED = 20
"""Minimum allowed actions a rule must stay silent about to be sure."""

TOO_MANY_CASES = 800
"""Maximum cases per template; the latest are used."""

_ACTIVE = ("active",)
"""Cache key for effects in force."""

Spec = dict[str, Any]


def refine(
    lab: Lab,
    spec: Spec,
    slots: Slots,
    cases: list[Case],
    fresh: Sequence[str],
    rng: random.Random,
    say: Callable[[str], None],
) -> tuple[dict[str, list[Row]], TrialCounts]:
    """Learn rules, find counterexamples on fresh tasks, relearn, and hold an examination; repeat for undecided cases.

    Returns rules no examination refuted, with counts of their last pass (and counts of removed rules, including
    `spec`'s own). Where the budget ends, these are the rules and counts by then. Tests join `cases` only after
    counting; those of reserved tasks never do.
    """
    kept_back = fresh[:: KEPT_BACK if len(fresh) >= MANY_TASKS else 2]
    practice = [task_id for task_id in fresh if task_id not in kept_back] or kept_back
    gone = TrialCounts()
    known, trials, passed = spec, TrialCounts(), TrialCounts()
    cycles = max(1, round(lab.pace * CYCLES))
    with suppress(BudgetSpentError):
        for cycle in range(cycles):
            for _ in range(ROUNDS):
                learned = learn(known, _latest(cases), lab.copies, lab.budget.check)
                candidate = extend_spec(known, _surely(learned), {})
                tasks = rng.sample(practice, min(TASKS_PER_ROUND, len(practice)))
                for _, new_cases in _tested_on(lab, candidate, slots, tasks, rng, under=spec):
                    cases += new_cases
            lab.budget.check()
            learned = learn(known, _latest(cases), lab.copies, lab.budget.check)
            candidate = extend_spec(known, _surely(learned), {})
            passes = EXAMINATIONS if cycle == cycles - 1 else 2
            known, trials = examine_rules(lab, candidate, slots, kept_back, rng, passes, gone)
            passed.add(trials)
            right, left = sum(trials.support.values()), len(list(_rows(known)))
            counts = f"{len(cases)} cases, {left} rules, {right} tests"
            say(f"testing rules on fresh tasks: {cycle + 1} of {cycles}, {counts}")
    old = {identity(template, row) for template, row in _rows(spec)}
    new: dict[str, list[Row]] = defaultdict(list)
    for template, row in _rows(known):
        if identity(template, row) not in old:
            new[template].append(row)
    for rule in gone.refuted:
        passed.take(gone, rule)
    return dict(new), passed


def examine_rules(
    lab: Lab,
    remaining: Spec,
    slots: Slots,
    tasks: Sequence[str],
    rng: random.Random,
    passes: int,
    gone: TrialCounts,
) -> tuple[Spec, TrialCounts]:
    """Remove refuted rules from a spec, counting them in `gone`, and return it with its last pass.

    Rules depend on each other, so the rest is examined again on new walks until none is refuted. A pass that the budget
    cuts short counts on top of the pass before.
    """
    trials = TrialCounts()
    walked = sorted([*tasks] * (-(-MIN_WALKS // max(len(tasks), 1))))
    for _ in range(passes):
        if lab.budget.is_spent():
            break
        before, trials = trials, TrialCounts()
        for counted, _ in _tested_on(lab, remaining, slots, walked, rng):
            trials.add(counted)
        if lab.budget.is_spent():
            before.add(trials)
            trials = before
        doubtful = [(template, row) for template, row in _rows(remaining) if trials.refuted[identity(template, row)]]
        for template, row in doubtful:
            remaining = remove_rule(remaining, template, row)
            gone.take(trials, identity(template, row))
        for template, row in list(_rows(remaining)):
            if row.get("must", False) and trials.alarms[identity(template, row)]:
                remaining = remove_rule(remaining, template, row)
                doubtful.append((template, row))
                continue
            enough = trials.allowed[template] >= MIN_ALLOWED
            row["sure"] = row["sure"] and enough and not trials.alarms[identity(template, row)]
        if not doubtful and not trials.alarms:
            break
    return remaining, trials


def _rows(spec: Spec) -> Iterator[tuple[str, Row]]:
    for part in ("templates", "now"):
        for template, rows in spec[part].items():
            yield from ((template, row) for row in rows)


def _surely(learned: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Mark rules as sure until they speak of an allowed action."""
    return {template: [{**row, "sure": True} for row in rows] for template, rows in learned.items()}


def _latest(cases: Sequence[Case]) -> list[Case]:
    """Select the latest cases, up to a limit per template."""
    by_template: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_template[case.template].append(case)
    return [case for known in by_template.values() for case in known[-TOO_MANY_CASES:]]


Question = tuple[LabState, str, bool]
"""State, action, and whether it counts as worded differently."""


def _tested_on(
    lab: Lab, spec: Spec, slots: Slots, tasks: Sequence[str], rng: random.Random, under: Spec | None = None
) -> list[tuple[TrialCounts, list[Case]]]:
    """Test a spec on a walk through each task, in order. With `under`, also return cases of that spec, some per rule.

    Only walks and questions are random, so tests run while further walks are made.
    """
    batches = _batches(tasks, lab.copies) if lab.copies > 1 else [[task_id] for task_id in tasks]
    drawn = ([_drawn(lab, slots, task_id, rng) for task_id in batch] for batch in batches)
    return lab.share_out((partial(_judged, lab, spec, questions, under) for questions in drawn), len(batches))


def _batches(tasks: Sequence[str], processes: int) -> list[list[str]]:
    """Group tasks for testing together, about two batches per process to limit copying.

    All walks of a task share a tree, so they share a batch.
    """
    walks = [[*same] for _, same in groupby(tasks)]
    size = -(-len(walks) // (2 * processes))
    return [[*chain.from_iterable(walks[start : start + size])] for start in range(0, len(walks), size)]


def _drawn(lab: Lab, slots: Slots, task_id: str, rng: random.Random) -> list[Question]:
    """Draw questions along a walk through a task."""
    vocabulary = ActionVocabulary(lab.name)
    return list(_questions(walk(lab, vocabulary, task_id, rng), vocabulary, slots, rng))


def _judged(
    lab: Lab, spec: Spec, walks: Sequence[Sequence[Question]], under: Spec | None
) -> tuple[TrialCounts, list[Case]]:
    """Test some walks and return cases to learn from."""
    trials, cases = TrialCounts(), list[Case]()
    for questions in walks:
        tests = _counted(lab, spec, questions, trials)
        cases += [] if under is None else [try_case(lab, under, state, action) for state, action in tests]
    return trials, cases


def _counted(lab: Lab, spec: Spec, questions: Sequence[Question], trials: TrialCounts) -> list[tuple[LabState, str]]:
    """Count the tests of a walk; return some per rule to learn from."""
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
    lab: Lab, spec: Spec, state: LabState, action: str, trials: TrialCounts, *, sure: bool
) -> TrialVerdict | None:
    """Test the advice on an action and count the verdict; None without advice."""
    template, names = skeleton(action, lab.name)
    if lab.takes(state, action):
        trials.allowed[template] += 1
        decision = runtime.decide(spec, situation(lab, spec, state, action), template, list(names), True)
        if decision is not None and decision[1] != "now":
            rule = identity(template, find_deciding_rule(spec, template, decision))
            trials.alarms[rule] += 1
            return TrialVerdict(rule, "is allowed")
    verdict = obey(lab, spec, state, action, sure=sure)
    if verdict is not None:
        wrong = f"{state.task_id}: {action}: {verdict.wrong}" if verdict.wrong else ""
        trials.count(verdict.rule, state.task_id, wrong)
    return verdict


def _questions(
    states: Sequence[LabState], vocabulary: ActionVocabulary, slots: Slots, rng: random.Random
) -> Iterator[tuple[LabState, str, bool]]:
    """Yield (state, action, worded differently) for forms in `slots`: refused actions both ways, allowed ones once."""
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
    """Summarise an action's context: how its names were last mentioned, and effects in force."""
    history = build_history(spec, state)
    template, names = skeleton(action, spec["name"])
    shapes = tuple(history["shape"].get(name, "") for name in names)
    cached = state.read_by(spec)
    if _ACTIVE not in cached:
        cached[_ACTIVE] = tuple(sorted(key for key, active in history["active"].items() if active))
    return template, shapes, cached[_ACTIVE]
