"""Learn rules, test them on other tasks, refine them by counterexamples, test again, and report what stood.

The complete list is examined on reserved tasks; a single refutation removes a rule. Also wrong wordings, and reports of
refusals, forms and rules as misalignments with their evidence.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
    Need,
    Slots,
    build_history,
    is_so,
    may_have_been_taken,
    proposals,
    replay_actions,
    situate,
    try_case,
    walk,
)
from align_echo.align.probe.lab import Lab, LabState, answers_in_words
from align_echo.align.probe.names import skeleton
from align_echo.align.probe.rules import learn, refused_actions
from align_echo.interface.contract import RuleRecord
from align_echo.interface.rules.actions import fill
from align_echo.interface.rules.decisions import DecisionLists, DecisionRule
from align_echo.interface.rules.model import AlwaysNeeds, MayNeed, NeedsStep, RuleSet, dump, load_rules, misworded
from align_echo.interface.rules.vocabulary import Vocabulary
from align_echo.registry import quantity
from align_echo.types import Evidence, Misalignment, Trajectory

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
            again = lab.after(state, action)
            if lab.key(again) in seen:
                return TrialVerdict(rule.key, f"said {step}, which undoes it")
            if may_have_been_taken(lab, start, state, again):
                return TrialVerdict(first.key, f"said {steps[0]}, and it may have been done already")
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
