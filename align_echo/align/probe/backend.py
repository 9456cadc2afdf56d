"""The probe as a backend of ALIGN's loop: analyse failures by experiment, write the interface from what survived.

`analyze` and `optimize` keep no state between iterations: what was learned before is read back from the interface
itself, so a resumed run goes on as an uninterrupted one would.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from align_echo.align.probe import emit, runtime
from align_echo.align.probe.cases import Case, failures, history_of, proposals, try_case, walk
from align_echo.align.probe.forms import Said, learn_forms, try_form
from align_echo.align.probe.lab import Lab, State
from align_echo.align.probe.rules import MIN_PRECISION, Row, judge, learn
from align_echo.align.probe.vocabulary import Vocabulary, skeleton, uninformative_observations
from align_echo.interface import Interface, Provenance, RuleRecord
from align_echo.types import Evidence, Misalignment, Trajectory
from align_echo.wrappers.text_env import TextEnv

FAILURES_PER_TASK = 3
"""Cases taken from one agent failure, per action template."""

CASES_PER_KIND = 3
"""Cases taken from one walk, per action template and reason to look at it."""

TESTS_PER_RULE = 8
ROUNDS = 6
MIN_TESTS = 2
TOO_WRONG = 0.8
"""A rule of the interface goes when fewer of its tests agree; it came when `MIN_PRECISION` of them did."""

MAX_FALSE_ALARMS = 0.03
"""A rule is sure if it applies to at most this share of the actions of its template that the engine allows."""

Progress = Callable[[str], None]
Tested = dict[str, Evidence]
"""What was seen of each rule on tasks it was not learned from, by the rule's identity."""


class FalseAlarms:
    """How often rules would have spoken of actions that the engine allows. Costs no engine step."""

    def __init__(self) -> None:
        self._allowed: Counter[str] = Counter()
        self._alarms: Counter[str] = Counter()

    def count(self, spec: dict[str, Any], states: Sequence[State]) -> None:
        """Hold every rule against what the states of a walk allow."""
        for state in states:
            history = history_of(spec, state)
            for action in state.admissible:
                template, names = skeleton(action)
                for row in spec["templates"].get(template, ()):
                    rule = _identity(template, row)
                    self._allowed[rule] += 1
                    self._alarms[rule] += _applies(spec, history, template, row, list(names))

    def none(self, template: str, row: Row) -> bool:
        """Whether a rule keeps quiet about nearly all allowed actions; False for one that was never held against any."""
        rule = _identity(template, row)
        return self._allowed[rule] > 0 and self._alarms[rule] <= MAX_FALSE_ALARMS * self._allowed[rule]


class ProbeBackend:
    """Learns on the failed tasks, tests on `fresh_tasks`; `make_lab_env` gives a raw environment without a limit."""

    name = "probe"

    def __init__(
        self,
        make_lab_env: Callable[[], TextEnv],
        fresh_tasks: Sequence[str],
        *,
        seed: int = 0,
        on_progress: Progress | None = None,
    ) -> None:
        self._make_lab_env = make_lab_env
        self._fresh = list(fresh_tasks)
        self._seed = seed
        self._say = on_progress or (lambda _: None)
        self._lab: Lab | None = None
        self._alarms = FalseAlarms()

    def describe(self) -> dict[str, str]:
        """For a run's record: this backend uses no model."""
        return {"backend": "probe"}

    @property
    def lab(self) -> Lab:
        """The laboratory, opened on first use."""
        if self._lab is None:
            self._lab = Lab(self._make_lab_env())
        return self._lab

    # ------------------------------------------------------------ Algorithm 1, stage 1

    def analyze(
        self, failed: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """Rules that hold on fresh tasks and are not in the interface yet. Empty if no feedback is uninformative."""
        refusals = uninformative_observations(failed)
        before = emit.read_spec(interface.source)
        if not refusals and before is None:
            self._say("no uninformative feedback found: there is nothing to align")
            return []
        self.lab.forget()
        rng = random.Random(f"{self._seed}/{interface.provenance.iterations}")
        tasks = list(dict.fromkeys(trajectory.task_id for trajectory in failed))
        spec = self._vocabulary(tasks, refusals, before, rng)
        cases, said = self._cases(spec, failed, tasks, rng)
        self._say(f"{len(cases)} refused actions studied ({self.lab.steps} engine steps so far)")
        forms = {form: found for form, found in learn_forms(said).items() if form not in spec["forms"]}
        self._alarms = FalseAlarms()
        learned, tested = self._refined(spec, cases, tasks, rng)
        fresh = [*_about_refusals(spec, before, failed)]
        fresh += [_about_form(form, *found) for form, found in sorted(forms.items())]
        fresh += _about_wrong_rules(spec, tested)
        fresh += _about_rules(spec, learned, tested, self._alarms, cases)
        told = {one.rule for one in known}
        return [one for one in fresh if one.rule not in told]

    def _vocabulary(
        self, tasks: Sequence[str], refusals: Sequence[str], before: dict[str, Any] | None, rng: random.Random
    ) -> dict[str, Any]:
        vocabulary = Vocabulary()
        for number, task_id in enumerate(tasks, 1):
            walk(self.lab, vocabulary, task_id, rng)
            self._say(f"learning what can be said: task {number} of {len(tasks)}")
        self.lab.forget()
        return _merged(before, vocabulary.spec(refusals))

    def _cases(
        self, spec: dict[str, Any], failed: Sequence[Trajectory], tasks: Sequence[str], rng: random.Random
    ) -> tuple[list[Case], list[Said]]:
        cases: list[Case] = []
        said: list[Said] = []
        by_task = {task_id: [one for one in failed if one.task_id == task_id] for task_id in tasks}
        for number, task_id in enumerate(tasks, 1):
            taken: Counter[str] = Counter()
            for state, action in failures(self.lab, by_task[task_id], spec["uninformative"]):
                template = skeleton(action)[0]
                taken[template] += 1
                if taken[template] > FAILURES_PER_TASK or not skeleton(action)[0]:
                    continue
                if template not in spec["templates"]:
                    one = try_form(self.lab, spec, state, action)
                    said += [one] if one else []
                elif action not in state.admissible:
                    cases.append(try_case(self.lab, spec, state, action))
            cases += self._walked(spec, task_id, rng)
            self._say(f"studying refused actions: task {number} of {len(tasks)}, {len(cases)} cases")
        return cases, said

    def _walked(self, spec: dict[str, Any], task_id: str, rng: random.Random) -> list[Case]:
        """Cases from a walk through a task, a few of each template and each reason to look at it."""
        cases: list[Case] = []
        taken: Counter[tuple[str, str]] = Counter()
        vocabulary = Vocabulary()
        offers = list(proposals(walk(self.lab, vocabulary, task_id, rng), vocabulary, rng))
        rng.shuffle(offers)
        for why, state, action in offers:
            kind = (why, skeleton(action)[0])
            taken[kind] += 1
            if taken[kind] <= CASES_PER_KIND:
                cases.append(try_case(self.lab, spec, state, action))
        return cases

    def _refined(
        self, spec: dict[str, Any], cases: list[Case], tasks: Sequence[str], rng: random.Random
    ) -> tuple[dict[str, list[Row]], Tested]:
        """Learn, look for counterexamples on fresh tasks, learn from them, again; and all that was seen of each rule.

        Tests become cases only after they were counted, so no rule is judged on what it was learned from.
        """
        fresh = [task_id for task_id in self._fresh if task_id not in tasks]
        shares = [fresh[number::ROUNDS] for number in range(ROUNDS)]
        tested: Tested = {}
        learned: dict[str, list[Row]] = {}
        for number, share in enumerate(shares, 1):
            learned = learn(spec, cases)
            candidate = _extended(spec, learned, {})
            tests = self._tests(candidate, share, rng)
            self._say(f"testing rules on fresh tasks: round {number} of {ROUNDS}, {len(tests)} tests")
            for (template, row), evidence in judge(candidate, tests).items():
                rule = _identity(template, candidate["templates"][template][row])
                tested[rule] = _sum(tested.get(rule), evidence)
            cases += tests
        return learned, tested

    def _tests(self, spec: dict[str, Any], fresh: Sequence[str], rng: random.Random) -> list[Case]:
        """Cases on tasks no rule was learned from, each in the contexts that its rule was tried in least."""
        tests: list[Case] = []
        tried: Counter[tuple[str, int]] = Counter()
        contexts: Counter[str] = Counter()
        for task_id in fresh:
            here: Counter[tuple[str, int]] = Counter()
            vocabulary = Vocabulary()
            states = walk(self.lab, vocabulary, task_id, rng)
            self._alarms.count(spec, states)
            offers = [
                (rule, _context(spec, state, action), state, action)
                for _, state, action in proposals(states, vocabulary, rng)
                if (rule := _decided(spec, state, action)) is not None
            ]
            rng.shuffle(offers)
            offers.sort(key=lambda offer: contexts[f"{offer[0]} {offer[1]}"])
            for rule, context, state, action in offers:
                if tried[rule] >= TESTS_PER_RULE or here[rule] >= 4:
                    continue
                tried[rule] += 1
                here[rule] += 1
                contexts[f"{rule} {context}"] += 1
                tests.append(try_case(self.lab, spec, state, action))
        return tests

    # ------------------------------------------------------------ Algorithm 1, stage 2

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """The interface with the new misalignments resolved."""
        spec = emit.read_spec(interface.source)
        for one in new:
            spec = _resolved(spec, json.loads(one.detail))
        if spec is None:
            return interface
        old = interface.provenance
        provenance = Provenance(
            environment=interface.contract.environment,
            backend=self.name,
            agent=old.agent,
            seed=self._seed,
            iterations=old.iterations + 1,
            training_tasks=tuple(dict.fromkeys((*old.training_tasks, *(one.task_id for one in new)))),
            rules=_records(old.rules, new),
            engine_steps=self._lab.steps if self._lab else old.engine_steps,
        )
        source = emit.source(spec, interface.contract)
        return interface.model_copy(update={"name": "probe", "source": source, "provenance": provenance})


def _records(old: Sequence[RuleRecord], new: Sequence[Misalignment]) -> tuple[RuleRecord, ...]:
    """The rules of an interface with their evidence; one that was refuted goes."""
    gone = {one.rule.removeprefix("Not so: ") for one in new if one.kind == "bug-of-current"}
    kept = [record for record in old if record.text not in gone]
    return (
        *kept,
        *(RuleRecord(text=one.rule, evidence=one.evidence) for one in new if one.kind == "new-logic"),
    )


def _merged(before: dict[str, Any] | None, now: dict[str, Any]) -> dict[str, Any]:
    """The old spec with what is new in the vocabulary; old pairs keep their numbers."""
    if before is None:
        return now
    return {
        **before,
        "templates": {**now["templates"], **before["templates"]},
        "kinds": _joined(before["kinds"], now["kinds"]),
        "movers": sorted({*before["movers"], *now["movers"]}),
        "pairs": before["pairs"] + [pair for pair in now["pairs"] if pair not in before["pairs"]],
        "uninformative": sorted({*before["uninformative"], *now["uninformative"]}),
    }


def _joined(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Kinds by place, from two vocabularies."""
    joined = {**now, **before}
    for template in set(before) & set(now):
        places = zip(before[template], now[template], strict=True)
        joined[template] = [sorted({*one, *other}) for one, other in places]
    return joined


def _extended(spec: dict[str, Any], rows: dict[str, list[Any]], forms: dict[str, str]) -> dict[str, Any]:
    templates = {template: [*old, *rows.get(template, [])] for template, old in spec["templates"].items()}
    return {**spec, "templates": templates, "forms": {**spec["forms"], **forms}}


def _resolved(spec: dict[str, Any] | None, detail: dict[str, Any]) -> dict[str, Any]:
    """A spec with one misalignment's detail worked in."""
    if "vocabulary" in detail:
        return _merged(spec, detail["vocabulary"])
    assert spec is not None, "the vocabulary comes first"
    if "drop" in detail:
        rows = [row for row in spec["templates"][detail["template"]] if row != detail["drop"]]
        return {**spec, "templates": {**spec["templates"], detail["template"]: rows}}
    if "form" in detail:
        return _extended(spec, {}, {detail["form"]: detail["template"]})
    return _extended(spec, {detail["template"]: [detail["row"]]}, {})


def _decided(spec: dict[str, Any], state: State, action: str) -> tuple[str, int] | None:
    template, names = skeleton(action)
    decision = runtime.decide(spec, history_of(spec, state), template, list(names))
    return None if decision is None else (template, decision[0])


def _context(spec: dict[str, Any], state: State, action: str) -> str:
    """The circumstances of an action, coarsely: how its names were last spoken of, and what is in effect."""
    history = history_of(spec, state)
    shapes = [history["shape"].get(name, "") for name in skeleton(action)[1]]
    return json.dumps([shapes, sorted(key for key, active in history["active"].items() if active)])


def _about_refusals(
    spec: dict[str, Any], before: dict[str, Any] | None, failed: Sequence[Trajectory]
) -> Iterable[Misalignment]:
    """The first finding: one answer for many different refusals, and the forms that are understood at all."""
    unchanged = (
        before is not None
        and set(spec["templates"]) <= set(before["templates"])
        and (spec["pairs"] == before["pairs"] and spec["uninformative"] == before["uninformative"])
    )
    if unchanged:
        return
    step = next(
        step
        for trajectory in failed
        for step in trajectory.steps
        if step.raw_observation is not None and step.raw_observation.strip() in spec["uninformative"]
    )
    refused = step.raw_observation
    said = {one.action for trajectory in failed for one in trajectory.steps if one.raw_observation == refused}
    bare = {**spec, "templates": {template: [] for template in spec["templates"]}, "forms": {}}
    yield Misalignment(
        task_id=failed[0].task_id,
        action_type="any refused action",
        action=step.action or "",
        intent="learn what came of the action",
        rule=f'"{" / ".join(spec["uninformative"])}" answers every refused action alike '
        f"({len(spec['templates'])} forms of action are understood)",
        sufficient_feedback="say why the action was refused and what to do first",
        evidence=Evidence(support=len(said), tasks=len({one.task_id for one in failed})),
        detail=json.dumps({"vocabulary": bare}),
    )


def _about_form(form: str, template: str, evidence: Evidence, example: Said) -> Misalignment:
    return Misalignment(
        task_id=example.task_id,
        action_type=form,
        action=example.action,
        intent=f"do `{template}`",
        rule=emit.form_in_words(form, template),
        sufficient_feedback=f"name the form that is understood: `{template}`",
        evidence=evidence,
        detail=json.dumps({"form": form, "template": template}),
    )


def _about_wrong_rules(spec: dict[str, Any], tested: Tested) -> Iterable[Misalignment]:
    """Rules of the present interface that fresh tasks refuted."""
    for template, rows in spec["templates"].items():
        for row in rows:
            evidence = tested.get(_identity(template, row), Evidence())
            if evidence.refuted >= MIN_TESTS and evidence.precision < TOO_WRONG:
                yield Misalignment(
                    task_id=evidence.counterexample.split(": ")[0],
                    action_type=template,
                    action=evidence.counterexample.split(": ")[1],
                    intent="follow the interface's hint",
                    rule=f"Not so: {emit.rule_in_words(spec, template, row)}",
                    sufficient_feedback="leave the hint out",
                    kind="bug-of-current",
                    evidence=evidence,
                    detail=json.dumps({"template": template, "drop": row}),
                )


def _about_rules(
    spec: dict[str, Any],
    learned: dict[str, list[Row]],
    tested: Tested,
    alarms: FalseAlarms,
    cases: Sequence[Case],
) -> Iterable[Misalignment]:
    """The learned rules that stood the test."""
    for template, rows in learned.items():
        for row in rows:
            evidence = tested.get(_identity(template, row), Evidence())
            if evidence.support < MIN_TESTS or evidence.precision < MIN_PRECISION:
                continue
            example, step = next(_examples(spec, template, row, cases))
            yield Misalignment(
                task_id=example.task_id,
                action_type=template,
                action=example.action,
                intent=f"`{example.action}` at once",
                rule=emit.rule_in_words(spec, template, row),
                sufficient_feedback="it is already so" if step == "already" else f"you need to `{step}` first",
                evidence=evidence,
                detail=json.dumps({"template": template, "row": {**row, "sure": alarms.none(template, row)}}),
            )


def _examples(spec: dict[str, Any], template: str, row: Row, cases: Sequence[Case]) -> Iterator[tuple[Case, str]]:
    """Cases that a rule is right about, with what it says."""
    for case in cases:
        if case.template != template:
            continue
        decision = runtime.decide(_alone(spec, template, row), case.history, template, list(case.names))
        if decision is not None and case.agrees(decision[1]):
            yield case, decision[1]


def _alone(spec: dict[str, Any], template: str, row: Row) -> dict[str, Any]:
    return {**spec, "templates": {template: [row]}}


def _applies(spec: dict[str, Any], history: dict[str, Any], template: str, row: Row, names: list[str]) -> bool:
    return runtime.decide(_alone(spec, template, row), history, template, names) is not None


def _identity(template: str, row: Row) -> str:
    return json.dumps([template, row["if"], row["then"]])


def _sum(one: Evidence | None, other: Evidence) -> Evidence:
    """Evidence from two rounds, which share no task."""
    if one is None:
        return other
    return Evidence(
        support=one.support + other.support,
        refuted=one.refuted + other.refuted,
        tasks=one.tasks + other.tasks,
        counterexample=one.counterexample or other.counterexample,
    )
