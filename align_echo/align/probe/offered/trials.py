"""What was learned, on trial: on tasks it was not learned from, by doing what the interface would advise.

Four claims are tested. Reach: an action that is refused here because its thing is elsewhere is understood after the
advised way. Forms: a misworded action is refused, and its rewriting is understood. Sure forms: a template takes every
name at hand. Bare names: what an agent said with further words around a name is understood without them. Trials run
`runtime.py`, the code that advises.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.offered import runtime
from align_echo.align.probe.offered.survey import Survey, compare_views, names_in, survey_task, view_texts
from align_echo.align.probe.offered.wording import lifted
from align_echo.align.probe.trials import Trials

REACH, BARE, SURE = "reach", "bare names", "takes what is in sight: "
TRIALS_PER_TASK = 4
NAMES_TRIED = 12
SURE_STATES = 2
SURE_NAMES = 3
"""States of each task, and names at hand in each, with which a template is tried."""

HINTS = 3
"""How many hints in a row may shorten a name."""


def try_on_fresh(
    lab: Lab, survey: Survey, spec: dict[str, Any], tasks: Sequence[str], rng: random.Random
) -> Trials:
    """Trials of every claim of a spec on fresh tasks."""
    trials = Trials()
    for task_id in tasks:
        states = survey_task(lab, survey, task_id, rng, thorough=False)
        if len(states) > 1 and spec["travel"]:
            for _ in range(TRIALS_PER_TASK):
                first, other = rng.sample(states, 2)
                _try_reach(lab, survey, spec, first, other, rng, trials)
        for form in sorted(spec["forms"]):
            for _ in range(TRIALS_PER_TASK // 2):
                _try_form(lab, survey, spec, form, rng.choice(states), rng, trials)
        for state in rng.sample(states, min(SURE_STATES, len(states))):
            _try_sure(lab, survey, spec, state, rng, trials)
    return trials


def _count(trials: Trials, claim: str, task_id: str, action: str, *, held: bool) -> None:
    """Add one trial of a claim (`REACH`, `BARE`, else a form). The first that held and the first that did not are kept.
    """
    if held:
        trials.example.setdefault(claim, (task_id, action))
    trials.count(claim, task_id, "" if held else trials.counterexample.get(claim, f"{task_id}: {action}"))


def _try_reach(
    lab: Lab,
    survey: Survey,
    spec: dict[str, Any],
    first: LabState,
    other: LabState,
    rng: random.Random,
    trials: Trials,
) -> None:
    """See a thing in one place, go to another, say something there that was understood in the first."""
    history = runtime.new_history()
    runtime.watch(spec, history, view_texts(lab, first, spec["views"]))
    away = lab.after(first, runtime.fill(spec["travel"], [_place_of(lab, spec, other)]))
    if away.over or survey.refused(away):
        return
    runtime.watch(spec, history, view_texts(lab, away, spec["views"]))
    names = [
        name
        for name in sorted(names_in(lab, first))
        if name not in survey.places
        and runtime.last_seen(spec, history, name)
        and not runtime.at_hand(spec, history, name)
    ]
    templates = [
        template
        for template in sorted(survey.templates)
        if template.count("{") == 1 and template not in survey.movers()
    ]
    for _ in range(NAMES_TRIED):
        if not names or not templates:
            return
        template, name = rng.choice(templates), rng.choice(names)
        action = runtime.fill(template, [name])
        there = lab.after(first, action)
        if survey.refused(there) or there.over or not survey.refused(lab.after(away, action)):
            continue
        step = runtime.missing_step(spec, history, template, [name])
        back = lab.after(away, step) if step else away
        held = not back.over and not survey.refused(lab.after(back, action))
        _count(trials, REACH, away.task_id, action, held=held)
        return


def _place_of(lab: Lab, spec: dict[str, Any], state: LabState) -> str:
    return runtime.place_in(spec, lab.look(state, spec["views"][0]))


def _try_form(
    lab: Lab, survey: Survey, spec: dict[str, Any], form: str, state: LabState, rng: random.Random, trials: Trials
) -> None:
    """Say a form with things at hand (with places, where it is about going); the form itself must be refused."""
    history = runtime.new_history()
    runtime.watch(spec, history, view_texts(lab, state, spec["views"]))
    goes = spec["forms"][form] in spec["movers"]
    offers = sorted(survey.places if goes else names_in(lab, state) - survey.places)
    names = [name for name in offers if (name != history["place"] if goes else runtime.at_hand(spec, history, name))]
    arity = form.count("{")
    for _ in range(NAMES_TRIED):
        if len(names) < arity:
            return
        chosen = rng.sample(names, arity)
        misworded, wanted = runtime.fill(form, chosen), runtime.fill(spec["forms"][form], chosen)
        after = lab.after(state, wanted)
        if after.over:
            continue
        if survey.refused(lab.after(state, misworded)):
            _count(trials, form, state.task_id, misworded, held=not survey.refused(after))
            return


def _try_sure(
    lab: Lab, survey: Survey, spec: dict[str, Any], state: LabState, rng: random.Random, trials: Trials
) -> None:
    """Say templates with names at hand; what was refused once takes not every name, and is not tried again.

    As with readings, what changed no view is not undone; a refusal counts only in the state itself.
    """
    history = runtime.new_history()
    runtime.watch(spec, history, view_texts(lab, state, spec["views"]))
    things = [name for name in spec["names"] if name not in spec["places"]]
    names = [name for name in things if runtime.at_hand(spec, history, name)]
    current = state
    for template in survey.always():
        if template.count("{") != 1 or template in spec["movers"]:
            continue
        for name in rng.sample(names, min(SURE_NAMES, len(names))):
            if trials.refuted[SURE + template]:
                break
            action = runtime.fill(template, [name])
            after = lab.after(current, action)
            if survey.refused(after) and current is not state:
                after = lab.after(state, action)
            _count(trials, SURE + template, state.task_id, action, held=not survey.refused(after))
            if not survey.refused(after):
                changed = after.over or runtime.asks(after.observation) or compare_views(lab, survey, current, after)
                current = state if changed else after


def try_bare_names(
    lab: Lab, survey: Survey, spec: dict[str, Any], refused: Sequence[tuple[LabState, str]], trials: Trials
) -> None:
    """Hold the names that were met before against what agents said in tasks where no name was learned."""
    counts: Counter[tuple[str, str]] = Counter()
    for state, action in refused:
        text = " ".join(action.lower().split())
        history = runtime.new_history()
        runtime.watch(spec, history, view_texts(lab, state, spec["views"]))
        match = runtime.understood({**spec, "forms": {}}, history, text)
        if match is None or match[0] in spec["movers"] or len(lifted(spec["names"], text)[1]) > len(match[1]):
            continue
        names = [runtime.bare(spec, history, name) or name for name in match[1]]
        wanted = runtime.fill(match[0], names)
        counts[state.task_id, wanted] += 1
        if wanted == text or counts[state.task_id, wanted] > 1:
            continue
        if all(runtime.at_hand(spec, history, name) for name in names):
            held = _leads_on(lab, survey, spec, history, state, match[0], names)
            _count(trials, BARE, state.task_id, text, held=held)


def _leads_on(
    lab: Lab,
    survey: Survey,
    spec: dict[str, Any],
    history: dict[str, Any],
    state: LabState,
    form: str,
    names: list[str],
) -> bool:
    """Whether an action is understood with these names, or with ever fewer words of them: as the advice would go on."""
    for _ in range(HINTS):
        if not survey.refused(lab.after(state, runtime.fill(form, names))):
            return True
        shorter = [runtime.bare(spec, history, name) or name for name in names]
        if shorter == names:
            return False
        names = shorter
    return False
