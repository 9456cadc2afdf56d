"""Rules on trial that need no fix: silence, ends by refused actions, limits of turns, and actions that lock others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from align_echo.align.probe.effects.fixes import FixSearch, list_terms
from align_echo.align.probe.effects.outcomes import Instance, Observer
from align_echo.interface.rules.actions import ActionTree
from align_echo.interface.rules.answers import SAME
from align_echo.interface.rules.model import EndsEpisode, LockedAfter, NothingChanged, Rule, TurnLimit
from align_echo.interface.rules.runtime import count_refusals
from align_echo.types import Trajectory

MIN_LOCKED = 3
"""Refused actions without a fix, on the same names, before which an action took effect that locked them."""

MIN_ENDED = 4
"""Episodes that must end by refused actions before this is a rule on trial."""


def plain_rules(search: FixSearch, failed: Sequence[Trajectory]) -> Iterator[Rule]:
    """Yield the rules on trial of all these kinds. Raises `BudgetSpentError`."""
    yield from _locks(search)
    yield from _no_effects(search)
    yield from _endings(search.observer, failed)
    yield from _limits(failed)


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
            yield rule.model_copy(update={"count": ends[0], "text": _ending_in_words(ends[0], in_a_row)})
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


def _ending_in_words(count: int, in_a_row: bool) -> str:
    number = {1: "A refused action", 2: "The second refused action", 3: "The third refused action"}
    in_row = " in a row" if in_a_row and count > 1 else ""
    return f"{number.get(count, f'Refused action number {count}')}{in_row} ends the episode"


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
