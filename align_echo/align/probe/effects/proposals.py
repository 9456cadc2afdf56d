"""Rules on trial that need no fix: silence, ends by refused actions, limits of turns, and actions that lock others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from align_echo.align.probe.effects.fixes import FixSearch, terms_of
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
    yield from _no_effects(search.observer)
    yield from _endings(search.observer, failed)
    yield from _limits(failed)


def _no_effects(observer: Observer) -> Iterator[NothingChanged]:
    """Yield rules for answers that repeat the page: nothing changed."""
    for form in observer.forms:
        known = observer.classes(form).get(SAME)
        if known is not None and known.refuses and observer.acts(form) and len(known.tasks) >= 2:
            name = observer.grammar.forms[form].name
            text = f"If the page after `{name}` is the page before, nothing changed"
            yield NothingChanged(form=form, answers=(SAME,), text=text)


def _endings(observer: Observer, failed: Sequence[Trajectory]) -> Iterator[EndsEpisode]:
    """Yield the rule that refused actions end the episode, if episodes ended so and none went on."""
    episodes = []
    for trajectory in failed:
        played = list(observer.replay(trajectory))
        if played:
            episodes.append((trajectory.terminated and played[-1].child.over, played))
    last = {observer.answer(played[-1]) for ended, played in episodes if ended}
    stock = {answer for form in observer.forms for answer in observer.sure_refusals(form) if answer != SAME}
    answers = tuple(sorted(stock & last or last)) if stock & last else ()
    for in_a_row in (True, False):
        rule = EndsEpisode(answers=answers, count=1, in_a_row=in_a_row, text="")
        counts = [(ended, _most_refusals(observer, played, rule)) for ended, played in episodes]
        ends = {count for ended, count in counts if ended and count}
        number = sum(bool(ended and count) for ended, count in counts)
        went_on = max((count for ended, count in counts if not ended), default=0)
        if answers and number >= MIN_ENDED and len(ends) == 1 and went_on < min(ends):
            yield rule.model_copy(update={"count": min(ends), "text": _ending_in_words(min(ends), in_a_row)})
            return


def _most_refusals(observer: Observer, played: Sequence[Instance], rule: EndsEpisode) -> int:
    """Return the largest count of refusals that an episode reached."""
    answers = [observer.answer(each) for each in played]
    return max(count_refusals(answers[: end + 1], rule) for end in range(len(answers)))


def _ending_in_words(count: int, in_a_row: bool) -> str:
    number = {1: "A refused action", 2: "The second refused action", 3: "The third refused action"}
    in_row = " in a row" if in_a_row and count > 1 else ""
    return f"{number.get(count, f'Refused action number {count}')}{in_row} ends the episode"


def _limits(failed: Sequence[Trajectory]) -> Iterator[TurnLimit]:
    """Yield the limit of turns, if it cut episodes short and no text gives it."""
    cut = [trajectory for trajectory in failed if trajectory.truncated and not trajectory.context_overflow]
    lengths = {len(trajectory.steps) for trajectory in cut}
    if len(lengths) != 1:
        return
    turns = lengths.pop()
    texts = " ".join(f"{trajectory.goal} {trajectory.initial_observation}" for trajectory in failed)
    if turns > 1 and str(turns) not in texts and not any(trajectory.ended_by_repeats for trajectory in failed):
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
                for terms in terms_of(cause, instance.tree):
                    shared = tuple(term if term.slot >= 0 else None for term in terms)
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
        before = observer.play(state.parent, instance.said)
        if before is not None and observer.works(before, observer.answer(instance)):
            reading = observer.grammar.read(state.actions[-1])
            return reading.tree if reading is not None else None
        state = state.parent
    return None
