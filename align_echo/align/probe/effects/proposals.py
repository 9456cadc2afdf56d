"""Rules on trial that need no fix: silence, ends by refused actions, limits of turns, actions that lock others; and
what undoes a step.

And where an action without arguments has an effect: all are played in every state of a walk. What the page shows
wherever one took effect, and seldom where it did not, becomes a rule on trial."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product
from typing import Any

from align_echo.align.budget import BudgetSpentError
from align_echo.align.probe.effects.fixes import MIN_FIXED, MIN_TASKS, FixSearch, list_terms
from align_echo.align.probe.effects.outcomes import Instance, Observer
from align_echo.align.probe.lab import LabState
from align_echo.interface.rules.actions import ActionTree
from align_echo.interface.rules.answers import SAME
from align_echo.interface.rules.edits import write_term
from align_echo.interface.rules.model import (
    Effect,
    EndsEpisode,
    LockedAfter,
    NeedsFirst,
    NothingChanged,
    Rule,
    TurnLimit,
    WorksWhere,
)
from align_echo.interface.rules.runtime import bounded_page, count_refusals
from align_echo.types import Trajectory

MIN_LOCKED = 3
"""Refused actions without a fix, on the same names, before which an action took effect that locked them."""

MOST_UNDONE = 8
"""Fixed actions that are tried again after what may undo their step."""

MOST_UNDOING = 12
"""Actions of a form that may undo a step."""

MIN_ENDED = 4
"""Episodes that must end by refused actions before this is a rule on trial."""


def plain_rules(search: FixSearch, failed: Sequence[Trajectory]) -> Iterator[Rule]:
    """Yield the rules on trial of all these kinds. Raises `BudgetSpentError`."""
    yield from _locks(search)
    yield from _no_effects(search)
    yield from _endings(search.observer, failed)
    yield from _limits(failed)


def add_undoing(search: FixSearch, rules: Iterable[Rule]) -> Iterator[Rule]:
    """Yield rules with what undoes their steps, where it is known that a step was done."""
    for rule in rules:
        undone_by: tuple[Effect, ...] = ()
        if isinstance(rule, NeedsFirst) and rule.unless[0].kind == "done":
            with suppress(BudgetSpentError):
                undone_by = _find_undoing(search, rule)
        if isinstance(rule, NeedsFirst) and undone_by:
            done = rule.unless[0].model_copy(update={"undone_by": undone_by})
            names = ([write_term(term) for term in each.terms if term is not None] for each in undone_by)
            forms = "` or `".join(search.name(each.form, given) for each, given in zip(undone_by, names, strict=True))
            text = f"{rule.text}, again after `{forms}`"
            yield rule.model_copy(update={"unless": (done, *rule.unless[1:]), "text": text})
        else:
            yield rule


def _find_undoing(search: FixSearch, rule: NeedsFirst) -> tuple[Effect, ...]:
    """Return what undoes a step wherever it was tried: the action is refused until the step is done again."""
    terms = [term for term in rule.terms if term is not None]
    fixed = search.by_form[rule.form].steps[rule.step, tuple(terms)]
    tried: dict[Effect, list[bool]] = defaultdict(list)
    tasks: dict[Effect, set[str]] = defaultdict(set)
    for instance in sorted(fixed, key=lambda each: each.state.task_id)[:: -(-len(fixed) // MOST_UNDONE) or 1]:
        tree = search.runtime_at(instance.state).step(rule.step, terms, instance.tree)
        state = search.after(instance.state, tree, 3) if tree is not None else None
        if tree is None or state is None:
            continue
        for other in _on_names(search.observer, tree, state):
            given = tuple(terms[tree.arguments.index(value)] for value in other.arguments)
            undone = None if any(term.by for term in given) else search.after(state, other, 1)
            if undone is not None:
                effect = Effect(form=other.form, terms=given)
                tried[effect].append(_is_undone(search, instance, tree, undone))
                tasks[effect].add(instance.state.task_id)
    sure = [each for each, outcomes in tried.items() if all(outcomes) and len(outcomes) >= MIN_FIXED]
    return tuple(each for each in sure if len(tasks[each]) >= MIN_TASKS)


def _on_names(observer: Observer, step: ActionTree, state: LabState) -> list[ActionTree]:
    """Return the actions of other forms on a step's names, those that the engine lists if it does."""
    acting = observer.moving if observer.lists else filter(observer.acts, observer.grammar.forms)
    forms = [observer.grammar.forms[form] for form in sorted(acting) if form in observer.going_on]
    listed = {tree.key for tree in observer.listed(state)} if observer.lists else None
    names = [*dict.fromkeys(value for value in step.arguments if isinstance(value, str))]
    filled = ((form.name, islice(product(names, repeat=form.slots), MOST_UNDOING)) for form in forms)
    trees = [ActionTree(form, values) for form, each in filled for values in each]
    return [tree for tree in trees if tree.form != step.form and (listed is None or tree.key in listed)]


def _is_undone(search: FixSearch, instance: Instance, step: ActionTree, state: LabState) -> bool:
    """Whether an action is refused in a state as it was before a step, and the step helps once more."""
    again = search.observer.insist(state, instance.action)
    if again is None or again.child.over or again.text != instance.text:
        return False
    return search.leads_to(replace(instance, state=state), step)


def _no_effects(search: FixSearch) -> Iterator[NothingChanged]:
    """Yield rules for answers that repeat the page: nothing changed."""
    observer = search.observer
    for form in observer.forms:
        known = observer.classes(form).get(SAME)
        if known is not None and known.refuses and observer.acts(form) and len(known.tasks) >= 2:
            text = f"If the page after `{search.name(form)}` is the page before, nothing changed"
            yield NothingChanged(form=form, answers=(SAME,), text=text)


def _endings(observer: Observer, failed: Sequence[Trajectory]) -> Iterator[EndsEpisode]:
    """Yield the rule that refused actions end the episode, if episodes ended so and none went on."""
    answers = tuple(sorted({text for form in observer.forms for text in observer.sure_refusals(form)} - {SAME}))
    episodes = [(trajectory.terminated, [*observer.replay(trajectory)]) for trajectory in failed]
    for in_a_row in (True, False):
        rule = EndsEpisode(answers=answers, count=1, in_a_row=in_a_row, text="")
        counts = [_refusals(observer, played, rule, ended) for ended, played in episodes if played]
        ends = [last for _, last in counts if last]
        went_on = max((most for most, _ in counts), default=0)
        if len(ends) >= MIN_ENDED and len(set(ends)) == 1 and went_on < ends[0]:
            numbers = {1: "A refused action", 2: "The second refused action", 3: "The third refused action"}
            number = numbers.get(ends[0], f"Refused action number {ends[0]}")
            text = f"{number}{' in a row' if in_a_row and ends[0] > 1 else ''} ends the episode"
            yield rule.model_copy(update={"count": ends[0], "text": text})
            return


def _refusals(observer: Observer, played: Sequence[Instance], rule: EndsEpisode, ended: bool) -> tuple[int, int]:
    """Return the most refusals after which an episode went on, and those that ended it, 0 if something else did.

    The last action was refused if it is refused in the state before the refusals.
    """
    answers = [observer.answer(each) for each in played]
    before = answers[:-1] if ended else answers
    most = max((count_refusals(before[: end + 1], rule) for end in range(len(before))), default=0)
    if not ended:
        return most, 0
    count = count_refusals(before, rule)
    first = played[len(before) - count] if rule.in_a_row else played[0]
    again = observer.play(first.state, played[-1].action)
    refused = again is not None and observer.answer(again) in rule.answers
    return most, count + 1 if refused or (count == 0 and answers[-1] in rule.answers) else 0


def cut_short(failed: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the episodes that a limit of turns ended."""
    return [each for each in failed if each.steps and each.steps[-1].truncated]


def _limits(failed: Sequence[Trajectory]) -> Iterator[TurnLimit]:
    """Yield the limit of turns, if it cut episodes short and no text gives it."""
    lengths = {len(trajectory.steps) for trajectory in cut_short(failed)}
    if len(lengths) != 1:
        return
    turns = lengths.pop()
    texts = " ".join(f"{trajectory.goal} {trajectory.initial_observation}" for trajectory in failed)
    if turns > 1 and str(turns) not in texts:
        yield TurnLimit(turns=turns, left=max(1, turns // 5), text=f"An episode ends after {turns} actions")


def _locks(search: FixSearch) -> Iterator[LockedAfter]:
    """Yield rules that an action is refused once another one took effect."""
    observer = search.observer
    causes: dict[tuple[str, str, tuple[Any, ...]], list[Instance]] = defaultdict(list)
    for form, fixes in search.by_form.items():
        fixed = {id(each) for group in (*fixes.edits.values(), *fixes.steps.values()) for each in group}
        for instance in fixes.refused:
            if id(instance) in fixed:
                continue
            cause = _lock_of(observer, instance)
            if cause is not None and cause.key != instance.tree.key:  # else it is already so
                for terms in list_terms(cause, instance.tree, search.runtime_at(instance.state)):
                    shared = tuple(term if term.slot >= 0 and not term.by else None for term in terms)
                    causes[form, cause.form, shared].append(instance)
    for (form, locker, terms), locked in causes.items():
        worded = all(observer.answer(each) != SAME for each in locked)
        if any(terms) and worded and len(locked) >= MIN_LOCKED and len({each.state.task_id for each in locked}) > 1:
            name, first = search.name(form), search.name(locker)
            yield LockedAfter(
                form=form,
                answers=tuple(sorted({observer.answer(each) for each in locked})),
                cause=locker,
                terms=terms,
                text=f"`{name}` is refused after `{first}`: do it before",
            )


def _lock_of(observer: Observer, instance: Instance) -> ActionTree | None:
    """Return the action on the way here before which the refused one worked; None without."""
    state = instance.state
    while state.parent is not None:
        before = observer.play(state.parent, instance.action)
        if before is not None and observer.works(before, observer.answer(instance)):
            reading = observer.grammar.read(state.actions[-1])
            return reading.tree if reading is not None else None
        state = state.parent
    return None


MOST_FORMS = 12
"""Maximum forms without arguments that are played in every state."""

MOST_PHRASES = 6
"""Maximum phrases of a rule."""

MIN_SHOWN = 3
"""Pages with an effect on which each phrase must stand."""

MIN_SILENT = 0.3
"""Share of the pages without effect that a rule must tell apart."""

LONGEST_PHRASE = 4
"""Words of a phrase."""

MIN_IDLE, IDLE_TASKS = 20, 3
"""Different pages, and tasks, in which an action must change nothing before it is said to change nothing at all."""

NEGATIVES = 0.5
"""Weight of a page without effect beside a page with an effect."""


_WORD = re.compile(r"\w+")


class PageRecord:
    """Pages before the actions without arguments, by form, with and without an effect."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        constant = [form for form, known in observer.grammar.forms.items() if not known.slots and known.text]
        self.forms = constant if len(constant) <= MOST_FORMS and not observer.lists else []
        self.worked: dict[str, Counter[str]] = {form: Counter() for form in self.forms}
        self.idle: dict[str, Counter[str]] = {form: Counter() for form in self.forms}

    def take(self, state: LabState) -> None:
        """Play every action without arguments in a state. A page that stays is no effect, an end says nothing."""
        for form in self.forms:
            instance = self._observer.play(state, form) if form in self._observer.going_on else None
            if instance is not None and not instance.child.over:
                pages = self.idle if instance.same else self.worked
                pages[form][bounded_page(self._observer.page(state))] += 1

    def rules(self) -> Iterator[WorksWhere]:
        """Yield the rules on trial: of forms that change nothing where their page stays."""
        for form in self.forms:
            known = self._observer.classes(form).get(SAME)
            if known is None or not known.refuses:
                continue
            if not self._observer.acts(form):
                if not self.worked[form] and len(self.idle[form]) >= MIN_IDLE and len(known.tasks) >= IDLE_TASKS:
                    yield WorksWhere(form=form, phrases=(), text=f"{form} was never seen to change anything")
                continue
            worked, idle = [*self.worked[form]], [page for page in self.idle[form] if page not in self.worked[form]]
            phrases = _cover(worked, idle)
            if phrases:
                shown = " or ".join(f'"{phrase.strip(";")}"' for phrase in phrases)
                text = f"{form} changes nothing unless the page shows {shown}"
                yield WorksWhere(form=form, phrases=phrases, text=text)


def _cover(worked: Sequence[str], idle: Sequence[str]) -> tuple[str, ...]:
    """Return phrases of which every page with an effect shows at least one; () if they tell too little apart."""
    if len(worked) < MIN_SHOWN or not idle:
        return ()
    phrases = {phrase for page in worked for phrase in _phrases(page)}
    misses = {phrase: sum(phrase in page for page in idle) / len(idle) for phrase in phrases}
    left, chosen = set(worked), list[str]()
    while left and len(chosen) < MOST_PHRASES:
        shares = {phrase: sum(phrase in page for page in left) / len(worked) for phrase in phrases}
        merits = {
            phrase: (share - NEGATIVES * misses[phrase], -len(phrase.split()), phrase)
            for phrase, share in shares.items()
        }
        best = max(merits, key=merits.__getitem__)
        shown = {page for page in left if best in page}
        if len(shown) < MIN_SHOWN:
            return ()
        chosen.append(best)
        left -= shown
    silent = sum(not any(phrase in page for phrase in chosen) for page in idle)
    return tuple(chosen) if not left and silent >= MIN_SILENT * len(idle) else ()


def _phrases(page: str) -> Iterator[str]:
    """Yield the beginnings and ends of a page's parts, with the sign that bounds them, and the words in signs."""
    for part in filter(None, page.split(";")):
        words = part.split(" ")
        for size in range(1, min(LONGEST_PHRASE, len(words)) + 1):
            yield f";{' '.join(words[:size])}" + (";" if size == len(words) else " ")
            yield (";" if size == len(words) else " ") + f"{' '.join(words[-size:])};"
        letters = list(_WORD.finditer(part))
        for first, last in zip([*letters, *letters], [*letters, *letters[1:]], strict=False):
            signs = part[max(0, first.start() - 1) : last.end() + 1]
            if signs and not (signs[0].isspace() or signs[0].isalnum()):
                yield signs
