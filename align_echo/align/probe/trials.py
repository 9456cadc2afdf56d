"""A rule on trial: what it says is obeyed, and what comes of it is counted.

A test is obedience. An action is said in some state; what the rules answer is done, and the action said again, until
it is allowed. A rule is refuted if the step that it names is refused, leads back to a state of the same chain, brings
the action no nearer, or was not needed (what was said afterwards does without it); if it says "already so" and that is
not so; if it says "now" and the engine refuses. Which rules are tested where, and what becomes of them:
`examinations.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from align_echo.align.probe import runtime
from align_echo.align.probe.cases import is_so, replayed, situation, try_case
from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.names import skeleton
from align_echo.align.probe.spec import Row, identity
from align_echo.types import Evidence, Trajectory

MAX_CHAIN = 8


class TrialVerdict(NamedTuple):
    """What came of obeying: the rule that is praised or blamed, and why it is blamed ("" if it was right)."""

    rule: str
    wrong: str


@dataclass
class Trials:
    """The tests of each claim, by its name: a rule's identity (`spec.identity`), a form, or another claim."""

    support: Counter[str] = field(default_factory=Counter)
    refuted: Counter[str] = field(default_factory=Counter)
    alarms: Counter[str] = field(default_factory=Counter)
    """How often it spoke of an action that the engine allows."""

    allowed: Counter[str] = field(default_factory=Counter)
    """How many allowed actions were held against the rules, by template."""

    tasks: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    counterexample: dict[str, str] = field(default_factory=dict)
    example: dict[str, tuple[str, str]] = field(default_factory=dict)
    """(task id, action) of a test that a claim passed, where one is kept."""

    def of(self, claim: str) -> Evidence:
        """The tests of a claim."""
        return Evidence(
            support=self.support[claim],
            refuted=self.refuted[claim],
            tasks=len(self.tasks[claim]),
            counterexample=self.counterexample.get(claim, ""),
        )

    def take(self, other: Trials, rule: str) -> None:
        """Take over what another count has of a rule."""
        self.support[rule], self.refuted[rule] = other.support[rule], other.refuted[rule]
        self.tasks[rule] = other.tasks[rule]
        if rule in other.counterexample:
            self.counterexample[rule] = other.counterexample[rule]

    def add(self, other: Trials) -> None:
        """Add another count."""
        self.support.update(other.support)
        self.refuted.update(other.refuted)
        for rule, tasks in other.tasks.items():
            self.tasks[rule] |= tasks
        self.counterexample.update(other.counterexample)
        self.alarms.update(other.alarms)
        self.allowed.update(other.allowed)

    def count(self, claim: str, task_id: str, counterexample: str) -> None:
        """Add one test in a task; `counterexample` is empty if the claim held."""
        self.tasks[claim].add(task_id)
        if counterexample:
            self.refuted[claim] += 1
            self.counterexample[claim] = counterexample
        else:
            self.support[claim] += 1


def obey(lab: Lab, spec: dict[str, Any], start: LabState, action: str, *, sure: bool = False) -> TrialVerdict | None:
    """Do what the rules say until the action is allowed; None if they say nothing at all.

    `sure`: the action was said in other words, so that it was not tried itself (`runtime.decide`).
    """
    template, names = skeleton(action, lab.name)
    state, first = start, ""
    steps: list[str] = []
    seen = [lab.key(start)]
    for _ in range(MAX_CHAIN):
        decision = runtime.decide(spec, situation(lab, spec, state, action), template, list(names), sure)
        rule = identity(template, decided(spec, template, decision)) if decision else ""
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
    """Whether an action becomes possible by the steps behind the first alone, of which those that are refused are left
    out. A first step that is among them again is needed, if not first."""
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
    """Whether obeying brought an action nearer, or gave it what it always needs, where that is all that was claimed."""
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
    """The rule, if it claims no more than that an action always needs a step."""
    rows: list[Row] = spec["templates"].get(template, [])
    return next((row for row in rows if row.get("must", False) and identity(template, row) == rule), None)


def decided(spec: dict[str, Any], template: str, decision: tuple[int, str]) -> Row:
    """The rule behind a decision; those that say "now" are numbered from -1 downwards."""
    row: Row = spec["now"][template][-1 - decision[0]] if decision[0] < 0 else spec["templates"][template][decision[0]]
    return row


def doubted_forms(lab: Lab, spec: dict[str, Any], failed: Iterable[Trajectory]) -> set[str]:
    """The forms of refused actions in failed episodes of which `spec` says what is not so, or nothing though something
    would have helped; and the forms that it does not know. Of all others it spoke truly where that was needed."""
    doubted: set[str] = set()
    for state, action, refused in replayed(lab, failed):
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
    """Whether there was something to say of a refused action: steps that make it possible, or that it is already so."""
    case = try_case(lab, spec, state, action)
    return case.already or bool(case.steps)
