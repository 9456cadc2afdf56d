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
from align_echo.align.probe.cases import (
    CYCLES,
    MIN_WALKS,
    TASKS_PER_ROUND,
    ActionVocabulary,
    Case,
    Slots,
    build_history,
    is_so,
    proposals,
    replay_actions,
    situate,
    try_case,
    walk,
)
from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.names import skeleton
from align_echo.align.probe.rules import learn
from align_echo.interface.rules.decisions import DecisionLists, DecisionRule
from align_echo.interface.rules.model import AlwaysNeeds
from align_echo.types import Evidence, Trajectory

# ---------------------------------------------------------------- A rule on trial

MAX_CHAIN = 8


class TrialVerdict(NamedTuple):
    """Result of obeying: the credited or blamed rule, and the reason for blame ("" if correct)."""

    rule: str
    wrong: str


@dataclass
class TrialCounts:
    """Tests of each claim, by name: a rule's key, a form, or another claim."""

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


def obey(lab: Lab, lists: DecisionLists, start: LabState, action: str, *, sure: bool = False) -> TrialVerdict | None:
    """Follow the rules until the action is allowed; None if no rule applies.

    `sure`: the action was worded differently, so it was not tried itself (`DecisionLists.decide`).
    """
    template, names = skeleton(action, lab.name)
    state = start
    first: DecisionRule | None = None
    steps: list[str] = []
    seen = [lab.key(start)]
    for _ in range(MAX_CHAIN):
        decision = lists.decide(situate(lab, lists, state, action), template, names, sure)
        if decision is None or decision.step in ("already", "now"):
            wrong = ""
            if decision is not None:
                right = lab.takes(state, action) if decision.step == "now" else is_so(lab, state, action)
                wrong = "" if right else f"said {decision.step} after {list(state.actions[len(start.actions) :])}"
            if first is None or wrong:
                return TrialVerdict(decision.rule.key, wrong) if decision else None
            if not _helped(lab, lists, start, state, action, steps[0], first):
                return TrialVerdict(first.key, f"said {steps[0]}, which leads nowhere")
            return TrialVerdict(first.key, "")
        rule, step = decision
        if not lab.takes(state, step):
            return TrialVerdict(rule.key, f"said {step}, which is refused")
        first = first or rule
        steps.append(step)
        state = lab.after(state, step)
        if state.over:
            return TrialVerdict(first.key, "")
        if lab.key(state) in seen:
            return TrialVerdict(rule.key, f"said {step}, which leads in a circle")
        if lab.takes(state, action):
            if lab.key(lab.after(state, action)) in seen:
                return TrialVerdict(rule.key, f"said {step}, which undoes it")
            needless = not isinstance(first, AlwaysNeeds) and _does_without(lab, start, steps, action)
            return TrialVerdict(first.key, f"said {steps[0]}, which was not needed" if needless else "")
        seen.append(lab.key(state))
    return TrialVerdict(first.key if first else "", f"said {steps[0]}, and there is no end to it")


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
    lab: Lab, lists: DecisionLists, start: LabState, state: LabState, action: str, step: str, rule: DecisionRule
) -> bool:
    """Check if obeying brought an action nearer or supplied its constant requirement, if the rule claims only this."""
    if isinstance(rule, AlwaysNeeds):
        known = situate(lab, lists, state, action)
        return not rule.applies(known, known.about(skeleton(action, lab.name)[1]))
    before, after = try_case(lab, lists, start, action), try_case(lab, lists, state, action)
    nearer = bool(after.steps) and (not before.steps or after.depth < before.depth)
    return nearer or before.agrees(step)


def doubted_forms(lab: Lab, lists: DecisionLists, failed: Iterable[Trajectory]) -> set[str]:
    """Find forms of refused actions about which the rules are wrong, silent despite available help, or ignorant."""
    doubted: set[str] = set()
    for state, action, refused in replay_actions(lab, failed):
        form = skeleton(action, lab.name)[0]
        if not refused or form in doubted or form in lists.wordings:
            continue
        if form not in lists.vocabulary.forms:
            doubted.add(form)
            continue
        if (verdict := obey(lab, lists, state, action)) is not None:
            doubted |= {form} if verdict.wrong else set()
        elif (case := try_case(lab, lists, state, action)).already or case.steps:
            doubted.add(form)
    lab.forget()
    return doubted


# ---------------------------------------------------------------- examinations

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

def refine(
    lab: Lab,
    lists: DecisionLists,
    slots: Slots,
    cases: list[Case],
    fresh: Sequence[str],
    rng: random.Random,
    say: Callable[[str], None],
) -> tuple[list[DecisionRule], TrialCounts]:
    """Learn rules, find counterexamples on fresh tasks, relearn, and hold an examination; repeat for undecided cases.

    Returns rules no examination refuted, with counts of their last pass (and counts of removed rules, including those
    of `lists`). Where the budget ends, these are the rules and counts by then. Tests join `cases` only after counting;
    those of reserved tasks never do.
    """
    kept_back = fresh[:: KEPT_BACK if len(fresh) >= MANY_TASKS else 2]
    practice = [task_id for task_id in fresh if task_id not in kept_back] or kept_back
    gone = TrialCounts()
    known, trials, passed = lists, TrialCounts(), TrialCounts()
    cycles = max(1, round(lab.pace * CYCLES))
    with suppress(BudgetSpentError):
        for cycle in range(cycles):
            candidate = known.with_rules(learn(known, _latest(cases), lab.copies, lab.budget.check))
            tasks = rng.sample(practice, min(TASKS_PER_ROUND, len(practice)))
            for _, new_cases in _tested_on(lab, candidate, slots, tasks, rng, under=lists):
                cases += new_cases
            lab.budget.check()
            candidate = known.with_rules(learn(known, _latest(cases), lab.copies, lab.budget.check))
            passes = EXAMINATIONS if cycle == cycles - 1 else 2
            known, trials = examine_rules(lab, candidate, slots, kept_back, rng, passes, gone)
            passed.add(trials)
            right, left = sum(trials.support.values()), len(known.situation_rules)
            counts = f"{len(cases)} cases, {left} rules, {right} tests"
            say(f"testing rules on fresh tasks: {cycle + 1} of {cycles}, {counts}")
    old = {rule.key for rule in lists.situation_rules}
    for rule in gone.refuted:
        passed.take(gone, rule)
    return [rule for rule in known.by_form() if rule.key not in old], passed


def examine_rules(
    lab: Lab,
    remaining: DecisionLists,
    slots: Slots,
    tasks: Sequence[str],
    rng: random.Random,
    passes: int,
    gone: TrialCounts,
) -> tuple[DecisionLists, TrialCounts]:
    """Remove refuted rules, counting them in `gone`, and return the others with their last pass.

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
        refuted = {rule.key for rule in remaining.situation_rules if trials.refuted[rule.key]}
        for key in refuted:
            gone.take(trials, key)
        alarmed = [rule.key for rule in remaining.situation_rules if trials.alarms[rule.key]]
        needless = {rule.key for rule in remaining.situation_rules if isinstance(rule, AlwaysNeeds)} & {*alarmed}
        remaining = remaining.without_rules(refuted | needless)
        silent = {form for form, count in trials.allowed.items() if count >= MIN_ALLOWED}
        doubted = [rule.key for rule in remaining.situation_rules if rule.form not in silent]
        remaining = remaining.with_doubt([*doubted, *alarmed])
        if not refuted | needless and not trials.alarms:
            break
    return remaining, trials


def _latest(cases: Sequence[Case]) -> list[Case]:
    """Select the latest cases, up to a limit per template."""
    by_template: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_template[case.template].append(case)
    return [case for known in by_template.values() for case in known[-TOO_MANY_CASES:]]


Question = tuple[LabState, str, bool]
"""State, action, and whether it counts as worded differently."""


def _tested_on(
    lab: Lab,
    lists: DecisionLists,
    slots: Slots,
    tasks: Sequence[str],
    rng: random.Random,
    under: DecisionLists | None = None,
) -> list[tuple[TrialCounts, list[Case]]]:
    """Test rules on a walk through each task, in order. With `under`, also return cases under these, some per rule.

    Only walks and questions are random, so tests run while further walks are made.
    """

    def draw(task_id: str) -> list[Question]:
        vocabulary = ActionVocabulary(lab.name)
        return list(_questions(walk(lab, vocabulary, task_id, rng), vocabulary, slots, rng))

    batches = _batches(tasks, lab.copies) if lab.copies > 1 else [[task_id] for task_id in tasks]
    drawn = ([*map(draw, batch)] for batch in batches)
    return lab.share_out((partial(_judged, lab, lists, questions, under) for questions in drawn), len(batches))


def _batches(tasks: Sequence[str], processes: int) -> list[list[str]]:
    """Group tasks for testing together, about two batches per process to limit copying.

    All walks of a task share a tree, so they share a batch.
    """
    walks = [[*same] for _, same in groupby(tasks)]
    size = -(-len(walks) // (2 * processes))
    return [[*chain.from_iterable(walks[start : start + size])] for start in range(0, len(walks), size)]


def _judged(
    lab: Lab, lists: DecisionLists, walks: Sequence[Sequence[Question]], under: DecisionLists | None
) -> tuple[TrialCounts, list[Case]]:
    """Test some walks and return cases to learn from."""
    trials, cases = TrialCounts(), list[Case]()
    for questions in walks:
        tests = _counted(lab, lists, questions, trials)
        cases += [] if under is None else [try_case(lab, under, state, action) for state, action in tests]
    return trials, cases


def _counted(
    lab: Lab, lists: DecisionLists, questions: Sequence[Question], trials: TrialCounts
) -> list[tuple[LabState, str]]:
    """Count the tests of a walk; return some per rule to learn from."""
    cases: list[tuple[LabState, str]] = []
    counts: Counter[tuple[str, bool, bool]] = Counter()
    contexts: Counter[tuple[Any, ...]] = Counter()
    asked: tuple[LabState, str] | None = None
    circumstances: tuple[Any, ...] = ()
    for state, action, sure in questions:
        if asked != (state, action):  # each is there twice, one after the other
            asked, circumstances = (state, action), (*_context(lists, state, action), lab.takes(state, action))
        context = (*circumstances, sure)
        contexts[context] += 1
        if contexts[context] > TESTS_PER_CONTEXT:
            continue
        verdict = _tested(lab, lists, state, action, trials, sure=sure)
        wrong = bool(verdict and verdict.wrong)
        kind = (verdict.rule if verdict else skeleton(action, lab.name)[0], wrong, lab.takes(state, action))
        counts[kind] += 1
        if counts[kind] <= (WRONG_PER_RULE if wrong else CASES_PER_RULE):
            cases.append((state, action))
    return cases


def _tested(
    lab: Lab, lists: DecisionLists, state: LabState, action: str, trials: TrialCounts, *, sure: bool
) -> TrialVerdict | None:
    """Test the advice on an action and count the verdict; None without advice."""
    template, names = skeleton(action, lab.name)
    if lab.takes(state, action):
        trials.allowed[template] += 1
        decision = lists.decide(situate(lab, lists, state, action), template, names, True)
        if decision is not None and decision.step != "now":
            trials.alarms[decision.rule.key] += 1
            return TrialVerdict(decision.rule.key, "is allowed")
    verdict = obey(lab, lists, state, action, sure=sure)
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


def _context(lists: DecisionLists, state: LabState, action: str) -> tuple[Any, ...]:
    """Summarise an action's context: how its names were last mentioned, and effects in force."""
    history = build_history(lists.vocabulary, state)
    template, names = skeleton(action, lists.vocabulary.pattern)
    mentions = tuple(history.mentions.get(name, "") for name in names)
    cached = state.read_by(lists)
    if _ACTIVE not in cached:
        cached[_ACTIVE] = tuple(sorted(key for key, active in history.active.items() if active))
    return template, mentions, cached[_ACTIVE]
