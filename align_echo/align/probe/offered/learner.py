"""The probe's analysis on offered vocabulary: from failures to misalignments, and from misalignments to an interface.

Like the other learner it keeps no state between iterations: what was learned before is read back from the interface.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from align_echo.align.probe.findings import WRONG
from align_echo.align.probe.lab import Lab
from align_echo.align.probe.offered import runtime
from align_echo.align.probe.offered.emit import BARE_IN_WORDS, form_in_words, reach_in_words, sure_in_words
from align_echo.align.probe.offered.survey import Survey, often, survey_task
from align_echo.align.probe.offered.trials import BARE, REACH, SURE, try_bare_names, try_on_fresh
from align_echo.align.probe.offered.wording import MiswordedForm, learn_forms, lifted, lifted_sayings, refused_sayings
from align_echo.align.probe.trials import Trials
from align_echo.types import Evidence, Misalignment, Trajectory

Spec = dict[str, Any]

EMPTY: Spec = {
    **{part: [] for part in ("uninformative", "templates", "always", "sure", "views", "places", "movers")},
    **{part: [] for part in ("names", "before", "after")},
    "forms": {},
    "travel": "",
    "bare": False,
}
"""What is known before anything was learned."""

MIN_ACTIONS = 5
MIN_KINDS = 2
MIN_TESTS = 3
MIN_PRECISION = 0.9
MIN_SURE = 20
"""So often, and never refused, a template must have been taken with names at hand to be promised with any."""

MIN_DONE = 2
"""A form's rewriting must have done something in so many cases of tasks that it was not learned from."""
THOROUGH_TASKS = 2
"""Tasks whose start is searched with every template; the others are toured by the way of travelling that was found."""

SEARCHED_TASKS = 5
"""As many tasks are searched with every template while no way of travelling is found."""

SURVEYED_TASKS = 8
FRESH_TASKS = 12


def uninformative(trajectories: Sequence[Trajectory]) -> list[str]:
    """Answers that the engine gave to many different actions with different first words. What ends an episode refuses
    nothing."""
    actions: dict[str, set[str]] = defaultdict(set)
    for trajectory in trajectories:
        for step in trajectory.steps:
            if step.action and step.raw_observation is not None and not step.terminated:
                actions[step.raw_observation.strip()].add(step.action)
    return sorted(
        text
        for text, known in actions.items()
        if len(known) >= MIN_ACTIONS and len({action.split()[0] for action in known if action.split()}) >= MIN_KINDS
    )


def silent_on_names(answers: Iterable[str], survey: Survey) -> list[str]:
    """Those of the answers that name nothing: an answer that names a thing or a place tells something."""
    return [text for text in answers if not lifted(survey.names | survey.places, text)[1]]


def analyze(
    lab: Lab,
    failed: Sequence[Trajectory],
    before: Spec | None,
    fresh: Sequence[str],
    rng: random.Random,
    say: Callable[[str], None],
) -> list[Misalignment]:
    """What the failures teach beyond `before`, proved on fresh tasks. Empty if no answer is uninformative."""
    answers = sorted({*uninformative(failed), *(before["uninformative"] if before else ())})
    if not answers:
        return []
    tasks = list(dict.fromkeys(trajectory.task_id for trajectory in failed))
    survey = _surveyed(lab, answers, tasks, rng, say)
    survey.uninformative = silent_on_names(answers, survey)
    if not survey.uninformative:
        return []
    surveyed = frozenset(survey.names)
    refused = refused_sayings(lab, survey, failed)
    sayings = lifted_sayings(lab, survey, refused)
    spec = _merged(before, survey)
    count = len({saying.form for saying in sayings})
    say(f"{len(sayings)} refused sayings, {count} forms ({lab.steps} engine steps so far)")
    forms = learn_forms(lab, survey, sayings, spec["forms"])
    candidate = {**spec, "forms": {**spec["forms"], **{form: misworded.reading for form, misworded in forms.items()}}}
    untouched = [task_id for task_id in fresh if task_id not in tasks][:FRESH_TASKS]
    trials = try_on_fresh(lab, survey, candidate, untouched, rng)
    spec = {**spec, "always": _always(before, survey)}
    elsewhere = [refusal for refusal in refused if refusal[0].task_id not in survey.tasks]
    try_bare_names(lab, survey, {**spec, "names": sorted(surveyed)}, elsewhere, trials)
    say(f"{len(untouched)} fresh tasks played ({lab.steps} engine steps so far)")
    return [
        *_about_refusals(before, spec, failed),
        *_about_reach(before, spec, trials),
        *_about_bare_names(before, trials),
        *_about_sure(before, spec, trials),
        *_about_forms(forms, trials),
        *_about_wrong_forms(spec, trials),
    ]


def _surveyed(
    lab: Lab, answers: Sequence[str], tasks: Sequence[str], rng: random.Random, say: Callable[[str], None]
) -> Survey:
    survey = Survey(uninformative=answers)
    lab.traceless = frozenset(answers)
    chosen = rng.sample(tasks, min(SURVEYED_TASKS, len(tasks)))
    for number, task_id in enumerate(chosen):
        thorough = number < THOROUGH_TASKS or (number < SEARCHED_TASKS and not survey.travel())
        survey_task(lab, survey, task_id, rng, thorough=thorough)
        say(f"learning what can be said and where one can go: task {number + 1} of {len(chosen)}")
    return survey


def _merged(before: Spec | None, survey: Survey) -> Spec:
    """The vocabulary that was found, and the forms that were learned before."""
    old: Spec = {**EMPTY, **(before or {})}
    travel = survey.travel() or old["travel"]
    return {
        "uninformative": sorted({*old["uninformative"], *survey.uninformative}),
        "templates": sorted({*old["templates"], *survey.templates}),
        "always": _always(before, survey),
        "sure": old["sure"],
        "forms": old["forms"],
        "views": survey.looks() or old["views"],
        "places": sorted({*old["places"], *survey.places}),
        "travel": travel,
        "movers": sorted({*old["movers"], *survey.movers()}),
        "names": sorted({*old["names"], *survey.names}),
        "before": sorted({*old["before"], *often(survey.before)}),
        "after": sorted({*old["after"], *often(survey.after)}),
        "bare": old["bare"],
    }


def _always(before: Spec | None, survey: Survey) -> list[str]:
    """The templates that every task offered, in this iteration and before it."""
    return [template for template in survey.always() if before is None or template in before["always"]]


def resolved(spec: Spec | None, detail: Spec) -> Spec:
    """A spec with one misalignment's detail worked in."""
    if "offered" in detail:
        old = spec or EMPTY
        return {**detail["offered"], **{part: old[part] for part in ("forms", "travel", "bare", "sure")}}
    assert spec is not None, "the vocabulary comes first"
    if not detail.keys().isdisjoint(("travel", "bare", "sure")):
        return {**spec, **detail}
    forms = {form: template for form, template in spec["forms"].items() if form != detail["form"]}
    return {**spec, "forms": {**forms, detail["form"]: detail["template"]} if detail["template"] else forms}


# ---------------------------------------------------------------- findings


def _about_refusals(before: Spec | None, spec: Spec, failed: Sequence[Trajectory]) -> Iterable[Misalignment]:
    """The first finding: one answer for many different refusals, and the forms that the engine offers."""
    part = ("uninformative", "templates", "always", "views", "places", "movers")
    if before is not None and all(before[name] == spec[name] for name in part):
        return
    refused = [
        (trajectory.task_id, step.action)
        for trajectory in failed
        for step in trajectory.steps
        if step.action and (step.raw_observation or "").strip() in spec["uninformative"]
    ]
    task_id, action = refused[0] if refused else (failed[0].task_id, "")
    yield Misalignment(
        task_id=task_id,
        action_type="any refused action",
        action=action,
        intent="learn what came of the action",
        rule=f'"{" / ".join(spec["uninformative"])}" answers refused actions of every kind alike '
        f"({len(spec['templates'])} forms are offered, {len(spec['places'])} places were found)",
        sufficient_feedback="say why the action was refused and what to do first",
        evidence=Evidence(support=len({action for _, action in refused}), tasks=len({task for task, _ in refused})),
        detail=json.dumps({"offered": spec}),
    )


def _about_reach(before: Spec | None, spec: Spec, trials: Trials) -> Iterable[Misalignment]:
    """A refused action whose thing is elsewhere, if the way there made it possible."""
    evidence = trials.of(REACH)
    if not stands(evidence) or (before is not None and before["travel"] == spec["travel"]):
        return
    task_id, action = trials.example[REACH]
    yield Misalignment(
        task_id=task_id,
        action_type="an action on a thing that is elsewhere",
        action=action,
        intent=f"`{action}` at once",
        rule=reach_in_words(spec["travel"]),
        sufficient_feedback=f"you need to `{runtime.fill(spec['travel'], ['<place>'])}` first",
        evidence=evidence,
        detail=json.dumps({"travel": spec["travel"]}),
    )


def _about_bare_names(before: Spec | None, trials: Trials) -> Iterable[Misalignment]:
    """Names with further words around them, if they were understood without."""
    evidence = trials.of(BARE)
    if not stands(evidence) or (before is not None and before["bare"]):
        return
    task_id, action = trials.example[BARE]
    yield Misalignment(
        task_id=task_id,
        action_type="an action with further words around a name",
        action=action,
        intent=f"`{action}`",
        rule=BARE_IN_WORDS,
        sufficient_feedback="name the action with the bare name",
        evidence=evidence,
        detail=json.dumps({"bare": True}),
    )


def _about_sure(before: Spec | None, spec: Spec, trials: Trials) -> Iterable[Misalignment]:
    """Templates that took every name at hand: the same template with the bare name may be promised."""
    evidence = {template: trials.of(SURE + template) for template in spec["always"]}
    proved = [form for form, seen in evidence.items() if seen.support >= MIN_SURE and not seen.refuted]
    old = before["sure"] if before is not None else []
    sure = sorted({*proved, *(form for form in old if form in evidence and not evidence[form].refuted)})
    if sure == old:
        return
    known = [trials.example[SURE + form] for form in [*sure, *old] if SURE + form in trials.example]
    task_id, action = known[0] if known else ("", runtime.letters((sure or old)[0]))
    yield Misalignment(
        task_id=task_id,
        action_type="an action on a thing in sight, with further words around its name",
        action=action,
        intent=f"`{action}`",
        rule=sure_in_words(sure) if sure else f"{WRONG}{sure_in_words(old)}",
        sufficient_feedback="name the action with the bare name, which is understood",
        evidence=Evidence(
            support=sum(evidence[form].support for form in sure),
            refuted=sum(trials.refuted[SURE + form] for form in old),
            tasks=max((evidence[form].tasks for form in sure), default=0),
        ),
        detail=json.dumps({"sure": sure}),
    )


def _about_forms(forms: dict[str, MiswordedForm], trials: Trials) -> Iterable[Misalignment]:
    """Misworded forms whose rewriting did something in other tasks of the agent, and was understood in fresh ones."""
    for form, misworded in sorted(forms.items()):
        understood = trials.of(form)
        tested = misworded.tested
        if not stands(understood) or tested.support < MIN_DONE or tested.precision < MIN_PRECISION:
            continue
        yield Misalignment(
            task_id=misworded.example.state.task_id,
            action_type=form,
            action=misworded.example.action,
            intent=f"do `{misworded.reading}`",
            rule=form_in_words(form, misworded.reading),
            sufficient_feedback=f"name the form that is understood: `{misworded.reading}`",
            evidence=Evidence(
                support=tested.support + understood.support,
                refuted=tested.refuted + understood.refuted,
                tasks=tested.tasks + understood.tasks,
                counterexample=understood.counterexample,
            ),
            detail=json.dumps({"form": form, "template": misworded.reading}),
        )


def _about_wrong_forms(spec: Spec, trials: Trials) -> Iterable[Misalignment]:
    """Forms of the present interface that fresh tasks refuted."""
    for form, template in sorted(spec["forms"].items()):
        evidence = trials.of(form)
        if evidence.refuted >= MIN_TESTS and evidence.precision < MIN_PRECISION:
            yield Misalignment(
                task_id=evidence.counterexample.split(": ")[0],
                action_type=form,
                action=evidence.counterexample.split(": ")[1],
                intent="follow the interface's rewriting",
                rule=f"{WRONG}{form_in_words(form, template)}",
                sufficient_feedback="leave the rewriting out",
                kind="bug-of-current",
                evidence=evidence,
                detail=json.dumps({"form": form, "template": ""}),
            )


def stands(evidence: Evidence) -> bool:
    """Whether a claim held often enough on fresh tasks."""
    return evidence.support >= MIN_TESTS and evidence.precision >= MIN_PRECISION
