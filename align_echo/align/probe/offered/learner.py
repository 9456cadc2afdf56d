"""Probe for offered vocabulary: misalignments from failures, and an interface from misalignments.

It keeps no state between iterations; earlier results are read from the interface.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from align_echo.align.budget import BudgetSpentError
from align_echo.align.probe.emit import assemble_source
from align_echo.align.probe.examinations import TrialCounts
from align_echo.align.probe.findings import WRONG
from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.offered import runtime
from align_echo.align.probe.offered.survey import (
    MiswordedForm,
    VocabularySurvey,
    compare_views,
    learn_forms,
    lift_names,
    lifted_sayings,
    names_in,
    often,
    refused_sayings,
    survey_task,
    view_texts,
)
from align_echo.interface.contract import InterfaceContract
from align_echo.types import Evidence, Misalignment, Trajectory

# ---------------------------------------------------------------- what was learned, on trial

REACH, BARE, SURE = "reach", "bare names", "takes what is in sight: "
TRIALS_PER_TASK = 4
NAMES_TRIED = 12
SURE_STATES = 2
SURE_NAMES = 3
"""States per task, and names per state, for trying a template."""

HINTS = 3
"""Maximum consecutive hints that shorten a name."""


def try_on_fresh(
    lab: Lab, survey: VocabularySurvey, spec: dict[str, Any], tasks: Sequence[str], rng: random.Random
) -> TrialCounts:
    """Test every claim of a spec on fresh tasks, up to the end of the budget."""
    trials = TrialCounts()
    with suppress(BudgetSpentError):
        _try_tasks(lab, survey, spec, tasks, rng, trials)
    return trials


def _try_tasks(
    lab: Lab,
    survey: VocabularySurvey,
    spec: dict[str, Any],
    tasks: Sequence[str],
    rng: random.Random,
    trials: TrialCounts,
) -> None:
    for task_id in tasks:
        states = survey_task(lab, survey, task_id, rng, thorough=False)
        if len(states) > 1 and spec["travel"]:
            for _ in range(TRIALS_PER_TASK):
                first, second = rng.sample(states, 2)
                _try_reach(lab, survey, spec, first, second, rng, trials)
        for form in sorted(spec["forms"]):
            for _ in range(TRIALS_PER_TASK // 2):
                _try_form(lab, survey, spec, form, rng.choice(states), rng, trials)
        for state in rng.sample(states, min(SURE_STATES, len(states))):
            _try_sure(lab, survey, spec, state, rng, trials)


def _count(trials: TrialCounts, claim: str, task_id: str, action: str, *, passed: bool) -> None:
    """Add a trial of a claim (`REACH`, `BARE`, or a form) and store the first success and failure."""
    if passed:
        trials.example.setdefault(claim, (task_id, action))
    trials.count(claim, task_id, "" if passed else trials.counterexample.get(claim, f"{task_id}: {action}"))


def _try_reach(
    lab: Lab,
    survey: VocabularySurvey,
    spec: dict[str, Any],
    first: LabState,
    second: LabState,
    rng: random.Random,
    trials: TrialCounts,
) -> None:
    """See an object in a place, go elsewhere, and repeat an action understood in the first place."""
    history = runtime.new_history()
    runtime.watch(spec, history, view_texts(lab, first, spec["views"]))
    away = lab.after(first, runtime.fill(spec["travel"], [_current_place(lab, spec, second)]))
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
        result = lab.after(first, action)
        if survey.refused(result) or result.over or not survey.refused(lab.after(away, action)):
            continue
        step = runtime.missing_step(spec, history, template, [name])
        back = lab.after(away, step) if step else away
        passed = not back.over and not survey.refused(lab.after(back, action))
        _count(trials, REACH, away.task_id, action, passed=passed)
        return


def _current_place(lab: Lab, spec: dict[str, Any], state: LabState) -> str:
    """Return the name of a state's place."""
    return runtime.place_in(spec, lab.look(state, spec["views"][0]))


def _try_form(
    lab: Lab,
    survey: VocabularySurvey,
    spec: dict[str, Any],
    form: str,
    state: LabState,
    rng: random.Random,
    trials: TrialCounts,
) -> None:
    """Say a form with things at hand (or places for movement); the form itself must be refused."""
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
            _count(trials, form, state.task_id, misworded, passed=not survey.refused(after))
            return


def _try_sure(
    lab: Lab, survey: VocabularySurvey, spec: dict[str, Any], state: LabState, rng: random.Random, trials: TrialCounts
) -> None:
    """Try templates with names at hand; a single refusal disqualifies a template.

    Like readings, tries without a visible effect are not undone; refusals count only in the state itself.
    """
    history = runtime.new_history()
    runtime.watch(spec, history, view_texts(lab, state, spec["views"]))
    objects = [name for name in spec["names"] if name not in spec["places"]]
    names = [name for name in objects if runtime.at_hand(spec, history, name)]
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
            _count(trials, SURE + template, state.task_id, action, passed=not survey.refused(after))
            if not survey.refused(after):
                changed = after.over or runtime.asks(after.observation) or compare_views(lab, survey, current, after)
                current = state if changed else after


def try_bare_names(
    lab: Lab,
    survey: VocabularySurvey,
    spec: dict[str, Any],
    refused: Sequence[tuple[LabState, str]],
    trials: TrialCounts,
) -> None:
    """Compare known names with utterances in tasks without learned names."""
    counts: Counter[tuple[str, str]] = Counter()
    for state, action in refused:
        text = " ".join(action.lower().split())
        history = runtime.new_history()
        runtime.watch(spec, history, view_texts(lab, state, spec["views"]))
        match = runtime.understood({**spec, "forms": {}}, history, text)
        if match is None or match[0] in spec["movers"] or len(lift_names(spec["names"], text)[1]) > len(match[1]):
            continue
        names = [runtime.bare(spec, history, name) or name for name in match[1]]
        wanted = runtime.fill(match[0], names)
        counts[state.task_id, wanted] += 1
        if wanted == text or counts[state.task_id, wanted] > 1:
            continue
        if all(runtime.at_hand(spec, history, name) for name in names):
            passed = _leads_on(lab, survey, spec, history, state, match[0], names)
            _count(trials, BARE, state.task_id, text, passed=passed)


def _leads_on(
    lab: Lab,
    survey: VocabularySurvey,
    spec: dict[str, Any],
    history: dict[str, Any],
    state: LabState,
    form: str,
    names: list[str],
) -> bool:
    """Check if an action with these names, or with ever shorter ones, is understood, as the advice would continue."""
    for _ in range(HINTS):
        if not survey.refused(lab.after(state, runtime.fill(form, names))):
            return True
        shorter = [runtime.bare(spec, history, name) or name for name in names]
        if shorter == names:
            return False
        names = shorter
    return False


# ---------------------------------------------------------------- write the interface's source


def form_in_words(form: str, template: str) -> str:
    """Write a misworded form as a sentence."""
    return f"Write `{runtime.letters(template)}` instead of `{runtime.letters(form)}`"


def reach_in_words(travel: str) -> str:
    """Write the rule about things in other places."""
    way = runtime.fill(travel, ["the place where it was seen"])
    return f"An action is refused when a thing it names is not in sight here: `{way}` first"


BARE_IN_WORDS = "A thing is named by the words that the engine has for it, without any others around them"
"""Rule about names with extra words."""


def sure_in_words(templates: list[str]) -> str:
    """Write the rule about forms accepting any name at hand."""
    return "Whatever is in sight can be named in " + runtime.listed(templates)


def rules_text(spec: dict[str, Any]) -> str:
    """Write the rules text of `InferRules`."""
    lines = ["Learned by experiment in this environment:"]
    lines.append("- These forms are understood: " + runtime.listed(spec["always"]))
    rare = [template for template in spec["templates"] if template not in spec["always"]]
    if rare:
        lines.append("- Some tasks understand these too: " + runtime.listed(rare))
    if spec["sure"]:
        lines.append(f"- {sure_in_words(spec['sure'])}")
    for text in spec["uninformative"]:
        lines.append(f'- "{text}" means that the action was refused; it does not say why')
    lines += [f"- {form_in_words(form, template)}" for form, template in sorted(spec["forms"].items())]
    if spec["travel"]:
        lines.append(f"- {reach_in_words(spec['travel'])}")
        lines.append("- Places: " + ", ".join(spec["places"]))
    if spec["bare"]:
        lines.append(f"- {BARE_IN_WORDS}")
    if spec["views"]:
        lines.append("- What is in sight: " + ", ".join(f"`{view}`" for view in spec["views"]))
    return "\n".join(lines)


def source(spec: dict[str, Any], contract: InterfaceContract) -> str:
    """Build the interface source under a contract."""
    layout = contract.layout
    first, task = contract.wrap_step_args[1:3]
    functions = f"""\
def InferRules({", ".join(contract.infer_rules_args)}):
    return {rules_text(spec)!r}


def WrapStep({", ".join(contract.wrap_step_args)}):
    if not hasattr(env, 'history'):
        env.history = new_history({first} + '\\n' + {task})
        watch(SPEC, env.history, [{layout.view} for view in SPEC['views']])
    {layout.call}
    seen, *rest = {layout.returned}
    read_text(env.history, seen)
    if seen.strip() in SPEC['uninformative']:
        advice = advise(SPEC, env.history, agent_action)
        return (seen + ' ' + advice).strip(), *rest
    if not asks(seen):
        watch(SPEC, env.history, [{layout.view} for view in SPEC['views']])
    return seen, *rest"""
    return assemble_source(spec, contract, runtime, functions)


# ---------------------------------------------------------------- the probe's analysis on offered vocabulary

Spec = dict[str, Any]

EMPTY: Spec = {
    **{part: [] for part in ("uninformative", "templates", "always", "sure", "views", "places", "movers")},
    **{part: [] for part in ("names", "before", "after")},
    "forms": {},
    "travel": "",
    "bare": False,
}
"""Spec before anything was learned."""

MIN_ACTIONS = 5
MIN_KINDS = 2
MIN_TESTS = 3
MIN_PRECISION = 0.9
MIN_SURE = 20
"""Accepted tries, without a refusal, before a template is promised for any name at hand."""

MIN_DONE = 2
"""Effects of a rewriting required in tasks it was not learned from."""
THOROUGH_TASKS = 2
"""Tasks whose start is searched with every template; others are toured by known routes."""

SEARCHED_TASKS = 5
"""Maximum tasks searched with every template until a route is found."""

SURVEYED_TASKS = 8
FRESH_TASKS = 12


def uninformative(trajectories: Sequence[Trajectory]) -> list[str]:
    """Find answers to many actions with different first words, except those ending an episode."""
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


def silent_on_names(answers: Iterable[str], survey: VocabularySurvey) -> list[str]:
    """Select answers without a name; naming an object or place is informative."""
    return [text for text in answers if not lift_names(survey.names | survey.places, text)[1]]


def analyze(
    lab: Lab,
    failed: Sequence[Trajectory],
    before: Spec | None,
    fresh: Sequence[str],
    rng: random.Random,
    say: Callable[[str], None],
) -> list[Misalignment]:
    """Learn from failures beyond `before` and verify on fresh tasks. Empty if all answers are informative."""
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
    other_tasks = [refusal for refusal in refused if refusal[0].task_id not in survey.tasks]
    with suppress(BudgetSpentError):
        try_bare_names(lab, survey, {**spec, "names": sorted(surveyed)}, other_tasks, trials)
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
) -> VocabularySurvey:
    survey = VocabularySurvey(uninformative=answers)
    lab.traceless = frozenset(answers)
    chosen = rng.sample(tasks, min(SURVEYED_TASKS, len(tasks)))
    for number, task_id in enumerate(chosen):
        thorough = number < THOROUGH_TASKS or (number < SEARCHED_TASKS and not survey.travel())
        survey_task(lab, survey, task_id, rng, thorough=thorough)
        say(f"learning what can be said and where one can go: task {number + 1} of {len(chosen)}")
    return survey


def _merged(before: Spec | None, survey: VocabularySurvey) -> Spec:
    """Merge the new vocabulary with earlier forms."""
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


def _always(before: Spec | None, survey: VocabularySurvey) -> list[str]:
    """List templates offered by every task so far."""
    return [template for template in survey.always() if before is None or template in before["always"]]


def apply_detail(spec: Spec | None, detail: Spec) -> Spec:
    """Apply a misalignment's detail to a spec."""
    if "offered" in detail:
        old = spec or EMPTY
        return {**detail["offered"], **{part: old[part] for part in ("forms", "travel", "bare", "sure")}}
    assert spec is not None, "the vocabulary comes first"
    if not detail.keys().isdisjoint(("travel", "bare", "sure")):
        return {**spec, **detail}
    forms = {form: template for form, template in spec["forms"].items() if form != detail["form"]}
    return {**spec, "forms": {**forms, detail["form"]: detail["template"]} if detail["template"] else forms}


# ---------------------------------------------------------------- what is reported


def _about_refusals(before: Spec | None, spec: Spec, failed: Sequence[Trajectory]) -> Iterable[Misalignment]:
    """Report the first finding: a single answer for different refusals, and the offered forms."""
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


def _about_reach(before: Spec | None, spec: Spec, trials: TrialCounts) -> Iterable[Misalignment]:
    """Report refused actions on distant objects, if travelling there made them possible."""
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


def _about_bare_names(before: Spec | None, trials: TrialCounts) -> Iterable[Misalignment]:
    """Report names with extra words, if understood without them."""
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


def _about_sure(before: Spec | None, spec: Spec, trials: TrialCounts) -> Iterable[Misalignment]:
    """Report templates that accepted every name at hand, to promise them with bare names."""
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


def _about_forms(forms: dict[str, MiswordedForm], trials: TrialCounts) -> Iterable[Misalignment]:
    """Report misworded forms with effective rewritings in other tasks and understood in fresh ones."""
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


def _about_wrong_forms(spec: Spec, trials: TrialCounts) -> Iterable[Misalignment]:
    """Report existing forms refuted by fresh tasks."""
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
    """Check if a claim held often enough on fresh tasks."""
    return evidence.support >= MIN_TESTS and evidence.precision >= MIN_PRECISION
