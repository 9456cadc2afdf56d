"""Trials of rules on tasks that they were not learned from.

A rule is tried as an agent would meet it: refused actions are played, the rule's message is read, and what it says is
done. A rule that was wrong gets an exception or is dropped; a rule without trials in `MIN_TASKS` tasks does not stand.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from pydantic import JsonValue

from align_echo.align.budget import BudgetSpentError
from align_echo.align.probe.effects.fixes import FixSearch, read_texts
from align_echo.align.probe.effects.outcomes import Instance, Observer
from align_echo.align.probe.effects.proposals import PageRecord
from align_echo.align.probe.lab import LabState
from align_echo.interface.rules.actions import ActionGrammar, ActionTree, Reading, Term, text_of
from align_echo.interface.rules.edits import apply_edit, undo_edit, write_term
from align_echo.interface.rules.model import (
    Advice,
    Condition,
    EndsEpisode,
    LockedAfter,
    NeedsFirst,
    NothingChanged,
    Rule,
    RuleSet,
    SayInstead,
    WorksWhere,
)
from align_echo.interface.rules.runtime import RuleRuntime, count_refusals
from align_echo.types import Evidence

MIN_TESTS, MIN_TASKS = 8, 3
"""Trials, and tasks, that a rule must stand without a failure."""

MANY = 40
"""Trials of a rule about silence or locks after which each further task has one."""

MIN_HOPELESS = 2
"""Cases in which nothing could help, for which an exception is looked for."""

MIN_SINCE = 4
"""Trials since a rule got its latest exception."""

SURELY = 20
"""So many times as often as it did not help must a step help that is needed at times."""

WALK = 25
"""Actions of a walk on a fresh task."""

WALKS = 3
"""Walks on each fresh task."""

ROUNDS = 4
"""Rounds through the fresh tasks; after the first, only while a rule still wants trials."""

CHAIN = 5
"""Messages followed after a refused action."""

TRIAL_STEPS = 6_000
"""Engine steps for trials."""

MOST_EXCEPTIONS = 5
"""Conditions in which a rule is silent, its own among them."""

MOST_PASSED = 60
"""Passed trials that an exception is compared with."""

MOST_SILENCED = 0.2
"""Share of a rule's passed trials in which an exception may silence it."""

ANY_FORM = 0.4
"""Share of a walk's actions of any form, whether the agent said it or not."""

ODD = 0.15
"""Share of a walk's actions that are worded oddly or name what does not exist."""

SLIPS = 0.3
"""Share of a walk's arguments that are worded as a rule on trial advises against."""

Say = Callable[[str], None]

Excepted = SayInstead | NeedsFirst | NothingChanged | LockedAfter
"""Rules that may have exceptions."""


class TrialBook:
    """Trials of rules: passes, failures, tasks and the first counterexample of each.

    `undecided` are tasks in which the action that a message was about ended the episode.
    """

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.failed: dict[str, str] = {}
        self.tasks: dict[str, set[str]] = defaultdict(set)
        self.examples: dict[str, tuple[str, str]] = {}
        self.trials: dict[str, list[tuple[Instance, ActionTree, bool]]] = defaultdict(list)
        self.undecided: dict[str, set[str]] = defaultdict(set)
        self.inherited: Counter[str] = Counter()
        self.hopeless: dict[str, list[tuple[Instance, ActionTree]]] = defaultdict(list)

    def count(self, rules: Iterable[Rule], instance: Instance, *, passed: bool, tree: ActionTree | None = None) -> None:
        """Add a trial of some rules. `tree` is the action in the wording that they advise, if it differs."""
        for rule in rules:
            key, task_id = rule.model_dump_json(), instance.state.task_id
            self.tasks[key].add(task_id)
            self.trials[key].append((instance, tree or instance.tree, passed))
            if passed:
                self.passed[key] += 1
                self.examples.setdefault(key, (task_id, instance.action))
            else:
                self.failed.setdefault(key, f"{task_id}: {instance.action}")

    def count_unknown(self, rule: Rule) -> None:
        """Add a trial that says nothing: a refusal in other words, or an action that nothing could help."""
        self.unknown[rule.model_dump_json()] += 1

    def observe(self, rule: Rule, task_id: str, action: str) -> None:
        """Add an agent's own episode that agrees with a rule."""
        key = rule.model_dump_json()
        self.tasks[key].add(task_id)
        self.passed[key] += 1
        self.examples.setdefault(key, (task_id, action))

    def evidence(self, rule: Rule) -> Evidence:
        """Return a rule's trials."""
        key = rule.model_dump_json()
        wrong = self.failed.get(key, "")
        return Evidence(
            support=self.passed[key], refuted=int(bool(wrong)), tasks=len(self.tasks[key]), counterexample=wrong
        )

    def inherit(self, old: Rule, new: Rule, silenced: Callable[[Instance, ActionTree], bool]) -> None:
        """Give a rule with a further exception the trials in which it would have said the same."""
        for instance, tree, passed in self.trials[old.model_dump_json()]:
            if passed and not silenced(instance, tree):
                self.count([new], instance, passed=True, tree=tree)
        self.inherited[new.model_dump_json()] = self.passed[new.model_dump_json()]

    def stands(self, rule: Rule) -> bool:
        """Whether a rule was tried enough, also since its latest exception, never wrong, and helped in most trials."""
        key = rule.model_dump_json()
        evidence, inherited = self.evidence(rule), self.inherited[key]
        unknown = self.unknown[key] * (SURELY if getattr(rule, "at_times", False) else 1)
        tried = evidence.support >= max(MIN_TESTS, unknown) and evidence.tasks >= MIN_TASKS
        return tried and not evidence.refuted and (evidence.support - inherited >= MIN_SINCE or not inherited)

    def helps(self, rule: Rule) -> bool:
        """Whether what a rule says did not fail to help more often than it helped."""
        key = rule.model_dump_json()
        return self.unknown[key] <= self.passed[key]

    def counterexample(self, rule: Rule) -> str:
        """Return the first task and action, with ": " between, where a rule was wrong or did not help."""
        key = rule.model_dump_json()
        instance = next((instance for instance, _ in self.hopeless[key]), None)
        return self.failed.get(key, "") or (f"{instance.state.task_id}: {instance.action}" if instance else ": ")

    def has_many(self, rule: Rule, task_id: str) -> bool:
        """Whether a rule, whose trials take many steps, was tried in a task and often enough in all."""
        key = rule.model_dump_json()
        return self.passed[key] >= MANY and task_id in self.tasks[key]

    def may_stand(self, rule: Rule) -> bool:
        """Whether a rule was never wrong and spoke in enough tasks, although an end may have left that undecided."""
        key = rule.model_dump_json()
        return key not in self.failed and len(self.tasks[key] | self.undecided[key]) >= MIN_TASKS


def explore(
    search: FixSearch, rules: RuleSet, tasks: Sequence[str], rng: random.Random, pages: PageRecord
) -> None:
    """Walk through the training tasks, doing what the known rules say, and note what is refused on the way."""
    spoken = _spoken(search.observer)
    book = TrialBook()
    for task_id in tasks:
        for heeds in (True, False):
            for instance in _walk(search, rules, task_id, spoken, rng, book, heeds=heeds):
                search.observer.note(instance)
                pages.take(instance.state)


def wander(observer: Observer, tasks: Sequence[str], rng: random.Random) -> None:
    """Walk through tasks by what the engine lists, and note what comes of it."""
    for task_id in tasks:
        state, known = observer.lab.start(task_id), set[str]()
        for _ in range(WALK):
            trees = [tree for tree in observer.listed(state) if tree.key not in known]
            if state.over or not trees:
                break
            tree = rng.choice(trees)
            known.add(tree.key)
            instance = observer.play(state, observer.grammar.write(tree))
            if instance is not None:
                observer.note(instance)
                state = instance.child


def try_rules(
    search: FixSearch, rules: RuleSet, tasks: Sequence[str], rng: random.Random, say: Say
) -> tuple[RuleSet, TrialBook]:
    """Try rules on fresh tasks until each stands or fell; return those left, and the trials.

    Every other walk is drawn from the actions of agents that are about rules in want of trials.
    """
    observer, book = search.observer, TrialBook()
    limit = observer.lab.steps + observer.scale_steps(TRIAL_STEPS)
    spoken = _spoken(observer)
    for number in range(ROUNDS * len(tasks)):
        wanting = [rule for rule in rules.rules if not book.stands(rule)]
        once = number < len(tasks)
        if not (rules.rules if once else wanting) or observer.lab.steps > limit or observer.lab.budget.is_spent():
            break
        say(f"trying {len(rules.rules if once else wanting)} rules: task {number % len(tasks) + 1} of {len(tasks)}")
        for _ in range(WALKS):
            said = spoken if rng.random() < 0.5 else _spoken_of(search, wanting, spoken) or spoken
            with suppress(BudgetSpentError):
                _walk(search, rules, tasks[number % len(tasks)], said, rng, book, heeds=rng.random() < 0.5)
            with suppress(BudgetSpentError):
                rules = rules.model_copy(update={"rules": tuple(_mended(search, rules, book))})
    return rules, book


def _spoken(observer: Observer) -> list[str]:
    """Return the agent's actions, without those of forms that always ended the episode if there are others."""
    spoken = [action for counts in observer.spoken.values() for action in counts]
    return [action for action in spoken if observer.goes_on(action)] or spoken


def _spoken_of(search: FixSearch, rules: Sequence[Rule], spoken: Sequence[str]) -> list[str]:
    """Return actions that rules may speak of: of their forms, and if one advises an edit, those that it changes."""
    readings = [(action, search.grammar.read(action)) for action in spoken]
    read = [(action, reading) for action, reading in readings if reading is not None]
    chosen: list[str] = []
    for rule in rules:
        own = [(action, reading) for action, reading in read if reading.tree.form == getattr(rule, "form", "")]
        changed = [
            action
            for action, reading in own
            if isinstance(rule, SayInstead) and apply_edit(rule.edit, reading, search.grammar) is not None
        ]
        chosen += changed or [action for action, _ in own]
    return chosen


def _mended(search: FixSearch, rules: RuleSet, book: TrialBook) -> Iterator[Rule]:
    """Yield the rules without failures, and the others with an exception that covers their failures, if there is one.

    Where nothing could help is no failure, but an exception that covers all these cases is taken. A rule with an
    exception keeps the trials in which it would have said the same.
    """
    for rule in rules.rules:
        key = rule.model_dump_json()
        refuted, hopeless = book.evidence(rule).refuted, book.hopeless[key]
        wrong = [(each, tree) for each, tree, passed in book.trials[key] if not passed] or hopeless
        exception, unless = None, getattr(rule, "unless", ())
        if isinstance(rule, Excepted) and len(unless) < MOST_EXCEPTIONS and (refuted or len(hopeless) >= MIN_HOPELESS):
            exception = _exception(search, rule, wrong, book.trials[key])
        if exception is not None:
            where, _ = wrong[0]
            book.failed.setdefault(key, f"{where.state.task_id}: {where.action}")
            words = exception_in_words(exception, search.name)
            if ", but not " in rule.text:
                words = words.replace("but not ", "nor ")
            said = f"{rule.text}, {words}" if rule.text.endswith("...") else f"{rule.text.removesuffix('.')}, {words}"
            mended = rule.model_copy(update={"unless": (*unless, exception), "text": said})
            book.inherit(rule, mended, partial(_holds, search, exception))
            yield mended
        elif not refuted:
            yield rule


def _is_tool(search: FixSearch, rule: Rule) -> bool:
    known = search.grammar.forms.get(getattr(rule, "form", ""))
    return known is not None and known.tool != ""


def _holds(search: FixSearch, condition: Condition, instance: Instance, tree: ActionTree) -> bool:
    return search.runtime_at(instance.state).holds(condition, tree)


def _exception(
    search: FixSearch,
    rule: Excepted,
    wrong: Sequence[tuple[Instance, ActionTree]],
    trials: Sequence[tuple[Instance, ActionTree, bool]],
) -> Condition | None:
    """Return a condition that holds wherever a rule was wrong and in few of its passes; None without."""
    forms = search.grammar.forms
    own = tuple(Term(slot=slot) for slot in range(forms[rule.form].slots))
    candidates = [Condition(kind="done", form=rule.form, terms=own)]
    for form, known in sorted(forms.items()):
        for kind in ("done", "latest"):
            for slot in range(known.slots):
                terms = [tuple(term if each == slot else None for each in range(known.slots)) for term in own]
                candidates += [Condition(kind=kind, form=form, terms=each) for each in terms]
            if kind == "done" or known.slots:
                candidates.append(Condition(kind=kind, form=form, terms=(None,) * known.slots))
    candidates += [each.model_copy(update={"negated": True}) for each in candidates]
    failed = [(search.runtime_at(instance.state), tree) for instance, tree in wrong]
    passed = [(search.runtime_at(instance.state), tree) for instance, tree, passed in trials if passed][-MOST_PASSED:]
    for condition in candidates:
        covers = condition not in rule.unless and all(runtime.holds(condition, tree) for runtime, tree in failed)
        if covers and sum(runtime.holds(condition, tree) for runtime, tree in passed) <= MOST_SILENCED * len(passed):
            return condition
    return None


def _walk(
    search: FixSearch, rules: RuleSet, task_id: str, said: list[str], rng: random.Random, book: TrialBook, heeds: bool
) -> list[Instance]:
    """Walk through a task as an agent of no skill, and try each message. Return what was played."""
    observer, played = search.observer, list[Instance]()
    state = observer.lab.start(task_id)
    runtime = search.runtime_at(state, rules)
    step = ""
    for _ in range(min(WALK, observer.lab.env.step_limit)):
        if state.over:
            break
        action = step or _draw(search, rules, state, said, rng)
        instance = observer.play(state, action)
        state_after = observer.lab.after(state, action)
        played += [instance] if instance is not None else []
        if instance is not None and observer.answer(instance) not in observer.classes(instance.tree.form):
            observer.note(instance)
        turn = runtime.hear(action, state_after.observation)
        step = ""
        _count_end(runtime, rules, instance, book, over=state_after.over)
        if state_after.over:
            break
        advice = runtime.advise(turn)
        if advice.text and instance is not None:
            _try_advice(search, rules, instance, advice, book)
            step = advice.step if heeds else ""
        state = state_after
    return played


def _draw(search: FixSearch, rules: RuleSet, state: LabState, spoken: Sequence[str], rng: random.Random) -> str:
    """Draw an action: of the agent's or of any form, on names read here, sometimes oddly worded, or as the rules advise
    against."""
    texts = read_texts(state)
    if rng.random() < ANY_FORM and (tree := search.draw(texts, rng)) is not None:
        return search.grammar.write(tree)
    action = rng.choice(spoken)
    reading = search.grammar.read(action)
    if reading is None:
        return action
    said, values = _with_own_names(reading, rules, search.grammar), list[JsonValue]()
    for slot, value in enumerate(said.arguments):
        if value is None:
            values.append(value)
            continue
        names = search.pool(reading.tree.form, slot, texts)
        keep = not names or text_of(value).lower() in texts.lower()
        name = rng.choice(names) if names else ""
        other = value if (keep and rng.random() < 0.5) or not names else search.as_value.get(name, name)
        worded = _worded_as(value, other, search, reading.tree.form, slot) if rng.random() < 0.5 else other
        values.append(_before_edit(worded, search, rules, reading.tree.form, slot) if rng.random() < SLIPS else worded)
    tree = said._replace(arguments=tuple(values))
    if rng.random() < ODD and values:
        slot = rng.randrange(len(values))
        odd = f"{text_of(values[slot])}x" if isinstance(values[slot], str) else values[slot]
        tree = tree._replace(arguments=(*tree.arguments[:slot], odd, *tree.arguments[slot + 1 :]))
    tree = _misnamed(tree, said, reading.tree)
    return action if reading.tree == tree else _write_as(action, reading, tree, search.grammar)


def _with_own_names(reading: Reading, rules: RuleSet, grammar: ActionGrammar) -> ActionTree:
    """Return an action with its surplus arguments under the names that a rule on trial gives them."""
    edits = [
        rule.edit
        for rule in rules.rules
        if isinstance(rule, SayInstead) and rule.form == reading.tree.form and rule.edit.kind == "argument"
    ]
    renamed = (apply_edit(edit, reading, grammar) for edit in edits)
    return next((tree for tree in renamed if tree is not None), reading.tree)


def _misnamed(tree: ActionTree, named: ActionTree, said: ActionTree) -> ActionTree:
    """Return an action with the surplus names of `said`, which are right in `named`."""
    values, extra = [*tree.arguments], list[tuple[str, JsonValue]]()
    given = [slot for slot, value in enumerate(said.arguments) if value is None and named.arguments[slot] is not None]
    for name, value in said.extra if given else ():
        slot = next(slot for slot in given if named.arguments[slot] == value)
        given.remove(slot)
        extra.append((name, values[slot]))
        values[slot] = None
    return tree._replace(arguments=tuple(values), extra=tuple(extra) or tree.extra)


def _write_as(action: str, reading: Reading, tree: ActionTree, grammar: ActionGrammar) -> str:
    """Return an action in the wording of another one of its form, which may not be exact."""
    text = action
    for old, new in zip(reading.tree.arguments, tree.arguments, strict=True):
        word = text_of(new).replace("\\", r"\\")
        text = re.sub(rf"(?<!\w){re.escape(text_of(old))}(?!\w)", word, text, count=1)
    again = None if reading.exact else grammar.read(text)
    return text if again is not None and again.tree == tree else grammar.write(tree)


def _before_edit(value: JsonValue, search: FixSearch, rules: RuleSet, form: str, slot: int) -> JsonValue:
    """Return an argument as it is before an edit that a rule advises, for this or a tool's argument of its name."""
    names = search.grammar.forms[form].arguments
    for rule in rules.rules:
        if not isinstance(rule, SayInstead):
            continue
        edit, others = rule.edit, search.grammar.forms[rule.form].arguments
        alike = edit.slot >= 0 and others[edit.slot : edit.slot + 1] == names[slot : slot + 1]
        every = rule.form == form and edit.slot < 0 and search.grammar.forms[form].types[slot : slot + 1] == ("array",)
        if (alike or every) if names else (rule.form, edit.slot) == (form, slot):
            value = undo_edit(edit, value)
    return value


def _worded_as(wording: JsonValue, name: JsonValue, search: FixSearch, form: str, slot: int) -> JsonValue:
    """Return a name in the wording of the agent's own: with the words around a name that worked elsewhere."""
    known = search.values.get(form, [])
    if not isinstance(wording, str) or not isinstance(name, str) or slot >= len(known):
        return name
    inner = max((each for each in known[slot] if each in wording), key=len, default="")
    return wording.replace(inner, name) if inner else name


def _count_end(runtime: RuleRuntime, rules: RuleSet, instance: Instance | None, book: TrialBook, *, over: bool) -> None:
    """Count a trial of the rule that refused actions end the episode, where enough of them were played."""
    for rule in rules.rules:
        if not isinstance(rule, EndsEpisode) or instance is None or runtime.answers[-1] not in rule.answers:
            continue
        if count_refusals(runtime.answers, rule) == rule.count:
            book.count([rule], instance, passed=over)


def _try_advice(search: FixSearch, rules: RuleSet, instance: Instance, advice: Advice, book: TrialBook) -> None:
    """Do what a message says in copies of the state, and count the trial for its rules."""
    observer = search.observer
    for rule in advice.rules:
        if isinstance(rule, NothingChanged | LockedAfter) and book.has_many(rule, instance.state.task_id):
            continue
        if isinstance(rule, NothingChanged):
            changed = observer.changed(instance)
            if changed is not None:
                book.count([rule], instance, passed=not changed)
        elif isinstance(rule, WorksWhere):
            idle = observer.play(instance.child, rule.form)
            if idle is not None and not idle.child.over:
                book.count([rule], idle, passed=idle.same)
        elif isinstance(rule, LockedAfter):
            book.count([rule], instance, passed=not _helped(search, instance))
        elif isinstance(rule, EndsEpisode):  # the refused action again must end the episode
            book.count([rule], instance, passed=observer.lab.after(instance.child, instance.action).over)
        elif isinstance(rule, SayInstead) and not advice.step:
            _try_wording(search, rule, instance, book)
    if advice.step and search.is_by_chance(instance):
        book.count([rule for rule in advice.rules if isinstance(rule, NeedsFirst)], instance, passed=False)
    elif advice.step:
        _follow(search, rules, instance, advice, book)


def _try_wording(search: FixSearch, rule: SayInstead, instance: Instance, book: TrialBook) -> None:
    """Play an action in the wordings that a rule describes, without a command for it. If all are refused, this says
    nothing: the name may not exist."""
    observer, details = search.observer, (rule.edit.detail, *rule.edit.others)
    edits = [rule.edit.model_copy(update={"detail": detail, "others": ()}) for detail in details]
    trees = [apply_edit(edit, instance.reading, search.grammar, read_texts(instance.child)) for edit in edits]
    played = [observer.insist(instance.child, search.grammar.write(tree)) for tree in trees if tree is not None]
    refusal = observer.answer(instance)
    worked = [
        tried is not None and (observer.works(tried, refusal) or _is_understood(search, rule, tried, refusal))
        for tried in played
    ]
    if any(worked):
        book.count([rule], instance, passed=all(worked), tree=trees[0])


def _is_understood(search: FixSearch, rule: Rule, tried: Instance, refusal: str) -> bool:
    """Whether an edit that another tool needs too made an action end the episode, which is no refusal."""
    known = isinstance(rule, SayInstead) and search.is_needed_elsewhere(rule.form, rule.edit)
    return known and search.ends_otherwise(tried, refusal)


def _helped(search: FixSearch, instance: Instance) -> bool:
    """Whether some other action makes a locked action possible again."""
    return any(True for _ in search.steps_that_help(instance))


def _follow(search: FixSearch, rules: RuleSet, instance: Instance, advice: Advice, book: TrialBook) -> None:
    """Follow a message and those after it, until the refused action works; count the trial for each rule on the way.

    A message is wrong if its step is refused, or if the action is still refused after it and nothing more is said,
    unless nothing helps. A wording that is refused in other words says nothing unless more is said: something else may
    be wrong.
    """
    followed: list[tuple[Rule, Instance, ActionTree | None]] = []
    observer, at, took_effect = search.observer, instance, False
    for _ in range(CHAIN):
        needs = [rule for rule in advice.rules if isinstance(rule, NeedsFirst)]
        instead = [rule for rule in advice.rules if isinstance(rule, SayInstead)]
        rule: Rule = (needs or instead)[-1]
        texts = read_texts(at.child)
        tree = apply_edit(instead[0].edit, at.reading, search.grammar, texts) if instead else None
        followed.append((rule, at, tree))
        tried = _send_step(search, rules, at.child, advice.step)
        if tried is None or (needs and _is_refused(observer, rules, tried)):
            took_effect = False
            break
        if not needs:
            ends = tried.child.over and not observer.reaches_goal(tried)
            if ends and not _is_understood(search, rule, tried, observer.answer(at)):
                return
            if ends or observer.works(tried, observer.answer(at)):
                for each, where, edited in followed:
                    book.count([each], where, passed=True, tree=edited)
                return
            if observer.is_near_end(tried):
                return
            if observer.answer(tried) == observer.answer(at):
                _count_refused_edit(search, rules, rule, at, tried, book)
                return
            runtime = search.runtime_at(tried.state, rules)
            advice, at = runtime.advise(runtime.hear(tried.action, tried.child.observation)), tried
            if not advice.step and not (advice.text and _is_tool(search, rule)):
                book.count_unknown(rule)
                return
            if not advice.step:
                break
            took_effect = True
            continue
        took_effect = True
        if tried.child.over:
            return
        again = observer.insist(tried.child, instance.action)
        if again is None or again.child.over:
            for each, where, _ in followed:
                book.undecided[each.model_dump_json()].add(where.state.task_id)
            return
        if not _is_refused(observer, rules, again):
            for each, where, edited in followed:
                book.count([each], where, passed=True, tree=edited)
            return
        runtime = search.runtime_at(again.state, rules)
        advice, at = runtime.advise(runtime.hear(instance.action, again.child.observation)), again
        if not advice.step:
            break
    rule = followed[-1][0]
    other = observer.answer(at) != observer.answer(instance)
    if advice.text and not advice.step and other and _is_tool(search, rule):
        for each, where, edited in followed:  # another cause is left, which is said
            book.count([each], where, passed=True, tree=edited)
        return
    rule, where, edited = followed[-1]
    if not took_effect or _was_possible(search, rules, instance):
        book.count([rule], where, passed=False, tree=edited)
    else:
        book.count_unknown(rule)
        book.hopeless[rule.model_dump_json()].append((where, edited or where.tree))


def _count_refused_edit(
    search: FixSearch, rules: RuleSet, rule: Rule, at: Instance, tried: Instance, book: TrialBook
) -> None:
    """Count an edited action that is refused as before: a failure, unless it lacks a step that helps it alone.

    One refusal may have many causes. If nothing helps, or if it took effect before, this says nothing.
    """
    again = _took_effect(search, rules, tried)
    helped = None if again else next(search.steps_that_help(tried), None)
    if helped is not None and search.leads_to(at, helped):
        book.count([rule], at, passed=False, tree=tried.tree)
    elif again or (helped is None and search.find_pair(tried) is None):
        book.count_unknown(rule)
        book.hopeless[rule.model_dump_json()].append((at, tried.tree))


def _took_effect(search: FixSearch, rules: RuleSet, instance: Instance) -> bool:
    """Whether an action took effect on the way to its state."""
    own = tuple(Term(slot=slot) for slot in range(len(instance.tree.arguments)))
    done = Condition(kind="done", form=instance.tree.form, terms=own)
    return search.runtime_at(instance.state, rules).holds(done, instance.tree)


def _is_refused(observer: Observer, rules: RuleSet, tried: Instance) -> bool:
    """Whether an action was refused as the rules know it, or only showed an earlier page again."""
    refused = observer.answer(tried) in rules.refusals.get(tried.tree.form, ())
    return refused or (not tried.child.over and observer.shows_again(tried))


def _send_step(search: FixSearch, rules: RuleSet, state: LabState, action: str) -> Instance | None:
    """Send a step, and where it is refused, what may help, and the step again."""
    observer = search.observer
    tried = observer.insist(state, action)
    if tried is None or tried.child.over or observer.answer(tried) not in rules.refusals.get(tried.tree.form, ()):
        return tried
    runtime = search.runtime_at(tried.state, rules)
    advice = runtime.advise(runtime.hear(action, tried.child.observation))
    helps = any(isinstance(rule, NeedsFirst) and rule.at_times for rule in advice.rules)
    helped = observer.insist(tried.child, advice.step) if helps and advice.step else None
    return tried if helped is None or helped.child.over else observer.insist(helped.child, action)


def _was_possible(search: FixSearch, rules: RuleSet, instance: Instance) -> bool:
    """Whether a refused action took effect before, or would after one or two others: else no message could help."""
    if _took_effect(search, rules, instance):
        return True
    return _helped(search, instance) or search.find_pair(instance) is not None


def exception_in_words(condition: Condition, write_form: Callable[[str, Sequence[str]], str]) -> str:
    """Write a condition in which a rule is silent; "_" stands for any argument. `write_form` writes a form with words
    in its slots."""
    blanks = ["_" if term is None else write_term(term) for term in condition.terms]
    done = f"`{write_form(condition.form, blanks)}`"
    if condition.kind == "latest":
        blank = write_form(condition.form, ["_"] * len(blanks))
        return f"{'only where' if condition.negated else 'but not where'} the latest `{blank}` was {done}"
    return f"only after {done}" if condition.negated else f"but not after {done}"
