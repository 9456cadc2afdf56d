"""From experiments to misalignments: what to report of refusals, forms and rules, and the evidence with it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from align_echo.align.probe import emit, runtime
from align_echo.align.probe.cases import Case, history_of, try_case
from align_echo.align.probe.examinations import Trials
from align_echo.align.probe.lab import Lab, LabState, answers_in_words
from align_echo.align.probe.rules import refused_actions
from align_echo.align.probe.spec import Row, alone, identity
from align_echo.align.probe.vocabulary import Need
from align_echo.interface import RuleRecord
from align_echo.types import Evidence, Misalignment, Trajectory

# ---------------------------------------------------------------- near misses

MIN_SUPPORT = 2
"""So often a template must have been within reach, or nearer than all others, to be what was meant."""

MIN_SHARE = 2 / 3
"""Of the utterances of which one template is the nearest, so many must name the same."""


@dataclass(frozen=True)
class Utterance:
    """One utterance that fits no template: its skeleton, and how near each candidate template was (0 to 1). `first`: it
    was the first that was refused in its state; whoever is stuck may then say anything."""

    task_id: str
    action: str
    skeleton: str
    nearness: dict[str, float]
    first: bool = True


def try_form(lab: Lab, spec: dict[str, Any], state: LabState, action: str, *, first: bool) -> Utterance | None:
    """Measure what an utterance may have meant; None if it names nothing, or is a known form after completion."""
    history = history_of(spec, state)
    skeleton, names, _ = runtime.parse(spec, history, action)
    skeleton = " ".join(skeleton.split())
    if not names or skeleton in spec["templates"]:
        return None
    candidates = [template for template in spec["templates"] if template.count("{") == len(names)]
    nearness = {template: _nearness(lab, spec, state, runtime.write(template, names)) for template in candidates}
    return Utterance(state.task_id, action, skeleton, nearness, first)


def _nearness(lab: Lab, spec: dict[str, Any], state: LabState, action: str) -> float:
    """1 for an action that is possible here, 1/(1 + n) if n steps make it so, 0 if it is in effect or out of reach."""
    if lab.takes(state, action):
        return 1.0
    case = try_case(lab, spec, state, action)
    return 0.0 if case.already or not case.steps else 1 / (1 + case.depth)


def learn_forms(
    utterances: Iterable[Utterance], worded: Mapping[str, int], *, complete: bool = True
) -> dict[str, tuple[str, Evidence, Utterance]]:
    """skeleton -> (template, evidence, an example) where it is clear which template is meant. `worded` counts how often
    the agent said each template, refused or not: what it can say it does not say in other words, and what it says in
    words near those of the template it does not say in a third way. Unless all forms are known (`complete`), words that
    are near none of those known may be a form themselves: they are not read.
    """
    groups: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in utterances:
        groups[utterance.skeleton].append(utterance)
    learned: dict[str, tuple[str, Evidence, Utterance]] = {}
    alike = {form: _alike(form, group[0].nearness) for form, group in sorted(groups.items())}
    by_words = {form: _by_words(alike[form], group) for form, group in groups.items()}
    said = Counter(worded) + Counter({best: len(groups[form]) for form, best in by_words.items() if best})
    strange = {form: group for form, group in groups.items() if not alike[form]}
    by_reach = _by_reach(strange, said) if complete else {}
    for form, group in sorted(groups.items()):
        best = by_words[form] or by_reach.get(form, "")
        if best:
            support = sum(utterance.nearness[best] > 0 for utterance in group)
            tasks = len({utterance.task_id for utterance in group})
            learned[form] = (best, Evidence(support=support, refuted=len(group) - support, tasks=tasks), group[0])
    return learned


def _alike(form: str, candidates: Collection[str]) -> list[str]:
    """The templates that share words with a form that no other candidate has."""
    words = {template: {word for word in template.split() if "{" not in word} for template in candidates}
    shared: list[str] = []
    for template in candidates:
        others = set[str]().union(*(words[other] for other in candidates if other != template))
        if not {*form.split()}.isdisjoint(words[template] - others):
            shared.append(template)
    return shared


def _by_words(alike: Sequence[str], group: Sequence[Utterance]) -> str:
    """Of the templates that are like a form the one that was within reach several times."""
    near = [template for template in alike if _times(group, template) >= MIN_SUPPORT]
    return near[0] if len(near) == 1 else ""


def _by_reach(groups: Mapping[str, list[Utterance]], worded: Mapping[str, int]) -> dict[str, str]:
    """By strange form the template that it means by its nearness. Of two that would mean the same the one counts that
    alone was said before the agent was stuck; where both were, or none, neither counts."""
    first = {form: [utterance for utterance in group if utterance.first] for form, group in groups.items()}
    read = {form: _by_nearness(first[form] or group, worded) for form, group in groups.items()}
    meant = Counter(read.values())
    surely = Counter(read[form] for form in groups if first[form])
    return {form: best for form, best in read.items() if meant[best] == 1 or (surely[best] == 1 and first[form])}


def _by_nearness(group: Sequence[Utterance], worded: Mapping[str, int]) -> str:
    """The template that is nearer than all others most of the time, unless another that comes after it may be meant.

    Who leaves out one step and says the next in other words is understood as one who says the first: such a reading is
    not taken, as long as the agent was not heard to say the next step rightly.
    """
    wins: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in group:
        ranked = sorted(utterance.nearness.items(), key=lambda pair: -pair[1])
        if ranked and ranked[0][1] > 0 and (len(ranked) == 1 or ranked[0][1] > ranked[1][1]):
            wins[ranked[0][0]].append(utterance)
    best = max(sorted(wins), key=lambda template: len(wins[template]), default="")
    won = wins[best] if best else []
    if len(won) < MIN_SUPPORT or len(won) < MIN_SHARE * sum(map(len, wins.values())):
        return ""
    often = len({utterance.task_id for utterance in group}) / 2
    rivals = [template for template in group[0].nearness if template != best and worded.get(template, 0) < often]
    doubtful = any(2 * _times(won, rival) >= len(won) for rival in rivals)
    return "" if doubtful or worded.get(best, 0) >= often else best


def _times(group: Iterable[Utterance], template: str) -> int:
    """How often a template was within reach."""
    return sum(utterance.nearness[template] > 0 for utterance in group)


# ---------------------------------------------------------------- from experiments to misalignments

MIN_TESTS = 10
MIN_TASKS = 3
"""A rule comes after so many tests that it passed, in so many tasks, and none that it failed; it goes when it fails
one."""

MIN_ENABLED = 5
"""That a step may be needed is told once it made the action possible so often, in `MIN_TASKS` tasks."""

WRONG = "Not so: "


def nothing_found(failed: Sequence[Trajectory]) -> str:
    """What to say where nothing was learned: what was looked for and at, what share of the answers may have been
    refusals all the same, and that it is no proof."""
    heard = answers_in_words(failed)
    return (
        f"I found none of the kinds that I look for in {heard}. I look for answers that refuse actions of different "
        "kinds alike (one text, one that quotes the action, or the answer before again), and for what makes a refused "
        "action possible. That I found none is no proof that agent and environment understand each other"
    )


def too_many_forms(forms: int, tasks: int) -> str:
    """What to say where names could not be told from the words around them: nearly every action is its own form."""
    return (
        f"the actions that are listed in {tasks} tasks have {forms} forms: the probe cannot tell the names in them "
        "from the words around them. It teaches nothing here"
    )


def about_refusals(
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
    refused = refused_actions(failed, spec["uninformative"])
    task_id, action = refused[0] if refused else (failed[0].task_id, "")
    none: dict[str, list[Row]] = {template: [] for template in spec["templates"]}
    bare = {**spec, "templates": none, "now": none, "forms": {}}
    yield Misalignment(
        task_id=task_id,
        action_type="any refused action",
        action=action,
        intent="learn what came of the action",
        rule=f'"{" / ".join(spec["uninformative"])}" answers every refused action alike '
        f"({len(spec['templates'])} forms of action are understood)",
        sufficient_feedback="say why the action was refused and what to do first",
        evidence=Evidence(support=len({action for _, action in refused}), tasks=len({task for task, _ in refused})),
        detail=json.dumps({"vocabulary": bare}),
    )


def about_form(form: str, template: str, evidence: Evidence, example: Utterance) -> Misalignment:
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


def about_needs(
    spec: dict[str, Any], learned: dict[str, list[Row]], enabled: Mapping[Need, Collection[tuple[str, str]]]
) -> Iterable[Misalignment]:
    """Steps that made refused actions possible, of which no rule speaks: that they may be needed is told up front.
    `enabled` holds the (task id, action) of each time."""
    for (template, step, places), times in sorted(enabled.items()):
        tasks = {task_id for task_id, _ in times}
        rows = [*spec["templates"].get(template, ()), *learned.get(template, ())]
        known = any(not isinstance(row["then"], str) and row["then"][0] == step for row in rows)
        need: list[Any] = [step, list(places)]
        if known or need in spec["needs"].get(template, ()) or len(times) < MIN_ENABLED or len(tasks) < MIN_TASKS:
            continue
        if not {template, step} <= {*spec["templates"]}:
            continue
        task_id, action = min(times)
        told = emit.need_step(step, list(places))
        yield Misalignment(
            task_id=task_id,
            action_type=template,
            action=action,
            intent=f"`{action}` at once",
            rule=f"Before `{runtime.write(template, list('XYZ'))}` you may need to {told}",
            sufficient_feedback=f"say that {told} may be needed first",
            evidence=Evidence(support=len(times), tasks=len(tasks)),
            detail=json.dumps({"template": template, "need": need}),
        )


def about_wrong_rules(spec: dict[str, Any], trials: Trials) -> Iterable[Misalignment]:
    """Rules of the present interface that fresh tasks refuted."""
    for part in ("templates", "now"):
        for template, rows in spec[part].items():
            for row in rows:
                evidence = trials.of(identity(template, row))
                if evidence.refuted:
                    yield Misalignment(
                        task_id=evidence.counterexample.split(": ")[0],
                        action_type=template,
                        action=evidence.counterexample.split(": ")[1],
                        intent="follow the interface's hint",
                        rule=f"{WRONG}{emit.rule_in_words(spec, template, row)}",
                        sufficient_feedback="leave the hint out",
                        kind="bug-of-current",
                        evidence=evidence,
                        detail=json.dumps({"template": template, "drop": row}),
                    )


def about_rules(
    spec: dict[str, Any],
    learned: dict[str, list[Row]],
    trials: Trials,
    cases: Sequence[Case],
) -> Iterable[Misalignment]:
    """The learned rules that stood the test."""
    for template, rows in learned.items():
        for row in rows:
            evidence = trials.of(identity(template, row))
            match = next(_examples(spec, template, row, cases), None)
            if evidence.refuted or evidence.support < MIN_TESTS or evidence.tasks < MIN_TASKS or match is None:
                continue
            example, step = match
            yield Misalignment(
                task_id=example.task_id,
                action_type=template,
                action=example.action,
                intent=f"`{example.action}` at once",
                rule=emit.rule_in_words(spec, template, row),
                sufficient_feedback=_feedback(step),
                evidence=evidence,
                detail=json.dumps({"template": template, "row": row}),
            )


def _feedback(step: str) -> str:
    if step == "now":
        return "write the form that is understood"
    return "it is already so" if step == "already" else f"you need to `{step}` first"


def _examples(spec: dict[str, Any], template: str, row: Row, cases: Sequence[Case]) -> Iterator[tuple[Case, str]]:
    """Cases that a rule is right about, with what it says."""
    for case in cases:
        if case.template != template:
            continue
        sure = row["then"] == "now"
        decision = runtime.decide(alone(spec, template, row), case.history, template, list(case.names), sure)
        if decision is not None and case.agrees(decision[1]):
            yield case, decision[1]


def records(old: Sequence[RuleRecord], new: Sequence[Misalignment]) -> tuple[RuleRecord, ...]:
    """The rules of an interface with their evidence; one that was refuted goes."""
    gone = {misalignment.rule.removeprefix(WRONG) for misalignment in new if misalignment.kind == "bug-of-current"}
    kept = [record for record in old if record.text not in gone]
    return (
        *kept,
        *(
            RuleRecord(text=misalignment.rule, evidence=misalignment.evidence)
            for misalignment in new
            if misalignment.kind == "new-logic"
        ),
    )
