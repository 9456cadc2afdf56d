"""From experiments to misalignments: what to report of refusals, forms and rules, and the evidence with it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from align_echo.align.probe import emit, runtime
from align_echo.align.probe.cases import Case
from align_echo.align.probe.forms import Utterance
from align_echo.align.probe.refusals import refused_actions
from align_echo.align.probe.silence import answers_in_words
from align_echo.align.probe.spec import Row, alone, identity
from align_echo.align.probe.trials import Trials
from align_echo.align.probe.vocabulary import Need
from align_echo.interface import RuleRecord
from align_echo.types import Evidence, Misalignment, Trajectory

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
