"""Probe for silent pages: misalignments from failures.

It keeps no state between iterations; earlier results are read from the interface.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from align_echo.align.budget import BudgetSpentError
from align_echo.align.probe.examinations import TrialCounts
from align_echo.align.probe.lab import Lab, find_silenced, is_often_silent
from align_echo.align.probe.offered.pages.learn import (
    PageSeen,
    WalkRecord,
    breaks_between,
    changes,
    form_in_words,
    forms_by_kind,
    frame_texts,
    free_frames,
    keep,
    leads,
    learn_beside,
    learn_named,
    learn_steps,
    one_step_on,
    replay_states,
    sampled,
    shows_pages,
    strange,
    takes_any_case,
    tour,
)
from align_echo.interface.rules.actions import fill
from align_echo.interface.rules.model import NamedBeside, NeedsPage, RuleSet, dump
from align_echo.interface.rules.pages import MOST_FRAME, NamedParts, PageOffers
from align_echo.types import Evidence, Misalignment, Trajectory

# ---------------------------------------------------------------- what was learned of pages, on trial

NAMES = "names"
MIN_TESTS = 10
MIN_PRECISION = 0.99
MIN_BESIDE = 0.9


def stands(evidence: Evidence) -> bool:
    """Check if a rule held often enough."""
    return evidence.support >= MIN_TESTS and evidence.precision >= MIN_PRECISION


def verify_offers(
    lab: Lab, offers: PageOffers, pages: Sequence[PageSeen], trials: TrialCounts, rng: random.Random
) -> PageOffers:
    """Return offers without what pages of fresh tasks refute."""
    closed = {}
    for form, rule in offers.closed.items():
        by_region = TrialCounts()
        _try_names(offers, form, pages, by_region, by_region=True)
        regions = {key: region for key, region in rule.regions.items() if stands(by_region.of(key))}
        closed[form] = rule.model_copy(update={"regions": regions})
    offers = offers.model_copy(update={"closed": closed})
    for form in closed:
        _try_names(offers, form, pages, trials)
    free = {form: _proved_free(lab, offers, form, pages, rng) for form in offers.free}
    return offers.model_copy(update={"free": free})


def _try_names(
    offers: PageOffers, form: str, pages: Sequence[PageSeen], trials: TrialCounts, *, by_region: bool = False
) -> None:
    """Test what a form takes on the parts of pages; `by_region`: each region, except texts known individually."""
    alone = {*offers.closed[form].sure, *offers.closed[form].never}
    for page in pages:
        read = offers.read(page.state.observation)
        for index, part in enumerate(read.parts):
            verdict = offers.takes(form, read, index)
            if verdict is None or (by_region and read.lower[index] in alone):
                continue
            passed = verdict == (index in page.accepted[form])
            claim = read.regions[index] if by_region else NAMES
            trials.count(claim, page.task_id, "" if passed else f"{page.task_id}: {fill(form, [part])}")


def _proved_free(
    lab: Lab, offers: PageOffers, form: str, pages: Sequence[PageSeen], rng: random.Random
) -> tuple[str, ...]:
    """List frames with pages on which a form accepts made-up words on fresh tasks too."""
    frames = {frame: known for frame, known in sampled(offers, pages).items() if frame in offers.free[form]}
    actions = {frame: [(page, fill(form, [strange(rng)])) for page in known] for frame, known in frames.items()}
    return tuple(
        frame for frame, tries in actions.items() if all(changes(lab, page.state, action) for page, action in tries)
    )


def _step_stands(
    lab: Lab, offers: PageOffers, rule: NeedsPage, pages: Iterable[PageSeen], trials: TrialCounts
) -> bool:
    """Try a step on the pages of its frame."""
    for page in pages:
        after = lab.after(page.state, fill(rule.form, [rule.step]))
        passed = not after.over and rule.name in offers.names(rule.form, offers.read(after.observation))
        trials.count(rule.text, page.task_id, "" if passed else f"{page.task_id}: {fill(rule.form, [rule.name])}")
    evidence = trials.of(rule.text)
    return evidence.support >= MIN_TESTS // 2 and not evidence.refuted


def _beside_stands(
    lab: Lab, offers: PageOffers, rule: NamedBeside, pages: Iterable[PageSeen], trials: TrialCounts
) -> bool:
    """Try on pages whether names beside parts lead to what these tell of."""
    for page in pages:
        for shift, region, led in leads(lab, offers, rule.form, page):
            if shift == rule.shift and region in rule.regions:
                trials.count(rule.text, page.task_id, "" if led else f"{page.task_id}: {page.parts[0]}")
    evidence = trials.of(rule.text)
    return evidence.support >= MIN_TESTS and evidence.precision >= MIN_BESIDE


# ---------------------------------------------------------------- the probe's analysis of silent pages

LOOKED_AT = 5
"""Episodes examined to detect pages."""

REPLAYED = 80
"""States examined from the agents' episodes."""


def is_silent(lab: Lab, failed: Sequence[Trajectory]) -> bool:
    """Check if the engine shows pages with all offers and answered many actions with the same page.

    The states after other first actions are examined too, since an agent may never leave the first text.
    """
    if not is_often_silent(failed) or not lab.offered(lab.start(failed[0].task_id)).templates:
        return False
    if not shows_pages(lab, replay_states(lab, failed[:LOOKED_AT])):
        return False
    tasks = dict.fromkeys(trajectory.task_id for trajectory in failed[:LOOKED_AT])
    second = [state for task_id in tasks for state in one_step_on(lab, task_id)]
    return not second or shows_pages(lab, second)


def analyze(
    lab: Lab,
    failed: Sequence[Trajectory],
    before: RuleSet | None,
    fresh: Sequence[str],
    rng: random.Random,
    say: Callable[[str], None],
) -> list[Misalignment]:
    """Learn from walks through failed tasks beyond `before`, and verify on fresh tasks.

    Earlier results are not tested again. Empty if the nameable parts could not be verified.
    """
    tasks = list(dict.fromkeys(trajectory.task_id for trajectory in failed))
    untouched = [task_id for task_id in fresh if task_id not in tasks]
    learned_from, kept_back = [*tasks, *untouched[::2]], untouched[1::2]
    offers, walks = _surveyed(lab, failed, learned_from, rng, say)
    offers = offers.model_copy(update={"frame": tuple(frame_texts(walks.pages))})
    free = {form: tuple(free_frames(lab, offers, form, walks.pages, rng)) for form in offers.free}
    closed = {form: learn_named(offers, form, walks.pages) for form in offers.closed}
    any_case = takes_any_case(lab, walks.pages)
    offers = offers.model_copy(update={"free": free, "closed": closed, "any_case": any_case})
    steps, beside = learn_steps(lab, offers, walks.pages), learn_beside(lab, offers, walks.pages)
    say(f"{len(walks.pages)} pages tried out ({lab.steps} engine steps so far)")
    tests, trials = WalkRecord(), TrialCounts()
    with suppress(BudgetSpentError):
        for number, task_id in enumerate(kept_back, 1):
            tour(lab, offers, task_id, tests, rng)
            say(f"testing on fresh tasks: {number} of {len(kept_back)}")
    offers = verify_offers(lab, offers, tests.pages, trials, rng)
    frames = sampled(offers, tests.pages)
    every = [page for pages in frames.values() for page in pages]
    steps = [rule for rule in steps if _step_stands(lab, offers, rule, frames.get(rule.page, ()), trials)]
    beside = [rule for rule in beside if _beside_stands(lab, offers, rule, every, trials)]
    say(f"{len(tests.pages)} pages of fresh tasks tried out ({lab.steps} engine steps so far)")
    if before is None and not (offers.closed and stands(trials.of(NAMES))):
        return []
    known = {rule.text for rule in before.rules} if before is not None else set()
    learned: list[NamedBeside | NeedsPage] = [*beside, *steps]
    new = [rule for rule in learned if rule.text not in known]
    first = [_about_names(offers, failed, trials)] if before is None else []
    return [*first, *(_about_rule(rule, failed[0].task_id, trials) for rule in new)]


def _surveyed(
    lab: Lab, failed: Sequence[Trajectory], tasks: Sequence[str], rng: random.Random, say: Callable[[str], None]
) -> tuple[PageOffers, WalkRecord]:
    """Learn separators and forms, and try the pages of walks through the tasks."""
    states = list(replay_states(lab, failed))
    states = rng.sample(states, min(REPLAYED, len(states)))
    free, closed = forms_by_kind(lab, states, rng)
    offered = [name.lower() for state in states for name in {*lab.offered(state).names}]
    offers = PageOffers(
        breaks=tuple(breaks_between(lab, states)),
        free=dict.fromkeys(free, ()),
        closed=dict.fromkeys(closed, NamedParts()),
        frame=tuple(sorted(name for name in {*offered} if offered.count(name) >= len(tasks) / 2)[:MOST_FRAME]),
    )
    walks = WalkRecord()
    for state in states:
        keep(lab, offers, state, walks)
    for number, task_id in enumerate(tasks, 1):
        tour(lab, offers, task_id, walks, rng)
        say(f"walking through pages: task {number} of {len(tasks)}")
    return offers, walks


# ---------------------------------------------------------------- what is reported

SILENCE_IN_WORDS = "An action that is not understood is answered with the page as it was, and with no word"
"""First rule."""


def _about_names(offers: PageOffers, failed: Sequence[Trajectory], trials: TrialCounts) -> Misalignment:
    """Report the first finding: silent refusals, and nameable parts by page."""
    task_id, action = find_silenced(failed)[0]
    free = [f"{form_in_words(form)} takes any words, in this form" for form in offers.free]
    alone = "takes only what stands alone on the page, as it is written there"
    closed = [f"{form_in_words(form)} {alone}" for form in offers.closed]
    return Misalignment(
        task_id=task_id,
        action_type="any action that is not understood",
        action=action,
        intent="learn what came of the action",
        rule=f"{SILENCE_IN_WORDS}; {'; '.join([*free, *closed])}",
        sufficient_feedback="say that the action did nothing, and what is near it that is possible on this page",
        evidence=trials.of(NAMES),
        detail=json.dumps({"ruleset": dump(RuleSet(pages=offers))}),
    )


def _about_rule(rule: NamedBeside | NeedsPage, task_id: str, trials: TrialCounts) -> Misalignment:
    """Report a part named by another part, or a name a step away on another page."""
    kind, action, intent = form_in_words(rule.form), rule.form, "come to what the part tells of"
    feedback = "name the part that leads there"
    if isinstance(rule, NeedsPage):
        action = fill(rule.form, [rule.name])
        intent, feedback = f"`{action}` at once", f"you need to `{fill(rule.form, [rule.step])}` first"
    else:
        kind += " with a part that cannot be named"
    return Misalignment(
        task_id=task_id,
        action_type=kind,
        action=action,
        intent=intent,
        rule=rule.text,
        sufficient_feedback=feedback,
        evidence=trials.of(rule.text),
        detail=json.dumps({"ruleset": dump(RuleSet(rules=(rule,)))}),
    )
