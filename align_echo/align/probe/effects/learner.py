"""The probe's way through a world without lists: replay, search, trials, and an interface of the rules that stood."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from align_echo.align.budget import BudgetSpentError
from align_echo.align.probe.effects.fixes import WORDED, FixSearch
from align_echo.align.probe.effects.forms import find_sign, learn_vocabulary
from align_echo.align.probe.effects.outcomes import (
    LISTED_FACTOR,
    WITNESSES,
    Instance,
    Observer,
    count_repeats,
    episode_actions,
    episode_texts,
)
from align_echo.align.probe.effects.proposals import PageRecord, add_undoing, cut_short, plain_rules
from align_echo.align.probe.effects.trials import TRIAL_STEPS, Say, TrialBook, explore, try_rules, wander
from align_echo.align.probe.findings import report
from align_echo.align.probe.lab import Lab
from align_echo.interface.rules.actions import ActionGrammar, declared_forms, declared_values, drop_examples
from align_echo.interface.rules.answers import fit_reader
from align_echo.interface.rules.model import Rule, RuleSet, SayInstead, TurnLimit
from align_echo.types import Misalignment, Trajectory

ROUNDS = 3
"""Rounds of the search; before the next, the known rules lead walks on the same tasks to new refusals."""

ANY_ACTION = "any action"
"""Kind of action of a rule about an episode as a whole."""

SEARCH_STEPS = 6_000
"""Engine steps for the search of fixes."""

FEW_STEPS = 1_000
"""Engine steps of a run that finds little."""


def count_steps(iterations: int, actions: int, *, lists: bool) -> tuple[int, int]:
    """Return the least and most engine steps that are usual in up to so many iterations of so many actions of agents.

    In an iteration an action is played again, with what may show its effect; then come a search, and trials on known
    and on fresh tasks. The first one may take twice as many, and a run that finds little `FEW_STEPS`.
    """
    steps = (SEARCH_STEPS + 2 * TRIAL_STEPS) * (LISTED_FACTOR if lists else 1)
    return FEW_STEPS, steps * (iterations + 1) + 2 * WITNESSES * actions * iterations


def analyze(
    lab: Lab,
    played: Sequence[Trajectory],
    failed: Sequence[Trajectory],
    before: RuleSet | None,
    fresh: Sequence[str],
    action_format: str,
    tools: Sequence[Mapping[str, Any]],
    rng: random.Random,
    say: Say,
) -> list[Misalignment]:
    """Learn rules from failed episodes and try them on fresh tasks. Empty if none stands."""
    declared = declared_forms(action_format, tools)
    reader = fit_reader(episode_texts(played), episode_actions(played))
    sign = ""
    with suppress(BudgetSpentError):
        sign = find_sign(Observer(lab, ActionGrammar(()), reader), played)
    forms, name, names = learn_vocabulary(lab, played, declared, sign)
    forms = drop_examples(forms)
    if before is not None:
        known = {form.name for form in before.forms}
        forms = [*before.forms, *(form for form in forms if form.name not in known)]
    if not forms:
        return []
    observer = Observer(lab, ActionGrammar(forms, names), reader, name)
    search = FixSearch(observer, (form.name for form in declared), declared_values(tools))
    pages = PageRecord(observer)
    with suppress(BudgetSpentError):
        lost = {id(trajectory) for trajectory in failed}
        _search(search, pages, failed, [each for each in played if id(each) not in lost], rng, say)
    rules = list(add_undoing(search, search.rules()))
    with suppress(BudgetSpentError):
        rules += [*pages.rules(), *plain_rules(search, failed)]
    known_rules = {rule.model_dump_json() for rule in before.rules} if before is not None else set()
    ruleset = _rule_set(search, [*(before.rules if before is not None else ()), *rules])
    untouched = [task_id for task_id in fresh if task_id not in {each.task_id for each in failed}]
    seen = list(dict.fromkeys(each.task_id for each in failed))
    ruleset, _ = try_rules(search, ruleset, seen, rng, say)
    ruleset, book = try_rules(search, ruleset, untouched, rng, say)
    for rule in ruleset.rules:
        if isinstance(rule, TurnLimit):
            for trajectory in cut_short(failed):
                book.observe(rule, trajectory.task_id, trajectory.steps[-1].action or "")
    return [
        _misalignment(ruleset, rule, book)
        for rule in ruleset.rules
        if book.stands(rule) and rule.model_dump_json() not in known_rules
    ]


def _search(
    search: FixSearch,
    pages: PageRecord,
    failed: Sequence[Trajectory],
    won: Sequence[Trajectory],
    rng: random.Random,
    say: Say,
) -> None:
    """Play the episodes again, and search what helps where an action was refused. Raises `BudgetSpentError`."""
    observer, played = search.observer, list[Instance]()
    for trajectory in (*won, *failed):
        observer.hear(trajectory)
    for number, trajectory in enumerate([*won, *failed]):
        say(f"playing what was refused: episode {number + 1} of {len(failed) + len(won)}")
        instances = list(observer.replay(trajectory))
        if number < len(won) and instances and instances[-1].child.over:
            observer.goals.add((instances[-1].tree.form, instances[-1].text))
        for instance in instances:
            observer.note(instance)
        played += instances
    if repeats := count_repeats(observer, played):
        observer.repeat(repeats)
        for instance in played:
            observer.note(instance)
    tasks = list(dict.fromkeys(trajectory.task_id for trajectory in failed))
    if observer.lists:
        wander(observer, tasks, rng)
    for number in range(ROUNDS):
        say(f"searching what helps: round {number + 1} of {ROUNDS} ({observer.lab.steps} engine steps so far)")
        search.learn_values()
        search.study(observer.scale_steps(SEARCH_STEPS) // ROUNDS)
        if number + 1 < ROUNDS:
            explore(search, _rule_set(search, search.rules()), tasks, rng, pages)


def _rule_set(search: FixSearch, rules: Sequence[Rule]) -> RuleSet:
    """Return rules with all that they need to be played."""
    observer = search.observer
    return RuleSet(
        forms=tuple(search.grammar.forms.values()),
        names=search.grammar.names,
        reader=observer.reader,
        refusals={form: tuple(sorted(silent)) for form in observer.forms if (silent := observer.sure_refusals(form))},
        unknown=observer.unknown_answers(),
        values=search.shared_values(),
        kinds=search.kinds,
        rules=tuple(rules),
    )


# ---------------------------------------------------------------- what is reported


def _misalignment(rules: RuleSet, rule: Rule, book: TrialBook) -> Misalignment:
    example = book.examples[rule.model_dump_json()]
    if isinstance(rule, SayInstead) and book.hopeless[rule.model_dump_json()]:
        said: Rule = rule.model_copy(update={"say": WORDED})  # the edited action may be refused as before
    else:
        said = rule
    return report(
        rule.text,
        example,
        book.evidence(rule),
        rules.model_copy(update={"rules": (said,)}),
        kind=getattr(rule, "form", "") or ANY_ACTION,
        intent=f"`{example[1]}` at once",
        feedback=said.say,
    )
