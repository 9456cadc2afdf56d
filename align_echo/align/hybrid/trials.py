"""Trials of hypotheses in tasks they were not derived from, and in states chosen to refute them.

- Required step: wherever the action is possible, the step was done; in replays without the step, or with another action
  in its place, the action is refused; it also stays refused on a walk with everything but the step.
- Wrong wording: refused where the right one works. In states where agents used the wrong wording, the right one must be
  possible, clearly more often than any other form with those names.
- Action without effect after another: it then changes nothing, but does something elsewhere.
- Claim: its own experiments.

What withstands is then attacked by counter-experiments (`align/refutation.py`). Where nothing is listed, what is left
is tried as it will be told. A single refutation rejects a hypothesis. Not here: reports (`backend.py`) and the wording
of forms.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from align_echo.align.budget import BudgetSpentError
from align_echo.align.experiments import clip
from align_echo.align.hybrid.hypotheses import (
    ActionJudge,
    Hypothesis,
    NeededStep,
    NoEffect,
    StatedClaim,
    WrongWording,
    bound_names,
    filled_form,
    is_step,
    list_forms,
    slots_of,
    spoken_forms,
)
from align_echo.align.hybrid.reading import Meaning, WalkGuide, WalkState, judge_meaning, names_said
from align_echo.align.probe.effects.fixes import FixSearch
from align_echo.align.probe.effects.outcomes import Observer
from align_echo.align.probe.effects.trials import TrialBook, try_rules
from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.refutation import MIN_TASKS, Attack
from align_echo.interface.rules.actions import ActionGrammar
from align_echo.interface.rules.answers import AnswerReader
from align_echo.interface.rules.model import ClaimTrial, RuleSet
from align_echo.types import Evidence, Trajectory

MIN_SUPPORT = 10
"""Trials required for a hypothesis, in three tasks, without a failure: a hypothesis failing in one of four trials
survives ten in 6 of 100 cases. A claim's experiments are few, so it must withstand an attack instead."""

MIN_WORKING = 3
"""Minimum effects of an action elsewhere before believing it has none."""

PER_TASK = 5
"""Maximum trials of a kind per hypothesis and task."""

DETOUR = 30
"""Actions of a walk with everything but the step."""

SAID = 2
"""Times a form is said per task with any names."""

LONGEST_COUNTEREXAMPLE = 400

Verdict = Literal["kept", "played", "refuted", "untested"]
"""A "played" claim agreed with its experiments and did not withstand an attack in three tasks: no rule."""


@dataclass
class HypothesisCounts:
    """Trials of a hypothesis. `working` counts effects of its action where none is denied. `latest` is False once a
    later step of the same form did not undo the step; undoing counts after `undone` trials. `fresh` counts trials in
    tasks not shown as failures; `example` is a task and an action; `meaning` is the agents' meaning of a wrong wording.
    `attack` holds a claim's experiments and counter-experiments; `attacked` the tasks in which any other hypothesis
    withstood counter-experiments.
    """

    support: int = 0
    refuted: int = 0
    tasks: set[str] = field(default_factory=set)
    counterexample: str = ""
    working: int = 0
    latest: bool = True
    undone: int = 0
    fresh: int = 0
    example: tuple[str, str] = ("", "")
    meaning: Meaning | None = None
    attack: Attack = field(default_factory=Attack)
    attacked: set[str] = field(default_factory=set)

    @property
    def withstood(self) -> int:
        """Number of tasks in which it withstood counter-experiments."""
        return len(self.attacked | self.attack.tasks)

    @property
    def evidence(self) -> Evidence:
        """Counts for the record."""
        return Evidence(
            support=self.support,
            refuted=self.refuted,
            tasks=len(self.tasks),
            attacked=self.withstood,
            counterexample=self.counterexample,
        )

    @property
    def undoes(self) -> bool:
        """True if later steps of the same form undo the step, as far as seen."""
        return self.latest and self.undone >= MIN_WORKING

    def passed(self, task_id: str, action: str, *, fresh: bool = True) -> None:
        """Count a confirming trial."""
        self.support += 1
        self.fresh += fresh
        self.tasks.add(task_id)
        self.example = self.example if self.example[0] else (task_id, action)

    def failed(self, task_id: str, action: str, why: str) -> None:
        """Count a refuting trial; describe the first."""
        self.refuted += 1
        self.tasks.add(task_id)
        self.counterexample = self.counterexample or clip(f"{task_id}: {action}: {why}", LONGEST_COUNTEREXAMPLE)


def verdict_on(hypothesis: Hypothesis, tally: HypothesisCounts) -> Verdict:
    """Judge the trials. Too few or ambiguous trials count as untested."""
    if tally.refuted:
        return "refuted"
    if isinstance(hypothesis, StatedClaim):
        return "untested" if not tally.fresh else "kept" if tally.attack.confirms else "played"
    enough = tally.support >= MIN_SUPPORT and len(tally.tasks) >= MIN_TASKS and tally.fresh > 0
    if isinstance(hypothesis, NoEffect):
        enough = enough and tally.working >= MIN_WORKING
    if isinstance(hypothesis, WrongWording):
        enough = enough and tally.meaning == "meant"
    return "kept" if enough else "untested"


def run_trials(
    lab: Lab,
    hypotheses: Sequence[Hypothesis],
    failed: Sequence[Trajectory],
    tasks: Sequence[str],
    rng: random.Random,
    say: Callable[[str], None],
    grammar: ActionGrammar,
    reader: AnswerReader,
    is_invalid: Callable[[str], bool] | None = None,
) -> tuple[list[HypothesisCounts], ActionJudge]:
    """Test all hypotheses on `tasks` and where agents failed. `grammar` and `reader` read as an interface will.

    `is_invalid` is the environment's test of an answer for a refusal. The returned judge knows the refusals. Where the
    budget ends, the trials by then count.
    """
    forms = [form for hypothesis in hypotheses for form in spoken_forms(hypothesis)]
    judge = ActionJudge(lab, forms, grammar, reader, is_invalid)
    actions = [step.action for trajectory in failed for step in trajectory.steps if step.action is not None]
    guide = WalkGuide(judge, names_said(forms, actions), rng)
    tallies = [HypothesisCounts() for _ in hypotheses]
    pairs = list(zip(hypotheses, tallies, strict=True))
    with suppress(BudgetSpentError):
        for number, task_id in enumerate(tasks, start=1):
            states = guide.walk(task_id)
            for hypothesis, tally in pairs:
                if tally.refuted:
                    continue
                if isinstance(hypothesis, NeededStep):
                    _try_needs(guide, states, hypothesis, tally)
                elif isinstance(hypothesis, WrongWording):
                    _try_instead(guide, states, hypothesis, tally)
                elif isinstance(hypothesis, NoEffect):
                    _try_no_effect(guide, states, hypothesis, tally)
            _say_forms(guide, states)
            left = sum(not tally.refuted for tally in tallies)
            say(f"trying hypotheses: task {number} of {len(tasks)}, {left} of {len(pairs)} not refuted")
        for hypothesis, tally in pairs:
            if isinstance(hypothesis, WrongWording) and not tally.refuted:
                tally.meaning, why = judge_meaning(judge, hypothesis, failed)
                if tally.meaning == "not meant":
                    tally.failed(*why)
            if isinstance(hypothesis, StatedClaim):
                _try_claim(judge, hypothesis, tally, {trajectory.task_id for trajectory in failed})
    return tallies, judge


def try_as_told(
    lab: Lab,
    rules: RuleSet,
    failed: Sequence[Trajectory],
    tasks: Sequence[str],
    rng: random.Random,
    say: Callable[[str], None],
) -> tuple[RuleSet, TrialBook]:
    """Try rules as agents will read them: what a message says is done (`probe/effects/trials.py`).

    Return the rules that are left, some with exceptions, and the trials.
    """
    observer = Observer(lab, ActionGrammar(rules.forms), rules.reader)
    with suppress(BudgetSpentError):
        for trajectory in failed:
            for instance in observer.replay(trajectory):
                observer.note(instance)
    search = FixSearch(observer)
    search.learn_values()
    return try_rules(search, rules, tasks, rng, say)


# ---------------------------------------------------------------- by kind


def _say_forms(guide: WalkGuide, states: Sequence[WalkState]) -> None:
    """Say each form with some names, to learn refusals even of impossible forms."""
    known = names_said(guide.judge.forms, [action for walked in states for action in guide.options(walked.state)])
    names = sorted({*known, *guide.names}) or ["it"]
    for form in guide.judge.forms:
        for walked in guide.rng.sample(states, min(SAID, len(states))):
            chosen = {slot: guide.rng.choice(names) for slot in slots_of(form)}
            guide.judge.taken(walked.state, filled_form(form, chosen))


def _possible(
    guide: WalkGuide, states: Sequence[WalkState], form: str, most: int | None = None
) -> Iterator[tuple[WalkState, str, dict[str, str]]]:
    """Yield (state, action, names) for each possible action of a form; sample at most `most`."""
    cases: list[tuple[WalkState, str, dict[str, str]]] = []
    for walked in states:
        for action in guide.options(walked.state):
            names = bound_names(form, action)
            if names is not None and not walked.state.over:
                cases.append((walked, action, names))
    guide.rng.shuffle(cases)
    yield from cases[:most]


def _try_needs(guide: WalkGuide, states: Sequence[WalkState], needs: NeededStep, tally: HypothesisCounts) -> None:
    """Check that the step was always done, and that the action is refused without it or after a substitute."""
    task_id = states[0].state.task_id
    cases = list(_possible(guide, states, needs.action))
    for walked, action, names in cases:
        steps = [earlier for earlier in walked.accepted if bound_names(needs.step, earlier) is not None]
        if not any(is_step(needs.step, names, earlier) for earlier in steps):
            return tally.failed(task_id, action, f"possible without `{filled_form(needs.step, names)}`")
        tally.latest = tally.latest and is_step(needs.step, names, steps[-1])
    for walked, action, names in sorted(cases, key=lambda case: len(case[0].accepted))[:PER_TASK]:
        for instead in (False, True):
            state = _replayed(guide, walked, needs.step, names, instead=instead)
            if state is not None and guide.judge.possible(state, action):
                how = "with another action in its place" if instead else "when it was left out"
                return tally.failed(task_id, action, f"possible without `{filled_form(needs.step, names)}`, {how}")
        guide.judge.went(walked.state, action)
        tally.passed(task_id, action)
    _try_undoing(guide, states, needs, tally)
    for _, action, names in cases[:1]:
        _try_detour(guide, task_id, needs, action, names, tally)
    return None


def _replayed(
    guide: WalkGuide, walked: WalkState, step: str, names: dict[str, str], *, instead: bool
) -> LabState | None:
    """Replay actions without a step, or with a substitute; None if the episode ends.

    Actions refused on the way are skipped.
    """
    judge = guide.judge
    state = judge.lab.start(walked.state.task_id)
    for earlier in walked.accepted:
        action = earlier
        if is_step(step, names, earlier):
            substitutes = [option for option in sorted(state.admissible) if not is_step(step, names, option)]
            if not instead or not substitutes:
                continue
            action = guide.rng.choice(substitutes)
        if judge.possible(state, action):
            child = judge.lab.after(state, action)
            state = state if child.over else child
        elif not judge.lab.lists and state.over:
            return None
    return state


def _try_undoing(guide: WalkGuide, states: Sequence[WalkState], needs: NeededStep, tally: HypothesisCounts) -> None:
    """Find states with the step, another step of its form and a refusal; check if repeating the step helps."""
    judge = guide.judge
    known = {action: names for _, action, names in _possible(guide, states, needs.action, PER_TASK)}
    cases = [(walked, action) for walked in states for action in known]
    guide.rng.shuffle(cases)
    count = 0
    for walked, action in cases:
        names = known[action]
        steps = [earlier for earlier in walked.accepted if bound_names(needs.step, earlier) is not None]
        done = [earlier for earlier in steps if is_step(needs.step, names, earlier)]
        if not done or is_step(needs.step, names, steps[-1]) or judge.possible(walked.state, action):
            continue
        if count == PER_TASK or not judge.possible(walked.state, done[-1]):
            tally.latest = tally.latest and count == PER_TASK
            return
        count += 1
        tally.undone += judge.possible(judge.lab.after(walked.state, done[-1]), action)


def _try_detour(
    guide: WalkGuide, task_id: str, needs: NeededStep, action: str, names: dict[str, str], tally: HypothesisCounts
) -> None:
    """Walk with everything but the step, preferring actions on the same names."""
    low = [name.lower() for name in names.values()]
    states = guide.walk(
        task_id,
        avoid=lambda candidate: is_step(needs.step, names, candidate),
        wanted=lambda candidate: any(name in candidate.lower() for name in low),
        length=DETOUR,
    )
    for walked in states:
        if guide.judge.possible(walked.state, action):
            done = "; ".join(walked.accepted)
            return tally.failed(task_id, action, f"possible without `{filled_form(needs.step, names)}`, after {done}")
    guide.judge.taken(states[-1].state, action)
    return None


def _try_instead(guide: WalkGuide, states: Sequence[WalkState], instead: WrongWording, tally: HypothesisCounts) -> None:
    """Check that the wrong wording is never possible, and where the right one works does nothing and is answered
    differently."""
    task_id = states[0].state.task_id
    for _, action, _ in _possible(guide, states, instead.wrong, PER_TASK):
        return tally.failed(task_id, action, "is understood")
    extra = [slot for slot in slots_of(instead.wrong) if slot not in slots_of(instead.right)]
    options = [option for walked in states for option in guide.options(walked.state)]
    known = sorted(names_said(guide.judge.forms, options))
    for walked, action, names in _possible(guide, states, instead.right, PER_TASK):
        free = {slot: guide.rng.choice(known or guide.names or ["it"]) for slot in extra}
        wrong = filled_form(instead.wrong, {**names, **free})
        answers = [guide.judge.lab.after(walked.state, utterance).observation for utterance in (wrong, action)]
        understood = guide.judge.taken(walked.state, wrong)
        if understood or (answers[0] == answers[1] != walked.state.observation):
            return tally.failed(task_id, wrong, "is understood")
        guide.judge.went(walked.state, action)
        tally.passed(task_id, wrong)
    return None


def _try_no_effect(guide: WalkGuide, states: Sequence[WalkState], claim: NoEffect, tally: HypothesisCounts) -> None:
    """Check that the action changes nothing where the claim says so, listed states first, but does something elsewhere.
    """
    judge, task_id = guide.judge, states[0].state.task_id
    cases = [(walked.state, names) for walked in states for names in _in_effect(claim, walked.accepted)]
    guide.rng.shuffle(cases)
    cases.sort(key=lambda case: filled_form(claim.action, case[1]) not in guide.options(case[0]))
    for number, (state, names) in enumerate(cases):
        action = filled_form(claim.action, names)
        if number >= 2 * PER_TASK and action not in guide.options(state):
            break
        if judge.changes(state, action):
            return tally.failed(task_id, action, f"changes something after `{filled_form(claim.after, names)}`")
        judge.taken(state, action)
        tally.passed(task_id, action)
    for walked, action, names in _possible(guide, states, claim.action, 2 * PER_TASK):
        effects = _in_effect(claim, walked.accepted)
        if all(any(known[slot].lower() != names[slot].lower() for slot in names) for known in effects):
            judge.went(walked.state, action)
            tally.working += judge.changes(walked.state, action)
    return None


def _in_effect(claim: NoEffect, accepted: Sequence[str]) -> list[dict[str, str]]:
    """List names of steps still in effect, the latest first."""
    effects: list[dict[str, str]] = []
    for number in range(len(accepted) - 1, -1, -1):
        names = bound_names(claim.after, accepted[number])
        if names is None or names in effects:
            continue
        if not (claim.until and any(is_step(claim.until, names, later) for later in accepted[number + 1 :])):
            effects.append(names)
    return effects


def _try_claim(judge: ActionJudge, claim: StatedClaim, tally: HypothesisCounts, shown_failed: set[str]) -> None:
    """Run a claim's experiments from the beginning of their tasks."""
    for trial in sorted(claim.experiments, key=lambda trial: trial.task):
        answer = judge.lab.follow(trial.task, [*trial.actions]).observation
        tally.attack.own.append((trial, answer))
        if problem := trial.objection(answer):
            tally.failed(trial.task, " | ".join(trial.actions), problem)
        else:
            tally.passed(trial.task, trial.actions[-1], fresh=trial.task not in shown_failed)


# ---------------------------------------------------------------- the attack


def play_attack(
    judge: ActionJudge, hypothesis: Hypothesis, tally: HypothesisCounts, trials: Sequence[ClaimTrial]
) -> None:
    """Play counter-experiments. Only a claim is judged by their texts; the others by what the engine accepts."""
    if not isinstance(hypothesis, StatedClaim):
        for trial in sorted(trials, key=lambda trial: trial.task):
            if not tally.refuted:
                _try_along(judge, hypothesis, tally, trial)
        return
    tally.attack.play(trials, lambda task_id, actions: judge.lab.follow(task_id, [*actions]).observation)
    for trial in tally.attack.withstood:
        tally.passed(trial.task, trial.actions[-1])
    if tally.attack.counterexample is not None:
        tally.failed(*tally.attack.counterexample)


def _try_along(judge: ActionJudge, hypothesis: Hypothesis, tally: HypothesisCounts, trial: ClaimTrial) -> None:
    """Check a hypothesis at each of these actions."""
    state, accepted = judge.lab.start(trial.task), list[str]()
    for action in trial.actions:
        if state.over:
            return
        taken = judge.possible(state, action)
        if why := _contradiction(judge, hypothesis, state, action, taken, accepted):
            after = f", after {'; '.join(accepted)}" if accepted else ""
            return tally.failed(trial.task, action, f"{why}{after}")
        if bound_names(list_forms(hypothesis)[0], action) is not None:
            tally.passed(trial.task, action)
            tally.attacked.add(trial.task)
        state = judge.lab.after(state, action)
        accepted += [action] * taken


def _contradiction(
    judge: ActionJudge, hypothesis: Hypothesis, state: LabState, action: str, taken: bool, accepted: Sequence[str]
) -> str:
    """Say how an action in a state contradicts a hypothesis; "" if it does not."""
    names = bound_names(list_forms(hypothesis)[0], action)
    if names is None:
        return ""
    if isinstance(hypothesis, NeededStep):
        done = any(is_step(hypothesis.step, names, earlier) for earlier in accepted)
        return f"possible without `{filled_form(hypothesis.step, names)}`" if taken and not done else ""
    if isinstance(hypothesis, NoEffect):
        effects = _in_effect(hypothesis, accepted)
        held = any(all(known[slot].lower() == names[slot].lower() for slot in names) for known in effects)
        return "changes something" if held and judge.changes(state, action) else ""
    return "is understood" if taken else ""
