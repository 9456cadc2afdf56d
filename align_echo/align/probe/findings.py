"""Misalignments from experiments: refusals, forms and rules, with their evidence."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from align_echo.align.probe.cases import Case, Need, build_history, try_case
from align_echo.align.probe.examinations import TrialCounts
from align_echo.align.probe.lab import Lab, LabState, answers_in_words
from align_echo.align.probe.rules import refused_actions
from align_echo.interface.contract import RuleRecord
from align_echo.interface.rules.actions import fill
from align_echo.interface.rules.decisions import DecisionLists, DecisionRule
from align_echo.interface.rules.model import MayNeed, NeedsStep, RuleSet, dump, load_rules, misworded
from align_echo.interface.rules.vocabulary import Vocabulary
from align_echo.registry import quantity
from align_echo.types import Evidence, Misalignment, Trajectory

# ---------------------------------------------------------------- wrong wordings close to a right one

MIN_SUPPORT = 2
"""Times a template must be within reach, or nearer than all others, to count as the meaning."""

MIN_SHARE = 2 / 3
"""Share of utterances with a nearest template that must agree."""


@dataclass(frozen=True)
class UnmatchedUtterance:
    """Utterance without a template: its skeleton and nearness (0 to 1) to candidate templates. `first`: the first
    refused in its state; later ones may be arbitrary."""

    task_id: str
    action: str
    skeleton: str
    nearness: dict[str, float]
    first: bool = True


def try_form(
    lab: Lab, lists: DecisionLists, state: LabState, action: str, *, first: bool
) -> UnmatchedUtterance | None:
    """Measure the possible meaning of an utterance; None without names, or for a known form after completion."""
    vocabulary = lists.vocabulary
    skeleton, names, _ = vocabulary.parse(action, build_history(vocabulary, state).completions)
    skeleton = " ".join(skeleton.split())
    if not names or skeleton in vocabulary.forms:
        return None
    candidates = [form for form in vocabulary.forms if form.count("{") == len(names)]
    nearness = {form: _nearness(lab, lists, state, fill(form, names)) for form in candidates}
    return UnmatchedUtterance(state.task_id, action, skeleton, nearness, first)


def _nearness(lab: Lab, lists: DecisionLists, state: LabState, action: str) -> float:
    """Rate an action: 1 if possible, 1 / (1 + n) if n steps away, 0 if in effect or out of reach."""
    if lab.takes(state, action):
        return 1.0
    case = try_case(lab, lists, state, action)
    return 0.0 if case.already or not case.steps else 1 / (1 + case.depth)


def learn_forms(
    utterances: Iterable[UnmatchedUtterance], worded: Mapping[str, int], *, complete: bool = True
) -> dict[str, tuple[str, Evidence, UnmatchedUtterance]]:
    """Map each skeleton with a clear meaning to (template, evidence, example).

    `worded` counts the agent's uses of each template, refused or not. An agent that can say a template does not mean it
    by other words, and a similar wording excludes a third. With unknown forms left (`complete=False`), words near no
    known form may be a form themselves and are skipped.
    """
    groups: dict[str, list[UnmatchedUtterance]] = defaultdict(list)
    for utterance in utterances:
        groups[utterance.skeleton].append(utterance)
    learned: dict[str, tuple[str, Evidence, UnmatchedUtterance]] = {}
    similar = {form: _alike(form, group[0].nearness) for form, group in sorted(groups.items())}
    by_words = {form: _by_words(similar[form], group) for form, group in groups.items()}
    counts = Counter(worded) + Counter({best: len(groups[form]) for form, best in by_words.items() if best})
    strange = {form: group for form, group in groups.items() if not similar[form]}
    by_reach = _by_reach(strange, counts) if complete else {}
    for form, group in sorted(groups.items()):
        best = by_words[form] or by_reach.get(form, "")
        if best:
            support = sum(utterance.nearness[best] > 0 for utterance in group)
            tasks = len({utterance.task_id for utterance in group})
            learned[form] = (best, Evidence(support=support, refuted=len(group) - support, tasks=tasks), group[0])
    return learned


def _alike(form: str, candidates: Collection[str]) -> list[str]:
    """Find templates that share distinctive words with a form."""
    words = {template: {word for word in template.split() if "{" not in word} for template in candidates}
    shared: list[str] = []
    for template in candidates:
        common = set[str]().union(*(words[candidate] for candidate in candidates if candidate != template))
        if not {*form.split()}.isdisjoint(words[template] - common):
            shared.append(template)
    return shared


def _by_words(similar: Sequence[str], group: Sequence[UnmatchedUtterance]) -> str:
    """Choose the similar template that was repeatedly within reach."""
    near = [template for template in similar if _times(group, template) >= MIN_SUPPORT]
    return near[0] if len(near) == 1 else ""


def _by_reach(groups: Mapping[str, list[UnmatchedUtterance]], worded: Mapping[str, int]) -> dict[str, str]:
    """Map unfamiliar forms to templates by nearness.

    If two forms share a meaning, the form said before the agent got stuck counts; if this does not decide, neither
    does.
    """
    first = {form: [utterance for utterance in group if utterance.first] for form, group in groups.items()}
    read = {form: _by_nearness(first[form] or group, worded) for form, group in groups.items()}
    meant = Counter(read.values())
    surely = Counter(read[form] for form in groups if first[form])
    return {form: best for form, best in read.items() if meant[best] == 1 or (surely[best] == 1 and first[form])}


def _by_nearness(group: Sequence[UnmatchedUtterance], worded: Mapping[str, int]) -> str:
    """Choose the template mostly nearest, unless a later template may be meant.

    An agent that skips a step and misnames the next looks like an agent that misnames the skipped step. Such readings
    count only after the agent said the next step correctly.
    """
    wins: dict[str, list[UnmatchedUtterance]] = defaultdict(list)
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


def _times(group: Iterable[UnmatchedUtterance], template: str) -> int:
    """Count how often a template was within reach."""
    return sum(utterance.nearness[template] > 0 for utterance in group)


# ---------------------------------------------------------------- from experiments to misalignments


def rules_in(detail: str) -> RuleSet | None:
    """Return the rules in a misalignment's detail; None if it has none."""
    data = json.loads(detail).get("ruleset")
    return None if data is None else load_rules(data)


WRONG = "Not so: "
"""Beginning of a finding that a rule is wrong."""


def report(
    rule: str,
    example: tuple[str, str],
    evidence: Evidence,
    learned: RuleSet | None,
    *,
    kind: str,
    intent: str = "",
    feedback: str,
    dropped: str = "",
) -> Misalignment:
    """Report what was learned; `dropped` is the text of a rule that is left out from now on."""
    task_id, action = example
    return Misalignment(
        task_id=task_id,
        action_type=kind,
        action=action,
        intent=intent or f"`{action}`",
        rule=rule,
        sufficient_feedback=feedback,
        kind="bug-of-current" if learned is None else "new-logic",
        evidence=evidence,
        detail=json.dumps({"dropped": dropped} if learned is None else {"ruleset": dump(learned)}),
    )

MIN_TESTS = 10
MIN_TASKS = 3
"""Passed tests and tasks required for a rule, without a failure; a single failure removes it."""

MIN_ENABLED = 5
"""Times a step must enable an action, in `MIN_TASKS` tasks, before reporting it as a possible need."""


def nothing_found(failed: Sequence[Trajectory]) -> str:
    """Explain an empty result: what was examined, and the share of possible refusals. It is no proof."""
    heard = answers_in_words(failed)
    return (
        f"none of the known kinds was found in {heard}. The probe looks for answers that refuse actions of different "
        "kinds alike (one text, one that quotes the action, or the answer before again), and for what makes a refused "
        "action possible. That none was found is no proof that agent and environment understand each other"
    )


def not_tried(learned: Sequence[DecisionRule], reported: Sequence[Misalignment], limit: str) -> str:
    """List the rules without enough trials when the budget ended."""
    stood = {misalignment.rule for misalignment in reported}
    left = [rule.text for rule in learned if rule.text not in stood]
    some = "".join(f"; {rule}" for rule in left[:MOST_NOT_TRIED])
    return (
        f"the budget of {limit} is spent: {quantity(len(stood), 'finding')} by then; not tried, or not often enough: "
        f"{quantity(len(left), 'rule')}{some}{'; ...' * (len(left) > MOST_NOT_TRIED)}"
    )


MOST_NOT_TRIED = 5
"""Rules named among those that were not tried."""


def too_many_forms(forms: int, tasks: int) -> str:
    """Explain unrecognised names: nearly every action is its own form."""
    return (
        f"the actions that are listed in {tasks} tasks have {forms} forms: the probe cannot tell the names in them "
        "from the words around them. It teaches nothing here"
    )


def about_refusals(
    lists: DecisionLists, before: DecisionLists | None, failed: Sequence[Trajectory]
) -> Iterable[Misalignment]:
    """Report the first finding: a single answer for different refusals, and the known forms."""
    new, old = lists.vocabulary, before.vocabulary if before else None
    if old and {*new.forms} <= {*old.forms} and (new.pairs, new.refusals) == (old.pairs, old.refusals):
        return
    refused = refused_actions(failed, new.refusals)
    task_id, action = refused[0] if refused else (failed[0].task_id, "")
    yield report(
        f'"{" / ".join(new.refusals)}" answers every refused action alike '
        f"({len(new.forms)} forms of action are understood)",
        (task_id, action),
        Evidence(support=len({action for _, action in refused}), tasks=len({task for task, _ in refused})),
        RuleSet(vocabulary=new),
        kind="any refused action",
        intent="learn what came of the action",
        feedback="say why the action was refused and what to do first",
    )


SAY_FORM_IS = "`{action}` is not understood: the form is `{step}`."


def about_form(form: str, template: str, evidence: Evidence, example: UnmatchedUtterance) -> Misalignment:
    """Report a wrong wording of a form."""
    rule = misworded(form, template, SAY_FORM_IS)
    return report(
        rule.text,
        (example.task_id, example.action),
        evidence,
        RuleSet(rules=(rule,)),
        kind=form,
        intent=f"do `{template}`",
        feedback=f"name the form that is understood: `{template}`",
    )


def about_needs(
    lists: DecisionLists, learned: Iterable[DecisionRule], enabled: Mapping[Need, Collection[tuple[str, str]]]
) -> Iterable[Misalignment]:
    """Report enabling steps without a rule; the rules text mentions them as possible needs.

    `enabled` holds the (task id, action) of each case.
    """
    rules = [rule for rule in (*lists.situation_rules, *learned) if isinstance(rule, NeedsStep)]
    known = {(rule.form, rule.step.form) for rule in rules}
    for (form, step, places), times in sorted(enabled.items()):
        tasks = {task_id for task_id, _ in times}
        need = MayNeed(form=form, step=step, places=places)
        if (form, step) in known or need in lists.needs or len(times) < MIN_ENABLED or len(tasks) < MIN_TASKS:
            continue
        if not {form, step} <= {*lists.vocabulary.forms}:
            continue
        yield report(
            need.text,
            min(times),
            Evidence(support=len(times), tasks=len(tasks)),
            RuleSet(rules=(need,)),
            kind=form,
            intent=f"`{min(times)[1]}` at once",
            feedback=f"say that {need.command} may be needed first",
        )


def about_wrong_rules(lists: DecisionLists, trials: TrialCounts) -> Iterable[Misalignment]:
    """Report existing rules refuted by fresh tasks."""
    for rule in lists.situation_rules:
        evidence = trials.of(rule.key)
        if evidence.refuted:
            task_id, action, *_ = evidence.counterexample.split(": ")
            yield report(
                f"{WRONG}{rule.text}",
                (task_id, action),
                evidence,
                None,
                kind=rule.form,
                intent="follow the interface's hint",
                feedback="leave the hint out",
                dropped=rule.key,
            )


FEEDBACK = {"now": "write the form that is understood", "already": "it is already so"}
"""What helps with actions that are allowed in other words, or in effect."""


def about_rules(
    vocabulary: Vocabulary, learned: Iterable[DecisionRule], trials: TrialCounts, cases: Sequence[Case]
) -> Iterable[Misalignment]:
    """Report learned rules that passed the test."""
    for rule in learned:
        evidence = trials.of(rule.key)
        match = next(_examples(DecisionLists(vocabulary, [rule]), rule, cases), None)
        if evidence.refuted or evidence.support < MIN_TESTS or evidence.tasks < MIN_TASKS or match is None:
            continue
        example, step = match
        yield report(
            rule.text,
            (example.task_id, example.action),
            evidence,
            RuleSet(rules=(rule,)),
            kind=rule.form,
            intent=f"`{example.action}` at once",
            feedback=FEEDBACK.get(step, f"you need to `{step}` first"),
        )


def _examples(alone: DecisionLists, rule: DecisionRule, cases: Sequence[Case]) -> Iterator[tuple[Case, str]]:
    """Yield cases a rule is right about, with its advice."""
    for case in cases:
        if case.template != rule.form:
            continue
        decision = alone.decide(case.situation, rule.form, case.names, rule.conclusion == "now")
        if decision is not None and case.agrees(decision.step):
            yield case, decision.step


def merge_records(old: Sequence[RuleRecord], new: Sequence[Misalignment]) -> tuple[RuleRecord, ...]:
    """Merge rule records with new evidence; refuted rules are dropped."""
    gone = {misalignment.rule.removeprefix(WRONG) for misalignment in new if misalignment.kind == "bug-of-current"}
    added = [
        RuleRecord(text=each.rule, evidence=each.evidence, untested=not json.loads(each.detail).get("confirmed", True))
        for each in new
        if each.kind == "new-logic"
    ]
    gone |= {record.text for record in added}
    return (*(record for record in old if record.text not in gone), *added)
