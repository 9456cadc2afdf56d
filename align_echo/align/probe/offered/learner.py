"""Probe for offered vocabulary: misalignments from failures.

It keeps no state between iterations; earlier results are read from the interface.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from align_echo.align.budget import BudgetSpentError
from align_echo.align.probe.findings import WRONG, TrialCounts, report
from align_echo.align.probe.lab import Lab, LabState
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
from align_echo.interface.rules.actions import fill
from align_echo.interface.rules.model import BareNames, Elsewhere, InSight, Rule, RuleSet, SayInstead, misworded
from align_echo.interface.rules.place_guide import PlaceGuide
from align_echo.interface.rules.places import Surroundings, asks, letters, write_forms
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


@dataclass
class FreshTrials:
    """Trials of rules in tasks that they were not learned from."""

    lab: Lab
    survey: VocabularySurvey
    rules: RuleSet
    rng: random.Random
    counts: TrialCounts = field(default_factory=TrialCounts)

    def run(self, tasks: Sequence[str]) -> None:
        """Test every rule on fresh tasks."""
        for task_id in tasks:
            states = survey_task(self.lab, self.survey, task_id, self.rng, thorough=False)
            if len(states) > 1 and guide(self.rules).travel:
                for _ in range(TRIALS_PER_TASK):
                    self._try_reach(*self.rng.sample(states, 2))
            for form in sorted(guide(self.rules).wordings):
                for _ in range(TRIALS_PER_TASK // 2):
                    self._try_form(form, self.rng.choice(states))
            for state in self.rng.sample(states, min(SURE_STATES, len(states))):
                self._try_sure(state)

    def _count(self, claim: str, task_id: str, action: str, *, passed: bool) -> None:
        """Add a trial of a claim (`REACH`, `BARE`, or a form) and store the first success and failure."""
        if passed:
            self.counts.example.setdefault(claim, (task_id, action))
        wrong = self.counts.counterexample.get(claim, f"{task_id}: {action}")
        self.counts.count(claim, task_id, "" if passed else wrong)

    def _try_reach(self, first: LabState, second: LabState) -> None:
        """See an object in a place, go elsewhere, and repeat an action understood in the first place."""
        lab, survey, known = self.lab, self.survey, guide(self.rules, self.lab, first)
        place = known.known.place_in(lab.look(second, known.known.views[0]))
        away = lab.after(first, fill(known.travel, [place]))
        if away.over or survey.refused(away):
            return
        known.sight.watch(view_texts(lab, away, known.known.views))
        names = [
            name
            for name in sorted(names_in(lab, first))
            if name not in survey.places and known.sight.last_seen(name) and not known.sight.is_at_hand(name)
        ]
        single = (template for template in sorted(survey.templates) if template.count("{") == 1)
        templates = [template for template in single if template not in survey.movers()]
        for _ in range(NAMES_TRIED):
            if not names or not templates:
                return
            template, name = self.rng.choice(templates), self.rng.choice(names)
            action = fill(template, [name])
            result = lab.after(first, action)
            if survey.refused(result) or result.over or not survey.refused(lab.after(away, action)):
                continue
            step = known.missing_step(template, [name])
            back = lab.after(away, step) if step else away
            passed = not back.over and not survey.refused(lab.after(back, action))
            self._count(REACH, away.task_id, action, passed=passed)
            return

    def _try_form(self, form: str, state: LabState) -> None:
        """Say a form with things at hand (or places for movement); the form itself must be refused."""
        known = guide(self.rules, self.lab, state)
        reading = known.reading(form)
        goes = reading in known.known.movers
        offers = sorted(self.survey.places if goes else names_in(self.lab, state) - self.survey.places)
        names = [name for name in offers if (name != known.sight.place if goes else known.sight.is_at_hand(name))]
        arity = form.count("{")
        for _ in range(NAMES_TRIED):
            if len(names) < arity:
                return
            chosen = self.rng.sample(names, arity)
            wrong, after = fill(form, chosen), self.lab.after(state, fill(reading, chosen))
            if not after.over and self.survey.refused(self.lab.after(state, wrong)):
                self._count(form, state.task_id, wrong, passed=not self.survey.refused(after))
                return

    def _try_sure(self, state: LabState) -> None:
        """Try templates with names at hand; a single refusal disqualifies a template.

        Like readings, tries without a visible effect are not undone; refusals count only in the state itself.
        """
        lab, survey, known = self.lab, self.survey, guide(self.rules, self.lab, state)
        objects = [name for name in known.known.names if name not in known.known.places]
        names = [name for name in objects if known.sight.is_at_hand(name)]
        current = state
        for template in survey.always():
            if template.count("{") != 1 or template in known.known.movers:
                continue
            for name in self.rng.sample(names, min(SURE_NAMES, len(names))):
                if self.counts.refuted[SURE + template]:
                    break
                action = fill(template, [name])
                after = lab.after(current, action)
                if survey.refused(after) and current is not state:
                    after = lab.after(state, action)
                self._count(SURE + template, state.task_id, action, passed=not survey.refused(after))
                if not survey.refused(after):
                    changed = after.over or asks(after.observation) or compare_views(lab, survey, current, after)
                    current = state if changed else after

    def try_bare_names(self, rules: RuleSet, refused: Sequence[tuple[LabState, str]]) -> None:
        """Compare known names with utterances in tasks without learned names."""
        counts: Counter[tuple[str, str]] = Counter()
        for state, action in refused:
            text = " ".join(action.lower().split())
            known = guide(rules, self.lab, state)
            match = known.understood(text, exact=True)
            if match is None or match[0] in known.known.movers:
                continue
            if len(lift_names(known.known.names, text)[1]) > len(match[1]):
                continue
            names = [known.shorten(name) for name in match[1]]
            wanted = fill(match[0], names)
            counts[state.task_id, wanted] += 1
            if wanted == text or counts[state.task_id, wanted] > 1:
                continue
            if all(known.sight.is_at_hand(name) for name in names):
                self._count(BARE, state.task_id, text, passed=self._leads_on(known, state, match[0], names))

    def _leads_on(self, known: PlaceGuide, state: LabState, form: str, names: list[str]) -> bool:
        """Check if an action with these names, or with ever shorter ones, is understood, as the advice would continue.
        """
        for _ in range(HINTS):
            if not self.survey.refused(self.lab.after(state, fill(form, names))):
                return True
            shorter = [known.shorten(name) for name in names]
            if shorter == names:
                return False
            names = shorter
        return False


def guide(rules: RuleSet, lab: Lab | None = None, state: LabState | None = None) -> PlaceGuide:
    """Return a guide by these rules that has seen a state."""
    assert rules.places is not None
    guide = PlaceGuide(rules.places, rules)
    if lab is not None and state is not None:
        guide.sight.watch(view_texts(lab, state, rules.places.views))
    return guide


# ---------------------------------------------------------------- rules in words

REACH_IN_WORDS = "An action is refused when a thing it names is not in sight here: `{}` first"
BARE_IN_WORDS = "A thing is named by the words that the engine has for it, without any others around them"
"""Rules about things in other places, and about names with extra words."""


# ---------------------------------------------------------------- the probe's analysis on offered vocabulary

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


def analyze(
    lab: Lab,
    failed: Sequence[Trajectory],
    before: RuleSet | None,
    fresh: Sequence[str],
    rng: random.Random,
    say: Callable[[str], None],
) -> list[Misalignment]:
    """Learn from failures beyond `before` and verify on fresh tasks. Empty if all answers are informative."""
    old = before.places if before is not None else None
    answers = sorted({*uninformative(failed), *(old.refusals if old else ())})
    if not answers:
        return []
    tasks = list(dict.fromkeys(trajectory.task_id for trajectory in failed))
    survey = _surveyed(lab, answers, tasks, rng, say)
    # naming an object or place is informative
    survey.uninformative = [text for text in answers if not lift_names(survey.names | survey.places, text)[1]]
    if not survey.uninformative:
        return []
    surveyed = tuple(sorted(survey.names))
    refused = refused_sayings(lab, survey, failed)
    sayings = lifted_sayings(lab, survey, refused)
    places, travel = _merged(lab, old, survey), survey.travel()
    known = before.rules if before is not None else ()
    reach = REACH_IN_WORDS.format(fill(travel, ["the place where it was seen"]))
    moves = [Elsewhere(form=travel, text=reach)] if travel else []
    left = [rule for rule in known if not isinstance(rule, SayInstead) and not (moves and isinstance(rule, Elsewhere))]
    count = len({saying.form for saying in sayings})
    say(f"{len(sayings)} refused sayings, {count} forms ({lab.steps} engine steps so far)")
    wordings = {rule.form: rule for rule in known if isinstance(rule, SayInstead)}
    forms = learn_forms(lab, survey, sayings, wordings)
    wordings |= {form: misworded(form, learned.reading) for form, learned in forms.items()}
    untouched = [task_id for task_id in fresh if task_id not in tasks][:FRESH_TASKS]
    rules = RuleSet(places=places, rules=(*left, *moves, *wordings.values()))
    trials = FreshTrials(lab, survey, rules, rng)
    other_tasks = [refusal for refusal in refused if refusal[0].task_id not in survey.tasks]
    spoken = rules.model_copy(update={"places": places.model_copy(update={"names": surveyed})})
    for run in (partial(trials.run, untouched), partial(trials.try_bare_names, spoken, other_tasks)):
        with suppress(BudgetSpentError):
            run()
    counts = trials.counts
    say(f"{len(untouched)} fresh tasks played ({lab.steps} engine steps so far)")
    always = _always(old, survey)
    sometimes = tuple(form for form in places.forms if form not in always)
    places = places.model_copy(update={"always": always, "sometimes": sometimes})
    return [
        *_about_refusals(old, places, failed),
        *_about_reach(known, rules, counts),
        *_about_bare_names(known, counts),
        *_about_sure(known, always, counts),
        *_about_forms(forms, counts),
        *_about_wrong_forms([rule for rule in known if isinstance(rule, SayInstead)], counts),
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


def _merged(lab: Lab, before: Surroundings | None, survey: VocabularySurvey) -> Surroundings:
    """Merge the new vocabulary with an earlier one."""
    old = before or Surroundings(refusals=())
    views, always = tuple(survey.looks()) or old.views, _always(before, survey)
    starts = [lab.start(task_id) for task_id in sorted(survey.tasks)]
    return Surroundings(
        refusals=_joined(old.refusals, survey.uninformative),
        always=always,
        sometimes=tuple(sorted({*old.forms, *survey.templates} - {*always})),
        views=views,
        opening=bool(views) and all(lab.look(state, views[0]).strip() == state.observation.strip() for state in starts),
        places=_joined(old.places, survey.places),
        movers=_joined(old.movers, survey.movers()),
        before=_joined(old.before, often(survey.before)),
        after=_joined(old.after, often(survey.after)),
        names=_joined(old.names, survey.names),
    )


def _joined(old: Iterable[str], new: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*old, *new}))


def _always(before: Surroundings | None, survey: VocabularySurvey) -> tuple[str, ...]:
    """List templates offered by every task so far."""
    return tuple(template for template in survey.always() if before is None or template in before.always)


# ---------------------------------------------------------------- what is reported


def _about_refusals(
    before: Surroundings | None, places: Surroundings, failed: Sequence[Trajectory]
) -> Iterable[Misalignment]:
    """Report the first finding: a single answer for different refusals, and the offered forms."""
    parts = ("refusals", "forms", "always", "views", "places", "movers")
    if before is not None and all(getattr(before, part) == getattr(places, part) for part in parts):
        return
    refused = [
        (trajectory.task_id, step.action)
        for trajectory in failed
        for step in trajectory.steps
        if step.action and (step.raw_observation or "").strip() in places.refusals
    ]
    yield report(
        f'"{" / ".join(places.refusals)}" answers refused actions of every kind alike '
        f"({len(places.forms)} forms are offered, {len(places.places)} places were found)",
        refused[0] if refused else (failed[0].task_id, ""),
        Evidence(support=len({action for _, action in refused}), tasks=len({task for task, _ in refused})),
        RuleSet(places=places),
        kind="any refused action",
        intent="learn what came of the action",
        feedback="say why the action was refused and what to do first",
    )


def _about_reach(known: Sequence[Rule], rules: RuleSet, trials: TrialCounts) -> Iterable[Misalignment]:
    """Report refused actions on distant objects, if travelling there made them possible."""
    evidence = trials.of(REACH)
    for rule in rules.rules:
        if isinstance(rule, Elsewhere) and stands(evidence) and rule not in known:
            yield report(
                rule.text,
                trials.example[REACH],
                evidence,
                RuleSet(rules=(rule,)),
                kind="an action on a thing that is elsewhere",
                intent=f"`{trials.example[REACH][1]}` at once",
                feedback=f"you need to `{fill(rule.form, ['<place>'])}` first",
            )


def _about_bare_names(known: Sequence[Rule], trials: TrialCounts) -> Iterable[Misalignment]:
    """Report names with extra words, if understood without them."""
    evidence, rule = trials.of(BARE), BareNames(text=BARE_IN_WORDS)
    if stands(evidence) and rule not in known:
        yield report(
            rule.text,
            trials.example[BARE],
            evidence,
            RuleSet(rules=(rule,)),
            kind="an action with further words around a name",
            feedback="name the action with the bare name",
        )


def _about_sure(known: Sequence[Rule], always: Sequence[str], trials: TrialCounts) -> Iterable[Misalignment]:
    """Report templates that accepted every name at hand, to promise them with bare names."""
    evidence = {template: trials.of(SURE + template) for template in always}
    proved = [form for form, seen in evidence.items() if seen.support >= MIN_SURE and not seen.refuted]
    old = [form for rule in known if isinstance(rule, InSight) for form in rule.forms]
    sure = sorted({*proved, *(form for form in old if form in evidence and not evidence[form].refuted)})
    if sure == old:
        return
    examples = [trials.example[SURE + form] for form in [*sure, *old] if SURE + form in trials.example]
    text = f"Whatever is in sight can be named in {write_forms(sure or old)}"
    yield report(
        text if sure else f"{WRONG}{text}",
        examples[0] if examples else ("", letters((sure or old)[0])),
        Evidence(
            support=sum(evidence[form].support for form in sure),
            refuted=sum(trials.refuted[SURE + form] for form in old),
            tasks=max((evidence[form].tasks for form in sure), default=0),
        ),
        RuleSet(rules=(InSight(forms=tuple(sure), text=text),)) if sure else None,
        kind="an action on a thing in sight, with further words around its name",
        feedback="name the action with the bare name, which is understood",
        dropped=text,
    )


def _about_forms(forms: dict[str, MiswordedForm], trials: TrialCounts) -> Iterable[Misalignment]:
    """Report misworded forms with effective rewritings in other tasks and understood in fresh ones."""
    for form, learned in sorted(forms.items()):
        understood, tested = trials.of(form), learned.tested
        if not stands(understood) or tested.support < MIN_DONE or tested.precision < MIN_PRECISION:
            continue
        rule = misworded(form, learned.reading)
        yield report(
            rule.text,
            (learned.example.state.task_id, learned.example.action),
            Evidence(
                support=tested.support + understood.support,
                refuted=tested.refuted + understood.refuted,
                tasks=tested.tasks + understood.tasks,
                counterexample=understood.counterexample,
            ),
            RuleSet(rules=(rule,)),
            kind=form,
            intent=f"do `{learned.reading}`",
            feedback=f"name the form that is understood: `{learned.reading}`",
        )


def _about_wrong_forms(wordings: Iterable[SayInstead], trials: TrialCounts) -> Iterable[Misalignment]:
    """Report existing forms refuted by fresh tasks."""
    for rule in wordings:
        evidence = trials.of(rule.form)
        if evidence.refuted >= MIN_TESTS and evidence.precision < MIN_PRECISION:
            task_id, action, *_ = evidence.counterexample.split(": ")
            yield report(
                f"{WRONG}{rule.text}",
                (task_id, action),
                evidence,
                None,
                kind=rule.form,
                intent="follow the interface's rewriting",
                feedback="leave the rewriting out",
                dropped=rule.text,
            )


def stands(evidence: Evidence) -> bool:
    """Check if a claim held often enough on fresh tasks."""
    return evidence.support >= MIN_TESTS and evidence.precision >= MIN_PRECISION
