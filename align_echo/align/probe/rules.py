"""Rules from cases: for each action template a decision list of (conditions -> missing step).

A rule is grown greedily: of all right-hand sides that were right somewhere, and all conjunctions of up to three
conditions, the one that is right most often and wrong least often on the cases no earlier rule decided. What holds in
one task only is not a rule. Scoring runs `runtime.py`, the code that will apply the rule.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from align_echo.align.probe import runtime
from align_echo.align.probe.cases import Case
from align_echo.align.probe.spec import Row
from align_echo.align.probe.vocabulary import skeleton
from align_echo.types import Evidence

MAX_CONDITIONS = 3
MIN_SUPPORT = 3
MIN_TASKS = 2
MIN_PRECISION = 0.9
_BEAM = 12
_WRONG = 5.0
_HOPELESS = 0.25
_PRICE = {"not": 1.25, "shape": 1.5, "known": 1.5, "near": 1.5, "kind": 0.75}


def conditions(spec: dict[str, Any], places: int, shapes: Iterable[tuple[int, str]]) -> list[list[Any]]:
    """All single conditions on an action with that many names."""
    literals: list[list[Any]] = []
    arity = {template: template.count("{") for template in spec["templates"]}
    for place in range(places):
        for template in spec["movers"]:
            literals += [["last", template, other, place] for other in range(arity[template])]
            literals.append(["here", place, template])
        for number, pair in enumerate(spec["pairs"]):
            literals += [["active", number, other, place] for other in range(arity[pair[0]])]
        literals.append(["known", place])
        slots = [(template, other) for template, seen in spec["kinds"].items() for other in range(len(seen))]
        literals += [["kind", place, template, other] for template, other in slots]
        literals += [["near", place, other] for other in range(places) if other != place]
    literals += [["any", number, place] for number, pair in enumerate(spec["pairs"]) for place in range(arity[pair[0]])]
    literals += [["shape", place, text] for place, text in shapes]
    return literals + [["not", literal] for literal in literals if literal[0] not in ("shape", "known", "near")]


def conclusions(spec: dict[str, Any], case: Case) -> set[str]:
    """Every right-hand side (as JSON) that is right in a case."""
    if case.already:
        return {json.dumps("already")}
    found: set[str] = set()
    terms: list[list[Any]] = []
    for place in range(len(case.names)):
        terms += [["name", place], ["near", place]]
        terms += [["at", place, template] for template in spec["movers"]]
    terms += [["active", number, 0] for number in range(len(spec["pairs"]))]
    terms += [["last", template, 0] for template in spec["movers"]]
    named: dict[str, list[list[Any]]] = defaultdict(list)
    for term in terms:
        named[runtime.value(case.history, term, list(case.names))].append(term)
    for step in case.steps:
        template, names = skeleton(step)
        choices: list[list[list[Any]]] = [[]]
        for name in names:
            choices = [[*chosen, term] for chosen in choices for term in named.get(name, ())][:400]
        found.update(json.dumps([template, chosen]) for chosen in choices)
    return found


@dataclass
class _Table:
    """Cases of one template as bit sets: which cases a literal holds in, where a conclusion applies and is right."""

    cases: Sequence[Case]
    literals: list[tuple[list[Any], int]]
    fires: dict[str, int]
    right: dict[str, int]
    hopeless: int

    @classmethod
    def of(cls, spec: dict[str, Any], cases: Sequence[Case]) -> _Table:
        places = len(cases[0].names)
        shapes = Counter(
            (place, case.history["shape"].get(name, "")) for case in cases for place, name in enumerate(case.names)
        )
        frequent = [shape for shape, count in shapes.items() if count >= MIN_SUPPORT and shape[1]]
        literals = [
            (literal, _bits(runtime.holds(spec, case.history, literal, list(case.names)) for case in cases))
            for literal in conditions(spec, places, frequent)
        ]
        everywhere = (1 << len(cases)) - 1
        literals = [(literal, bits) for literal, bits in literals if bits not in (0, everywhere)]
        votes = Counter(conclusion for case in cases for conclusion in conclusions(spec, case))
        fires: dict[str, int] = {}
        right: dict[str, int] = {}
        for conclusion, count in votes.items():
            if count < MIN_SUPPORT:
                continue
            then = json.loads(conclusion)
            steps = [runtime.conclude(case.history, then, list(case.names)) for case in cases]
            fires[conclusion] = _bits(
                bool(step) and step != case.action for step, case in zip(steps, cases, strict=True)
            )
            right[conclusion] = _bits(case.agrees(step) for step, case in zip(steps, cases, strict=True))
        return cls(cases, literals, fires, right, _bits(case.outcome == "nothing" for case in cases))

    def best(self, open_cases: int) -> tuple[float, Row, int] | None:
        """The best rule for the undecided cases: (value, row, the cases it decides). It must hold in the others too."""
        best: tuple[float, Row, int] | None = None
        for conclusion in sorted(self.fires, key=_plainness):
            bits = self.fires[conclusion]
            beam: list[tuple[float, tuple[int, ...], int]] = [(self._worth(conclusion, bits, (), open_cases), (), bits)]
            candidates = list(beam)
            for _ in range(MAX_CONDITIONS):
                grown = {
                    tuple(sorted((*chosen, index))): bits & more
                    for _, chosen, bits in beam
                    for index, (_, more) in enumerate(self.literals)
                    if index not in chosen and (bits & more) not in (0, bits)
                }
                beam = sorted(
                    (
                        (self._worth(conclusion, bits, chosen, open_cases), chosen, bits)
                        for chosen, bits in grown.items()
                    ),
                    key=lambda one: (-one[0], one[1]),
                )[:_BEAM]
                candidates += beam
            for worth, chosen, bits in candidates:
                if (best is None or worth > best[0]) and self._sound(conclusion, bits):
                    literals = [self.literals[index][0] for index in chosen]
                    best = (worth, {"if": literals, "then": json.loads(conclusion)}, bits)
        return best

    def _worth(self, conclusion: str, bits: int, chosen: tuple[int, ...], open_cases: int) -> float:
        right = (bits & self.right[conclusion] & open_cases).bit_count()
        wrong = (bits & ~self.right[conclusion] & ~self.hopeless).bit_count()
        hopeless = (bits & self.hopeless).bit_count()
        price = sum(_PRICE.get(self.literals[index][0][0], 1.0) for index in chosen)
        return right - _WRONG * wrong - _HOPELESS * hopeless - price

    def _sound(self, conclusion: str, bits: int) -> bool:
        agreeing = bits & self.right[conclusion]
        right, decided = agreeing.bit_count(), (bits & ~self.hopeless).bit_count()
        tasks = {case.task_id for index, case in enumerate(self.cases) if agreeing >> index & 1}
        return right >= MIN_SUPPORT and right >= MIN_PRECISION * decided and len(tasks) >= MIN_TASKS


def _plainness(conclusion: str) -> tuple[int, str]:
    """Conclusions about the action's own names come first."""
    then = json.loads(conclusion)
    return 0 if then == "already" else sum(term[0] != "name" for term in then[1]), conclusion


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << index for index, flag in enumerate(flags) if flag)


def learn(spec: dict[str, Any], cases: Sequence[Case]) -> dict[str, list[Row]]:
    """Further rows for each template's decision list, from the cases that the rules in `spec` leave undecided."""
    by_template: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.template in spec["templates"] and case.names:
            by_template[case.template].append(case)
    return {template: _learn_list(spec, template, found) for template, found in sorted(by_template.items())}


def _learn_list(spec: dict[str, Any], template: str, cases: Sequence[Case]) -> list[Row]:
    table = _Table.of(spec, cases)
    open_cases = _bits(runtime.decide(spec, case.history, template, list(case.names)) is None for case in cases)
    rows: list[Row] = []
    while (found := table.best(open_cases)) is not None and found[0] > 0:
        rows.append(found[1])
        open_cases &= ~found[2]
    return rows


def judge(spec: dict[str, Any], cases: Iterable[Case]) -> dict[tuple[str, int], Evidence]:
    """How each rule fares on cases it was not learned from, by (template, row). Cases nothing helps in do not count."""
    support: Counter[tuple[str, int]] = Counter()
    refuted: Counter[tuple[str, int]] = Counter()
    tasks: dict[tuple[str, int], set[str]] = defaultdict(set)
    counterexample: dict[tuple[str, int], str] = {}
    for case in cases:
        decision = runtime.decide(spec, case.history, case.template, list(case.names))
        if decision is None or case.outcome == "nothing":
            continue
        rule = (case.template, decision[0])
        tasks[rule].add(case.task_id)
        if case.agrees(decision[1]):
            support[rule] += 1
        else:
            refuted[rule] += 1
            counterexample[rule] = f"{case.task_id}: {case.action}: said {decision[1]}, needed {case.outcome}"
    return {
        rule: Evidence(
            support=support[rule],
            refuted=refuted[rule],
            tasks=len(tasks[rule]),
            counterexample=counterexample.get(rule, ""),
        )
        for rule in tasks
    }
