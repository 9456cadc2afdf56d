"""Rules on trial: tested on tasks they were not learned from, refined by what refuted them, tested again."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from align_echo.align.probe import runtime
from align_echo.align.probe.cases import Case, Slots, history_of, proposals, try_case, walk
from align_echo.align.probe.lab import Lab, State
from align_echo.align.probe.rules import judge, learn
from align_echo.align.probe.spec import Row, alone, extended, identity
from align_echo.align.probe.vocabulary import Vocabulary, skeleton
from align_echo.types import Evidence

ROUNDS = 6
TESTS_PER_RULE = 8
"""In one round."""

TESTS_PER_TASK = 4
"""Of one rule."""

MAX_FALSE_ALARMS = 0.03
"""A rule is sure if it applies to at most this share of the actions of its template that the engine allows."""


@dataclass
class Trials:
    """What was seen of each rule, by the rule's identity, and how often it spoke of actions that the engine allows.

    Counting false alarms costs no engine step: every state of a walk lists what it allows.
    """

    tested: dict[str, Evidence] = field(default_factory=dict)
    allowed: Counter[str] = field(default_factory=Counter)
    alarms: Counter[str] = field(default_factory=Counter)

    def of(self, template: str, row: Row) -> Evidence:
        """The tests of a rule."""
        return self.tested.get(identity(template, row), Evidence())

    def sure(self, template: str, row: Row) -> bool:
        """Whether a rule keeps quiet about nearly all allowed actions; False if it was never held against any."""
        rule = identity(template, row)
        return self.allowed[rule] > 0 and self.alarms[rule] <= MAX_FALSE_ALARMS * self.allowed[rule]

    def count_tests(self, spec: dict[str, Any], tests: Sequence[Case]) -> None:
        """Add the verdicts of cases that no rule was learned from yet."""
        for (template, number), evidence in judge(spec, tests).items():
            rule = identity(template, spec["templates"][template][number])
            self.tested[rule] = _sum(self.tested[rule], evidence) if rule in self.tested else evidence

    def count_alarms(self, spec: dict[str, Any], states: Sequence[State]) -> None:
        """Hold every rule against what the states of a walk allow."""
        for state in states:
            history = history_of(spec, state)
            for action in state.admissible:
                template, names = skeleton(action)
                for row in spec["templates"].get(template, ()):
                    rule = identity(template, row)
                    self.allowed[rule] += 1
                    spoke = runtime.decide(alone(spec, template, row), history, template, list(names))
                    self.alarms[rule] += spoke is not None


def refine(
    lab: Lab,
    spec: dict[str, Any],
    slots: Slots,
    cases: list[Case],
    fresh: Sequence[str],
    rng: random.Random,
    say: Callable[[str], None],
) -> tuple[dict[str, list[Row]], Trials]:
    """Learn, look for counterexamples on fresh tasks, learn from them, again; and all that was seen of each rule.

    Tests join `cases` only after they were counted, so no rule is judged on what it was learned from.
    """
    trials = Trials()
    learned: dict[str, list[Row]] = {}
    for number in range(ROUNDS):
        learned = learn(spec, cases)
        candidate = extended(spec, learned, {})
        tests = _tests(lab, candidate, slots, fresh[number::ROUNDS], rng, trials)
        trials.count_tests(candidate, tests)
        cases += tests
        say(f"testing rules on fresh tasks: round {number + 1} of {ROUNDS}, {len(tests)} tests")
    return learned, trials


def _tests(
    lab: Lab, spec: dict[str, Any], slots: Slots, fresh: Sequence[str], rng: random.Random, trials: Trials
) -> list[Case]:
    """Cases on fresh tasks, each rule in the contexts that it was tried in least."""
    tests: list[Case] = []
    tried: Counter[tuple[str, int]] = Counter()
    contexts: Counter[str] = Counter()
    for task_id in fresh:
        here: Counter[tuple[str, int]] = Counter()
        vocabulary = Vocabulary()
        states = walk(lab, vocabulary, task_id, rng)
        trials.count_alarms(spec, states)
        offers = [
            (rule, _context(spec, state, action), state, action)
            for _, state, action in proposals(states, vocabulary, slots, rng)
            if (rule := _decided(spec, state, action)) is not None
        ]
        rng.shuffle(offers)
        offers.sort(key=lambda offer: contexts[f"{offer[0]} {offer[1]}"])
        for rule, context, state, action in offers:
            if tried[rule] >= TESTS_PER_RULE or here[rule] >= TESTS_PER_TASK:
                continue
            tried[rule] += 1
            here[rule] += 1
            contexts[f"{rule} {context}"] += 1
            tests.append(try_case(lab, spec, state, action))
    return tests


def _decided(spec: dict[str, Any], state: State, action: str) -> tuple[str, int] | None:
    template, names = skeleton(action)
    decision = runtime.decide(spec, history_of(spec, state), template, list(names))
    return None if decision is None else (template, decision[0])


def _context(spec: dict[str, Any], state: State, action: str) -> str:
    """The circumstances of an action, coarsely: how its names were last spoken of, and what is in effect."""
    history = history_of(spec, state)
    shapes = [history["shape"].get(name, "") for name in skeleton(action)[1]]
    return json.dumps([shapes, sorted(key for key, active in history["active"].items() if active)])


def _sum(one: Evidence, other: Evidence) -> Evidence:
    """Evidence from two rounds, which share no task."""
    return Evidence(
        support=one.support + other.support,
        refuted=one.refuted + other.refuted,
        tasks=one.tasks + other.tasks,
        counterexample=one.counterexample or other.counterexample,
    )
