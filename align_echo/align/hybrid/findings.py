"""From trials to what is reported: misalignments for the loop, one line for each hypothesis, rules as data.

Left out: the words in which an interface tells them (`wording.py`, `source.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from align_echo.align.hybrid.hypotheses import (
    HYPOTHESIS,
    Hypothesis,
    Instead,
    Needs,
    NoEffect,
    StatedClaim,
    forms_of,
    hint_words,
    in_words,
)
from align_echo.align.hybrid.runtime import slots_of
from align_echo.align.hybrid.trials import Tally, Verdict, verdict_on
from align_echo.grammar import quantity
from align_echo.interface import RuleRecord
from align_echo.types import Misalignment

WRONG = "Not so: "
Rule = dict[str, Any]
"""A hypothesis as an interface keeps it (`runtime.py`), with "hypothesis", itself as data."""


def about(
    hypothesis: Hypothesis, tally: Tally, answers: dict[str, list[str]], failed_task: str
) -> Misalignment:
    """A hypothesis that holds, or is untested, as a misalignment. `answers` are those that refuse its forms; one that
    was tried nowhere is reported of `failed_task`."""
    untested = verdict_on(hypothesis, tally) == "untested"
    task_id, action = tally.example
    kept = {form: answers[form] for form in forms_of(hypothesis) if form in answers}
    rule = rule_of(hypothesis, latest=tally.undoes, untested=untested)
    return Misalignment(
        task_id=task_id or failed_task,
        action_type=forms_of(hypothesis)[0],
        action=action or forms_of(hypothesis)[0],
        intent=_intent(hypothesis),
        rule=in_words(hypothesis),
        sufficient_feedback=rule["hint"] or in_words(hypothesis),
        evidence=tally.evidence,
        detail=json.dumps({"hypothesis": rule, "answers": kept}),
    )


def about_wrong(rule: Rule, tally: Tally) -> Misalignment:
    """A rule of the present interface that a trial refuted."""
    hypothesis = HYPOTHESIS.validate_python(rule["hypothesis"])
    task_id, action, *_ = (*tally.counterexample.split(": "), "", "")
    return Misalignment(
        task_id=task_id,
        action_type=forms_of(hypothesis)[0],
        action=action or forms_of(hypothesis)[0],
        intent="follow the interface's hint",
        rule=f"{WRONG}{in_words(hypothesis)}",
        sufficient_feedback="leave the hint out",
        kind="bug-of-current",
        evidence=tally.evidence,
        detail=json.dumps({"withdrawn": rule["hypothesis"]}),
    )


def rule_of(hypothesis: Hypothesis, *, latest: bool, untested: bool) -> Rule:
    """A hypothesis as data for an interface, in plain words. A step with a name that the action does not tell is told
    up front only: nobody could say it as it stands."""
    action = forms_of(hypothesis)[0]
    hint = hint_words(hypothesis)
    until, step = "", ""
    if isinstance(hypothesis, Needs):
        step = hypothesis.step
        hint = hint if set(slots_of(step)) <= set(slots_of(action)) else ""
    elif isinstance(hypothesis, Instead):
        step = hypothesis.right
    elif isinstance(hypothesis, NoEffect):
        step, until = hypothesis.after, hypothesis.until
    elif isinstance(hypothesis, StatedClaim):
        action = hypothesis.action
    return {
        "kind": hypothesis.kind,
        "action": action,
        "step": step,
        "until": until,
        "latest": latest,
        "up_front": in_words(hypothesis) + ".",
        "hint": hint,
        "untested": untested,
        "hypothesis": hypothesis.model_dump(mode="json"),
    }


def outcome_line(hypothesis: Hypothesis, tally: Tally, *, allow_untested: bool) -> str:
    """What came of a hypothesis, in one line with its counts."""
    verdict: Verdict = verdict_on(hypothesis, tally)
    tasks = quantity(len(tally.tasks), "task")
    counts = f"{quantity(tally.support, 'trial')} for it and {tally.refuted} against, in {tasks}"
    said = in_words(hypothesis)
    if verdict == "kept":
        return f"stood its trials: {said} ({counts})"
    if verdict == "refuted":
        return f"refuted: {said} ({counts}; {tally.counterexample})"
    why = "too few" if tally.support else "no state was found in which it says anything"
    if isinstance(hypothesis, Instead) and tally.support and tally.meaning != "meant":
        why = "what agents mean by it cannot be told from where they say it"
    kept = "it is kept all the same and marked" if allow_untested else "it is left out; --allow-untested keeps such"
    return f"untested: {said} ({counts}: {why}; {kept})"


def records(old: Sequence[RuleRecord], new: Sequence[Misalignment]) -> tuple[RuleRecord, ...]:
    """The rules of an interface with the evidence of the new ones; what was refuted goes."""
    gone = {misalignment.rule.removeprefix(WRONG) for misalignment in new if misalignment.kind == "bug-of-current"}
    added = [
        RuleRecord(
            text=misalignment.rule,
            evidence=misalignment.evidence,
            untested=bool(json.loads(misalignment.detail)["hypothesis"]["untested"]),
        )
        for misalignment in new
        if misalignment.kind == "new-logic"
    ]
    there = {record.text for record in added}
    return (*(record for record in old if record.text not in gone | there), *added)


def unresolved(old: Sequence[str], new: Sequence[Misalignment]) -> tuple[str, ...]:
    """What has no rule that stood experiments, as the loop names it: untested rules too; what was refuted goes."""
    gone = {misalignment.text.replace(WRONG, "", 1) for misalignment in new if misalignment.kind == "bug-of-current"}
    details = [(misalignment.text, json.loads(misalignment.detail)) for misalignment in new]
    untested = [text for text, detail in details if detail.get("hypothesis", {}).get("untested")]
    return tuple(dict.fromkeys((*(text for text in old if text not in gone), *untested)))


def _intent(hypothesis: Hypothesis) -> str:
    if isinstance(hypothesis, Instead):
        return f"do `{hypothesis.right}`"
    return "get on with the task"
