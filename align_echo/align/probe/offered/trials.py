"""What was learned, on trial: on tasks it was not learned from, by doing what the interface would advise.

Two claims are tested. Reach: an action that is refused here because its thing is elsewhere is understood after the
advised way. Forms: a misworded action is refused, and its rewriting is understood. Trials run `runtime.py`, the code
that advises.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from align_echo.align.probe.lab import Lab, State
from align_echo.align.probe.offered import runtime
from align_echo.align.probe.offered.survey import Survey, names_in, survey_task, view_texts
from align_echo.types import Evidence

TRIALS_PER_TASK = 4
NAMES_TRIED = 12


@dataclass
class Verdicts:
    """Counts by claim ("" is reach, else a form): for, against, tasks, one that was against, one that was for."""

    support: Counter[str] = field(default_factory=Counter)
    refuted: Counter[str] = field(default_factory=Counter)
    tasks: dict[str, set[str]] = field(default_factory=dict)
    against: dict[str, str] = field(default_factory=dict)
    example: dict[str, tuple[str, str]] = field(default_factory=dict)

    def count(self, claim: str, task_id: str, action: str, *, held: bool) -> None:
        """Add one trial."""
        self.tasks.setdefault(claim, set()).add(task_id)
        if held:
            self.support[claim] += 1
            self.example.setdefault(claim, (task_id, action))
        else:
            self.refuted[claim] += 1
            self.against.setdefault(claim, f"{task_id}: {action}")

    def of(self, claim: str) -> Evidence:
        """The evidence of a claim."""
        return Evidence(
            support=self.support[claim],
            refuted=self.refuted[claim],
            tasks=len(self.tasks.get(claim, ())),
            counterexample=self.against.get(claim, ""),
        )


def try_on_fresh(
    lab: Lab, survey: Survey, spec: dict[str, Any], tasks: Sequence[str], rng: random.Random
) -> Verdicts:
    """Trials of every claim of a spec on fresh tasks."""
    verdicts = Verdicts()
    for task_id in tasks:
        states = survey_task(lab, survey, task_id, rng, thorough=False)
        if len(states) > 1 and spec["travel"]:
            for _ in range(TRIALS_PER_TASK):
                first, other = rng.sample(states, 2)
                _try_reach(lab, survey, spec, first, other, rng, verdicts)
        for form, reading in sorted(spec["forms"].items()):
            for _ in range(TRIALS_PER_TASK // 2):
                _try_form(lab, survey, form, reading, rng.choice(states), rng, verdicts)
    return verdicts


def _try_reach(
    lab: Lab, survey: Survey, spec: dict[str, Any], first: State, other: State, rng: random.Random, verdicts: Verdicts
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
        if runtime.last_seen(history, name) and not runtime.at_hand(history, name) and name not in survey.places
    ]
    templates = [one for one in sorted(survey.templates) if one.count("{") == 1 and one not in survey.movers()]
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
        verdicts.count("", away.task_id, action, held=held)
        return


def _place_of(lab: Lab, spec: dict[str, Any], state: State) -> str:
    return runtime.place_in(spec, lab.look(state, spec["views"][0]))


def _try_form(
    lab: Lab, survey: Survey, form: str, reading: str, state: State, rng: random.Random, verdicts: Verdicts
) -> None:
    """Say a form with things at hand for which its rewriting does something; the form itself must be refused."""
    history = runtime.new_history()
    runtime.watch({"places": sorted(survey.places)}, history, view_texts(lab, state, survey.looks()))
    offers = sorted(names_in(lab, state) - survey.places)
    names = [name for name in offers if runtime.at_hand(history, name)]
    arity = form.count("{")
    for _ in range(NAMES_TRIED):
        if len(names) < arity:
            return
        chosen = rng.sample(names, arity)
        said, wanted = runtime.fill(form, chosen), runtime.fill(reading, chosen)
        after = lab.after(state, wanted)
        if after.over:
            continue
        if survey.refused(lab.after(state, said)):
            verdicts.count(form, state.task_id, said, held=not survey.refused(after))
            return
