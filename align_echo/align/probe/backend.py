"""The probe as a backend of ALIGN's loop: analyse failures by experiment, write the interface from what survived.

`analyze` and `optimize` keep no state between iterations: what was learned before is read back from the interface
itself, so a resumed run goes on as an uninterrupted one would.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from align_echo.align.probe import emit
from align_echo.align.probe.cases import Case, Slots, failures, proposals, stroll, try_case, walk
from align_echo.align.probe.findings import (
    about_form,
    about_refusals,
    about_rules,
    about_wrong_rules,
    nothing_found,
    records,
    too_many_forms,
)
from align_echo.align.probe.forms import Utterance, learn_forms, try_form
from align_echo.align.probe.lab import Lab
from align_echo.align.probe.names import is_numbered, name_pattern
from align_echo.align.probe.offered import emit as offered_emit
from align_echo.align.probe.offered import learner
from align_echo.align.probe.offered.pages import emit as pages_emit
from align_echo.align.probe.offered.pages import learner as pages
from align_echo.align.probe.spec import merged, resolved
from align_echo.align.probe.trials import refine
from align_echo.align.probe.vocabulary import (
    Vocabulary,
    skeleton,
    spelling_needed,
    try_spelling,
    uninformative_observations,
)
from align_echo.errors import UsageError
from align_echo.interface import Interface, Provenance
from align_echo.types import Misalignment, Trajectory
from align_echo.wrappers.text_env import TextEnv

FAILURES_PER_TASK = 3
"""Cases taken from one agent failure, per action template."""

CASES_PER_KIND = 3
"""Cases taken from one walk, per action template and reason to look at it."""

SPELLING_TASKS = 4
SPELLING_STATES = 12
"""Tasks, and states of each, in which allowed actions are said in other letters and without their numbers."""

MOST_FORMS = 200
"""Forms of actions that agents can be told. An engine with more lists names that are not known for what they are."""

LONG = 5.0
"""Minutes from which on it is said how long the walks through all tasks will still take."""

Progress = Callable[[str], None]


class ProbeBackend:
    """Learns on the failed tasks, tests on `fresh_tasks`; `make_lab_env` gives a raw environment without a limit.

    `on_progress` is told what is being done, `note` what is worth keeping.
    """

    name = "probe"

    def __init__(
        self,
        make_lab_env: Callable[[], TextEnv],
        fresh_tasks: Sequence[str],
        *,
        seed: int = 0,
        on_progress: Progress | None = None,
        note: Progress | None = None,
    ) -> None:
        self._make_lab_env = make_lab_env
        self._fresh = list(fresh_tasks)
        self._seed = seed
        self._say = on_progress or (lambda _: None)
        self._note = note or self._say
        self._lab: Lab | None = None
        self._counted = 0

    def describe(self) -> dict[str, str]:
        """For a run's record: this backend uses no model."""
        return {"backend": "probe"}

    @property
    def lab(self) -> Lab:
        """The laboratory, opened on first use."""
        if self._lab is None:
            self._lab = Lab(self._make_lab_env())
        return self._lab

    # ------------------------------------------------------------ Algorithm 1, stage 1

    def analyze(
        self, failed: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """Rules that hold on fresh tasks and are not in the interface yet. Empty if no feedback is uninformative.

        Raises `UsageError` for an engine that neither lists its admissible actions nor offers templates and names.
        """
        self.lab.forget()
        rng = random.Random(f"{self._seed}/{interface.provenance.iterations}")
        before = emit.read_spec(interface.source)
        lists = self.reads_lists(failed[0].task_id)
        if pages.is_of_pages(before) or (before is None and pages.is_silent(self.lab, failed)):
            fresh = pages.analyze(self.lab, failed, before, self._fresh, rng, self._say)
        elif lists:
            fresh = self._analyze_listed(failed, before, rng)
        else:
            fresh = learner.analyze(self.lab, failed, before, self._fresh, rng, self._say)
        if not fresh and before is None:
            self._note(nothing_found(failed))
        rules = {misalignment.rule for misalignment in known}
        return [misalignment for misalignment in fresh if misalignment.rule not in rules]

    def reads_lists(self, task_id: str) -> bool:
        """Whether the engine lists its admissible actions; False if it offers templates and names instead.

        Raises `UsageError` for an engine that does neither.
        """
        self.lab.start(task_id)
        if not self.lab.lists and self.lab.env.offered() is None:
            raise UsageError(
                f"the probe needs an engine that lists its admissible actions or offers its templates and names, and "
                f"{self.lab.env.contract.environment} does neither: use --backend llm"
            )
        return self.lab.lists

    def _analyze_listed(
        self, failed: Sequence[Trajectory], before: dict[str, Any] | None, rng: random.Random
    ) -> list[Misalignment]:
        self.lab.name = before["name"] if before else self._name(failed)
        refusals = self._refusals(failed, rng)
        if not refusals and before is None:
            return []
        tasks = list(dict.fromkeys(trajectory.task_id for trajectory in failed))
        spec, slots = self._vocabulary(tasks, refusals, before, rng)
        if len(spec["templates"]) > MOST_FORMS:
            self._say(too_many_forms(len(spec["templates"]), len({*tasks, *self._fresh})))
            return []
        cases, utterances = self._cases(spec, slots, failed, tasks, rng)
        self._say(f"{len(cases)} refused actions studied ({self.lab.steps} engine steps so far)")
        forms = {form: reading for form, reading in learn_forms(utterances).items() if form not in spec["forms"]}
        untouched = [task_id for task_id in self._fresh if task_id not in tasks]
        learned, trials = refine(self.lab, spec, slots, cases, untouched, rng, self._say)
        fresh = [*about_refusals(spec, before, failed)]
        fresh += [about_form(form, *reading) for form, reading in sorted(forms.items())]
        fresh += about_wrong_rules(spec, trials)
        fresh += about_rules(spec, learned, trials, cases)
        return fresh

    def _name(self, failed: Sequence[Trajectory]) -> str:
        """What finds names in this engine's actions: of the tasks' first states if they have numbers, else of walks."""
        tasks = list(dict.fromkeys([*(trajectory.task_id for trajectory in failed), *self._fresh]))
        listed = {action for task_id in tasks for action in self.lab.start(task_id).admissible}
        if not is_numbered(listed):
            rng = random.Random(f"{self._seed}/names")
            for number, task_id in enumerate(tasks, 1):
                self._say(f"learning what a name is: task {number} of {len(tasks)}")
                listed |= stroll(self.lab, task_id, rng)
        self.lab.forget()
        return name_pattern(listed)

    def _refusals(self, failed: Sequence[Trajectory], rng: random.Random) -> list[str]:
        """Uninformative observations. One that the agent got for one kind of action only is tried with other kinds."""
        refusals = uninformative_observations(failed, name=self.lab.name)
        doubtful = set(uninformative_observations(failed, kinds=1, name=self.lab.name)).difference(refusals)
        if not doubtful:
            return refusals
        self._say(f"trying whether {len(doubtful)} answers to actions of one kind are refusals of others too")
        heard: dict[str, set[str]] = {text: set() for text in doubtful}
        vocabulary = Vocabulary(self.lab.name)
        states = walk(self.lab, vocabulary, failed[0].task_id, rng)
        for state in states[:: len(states) // 8 or 1]:
            for template, possible in sorted(vocabulary.actions(state.task_id).items()):
                refused = sorted(possible - state.admissible)
                if refused:
                    answer = self.lab.after(state, rng.choice(refused)).observation.strip()
                    heard.get(answer, set()).add(template)
        return sorted([*refusals, *(text for text, templates in heard.items() if len(templates) >= 2)])

    def _vocabulary(
        self, tasks: Sequence[str], refusals: Sequence[str], before: dict[str, Any] | None, rng: random.Random
    ) -> tuple[dict[str, Any], Slots]:
        vocabulary = Vocabulary(self.lab.name)
        task_ids = list(dict.fromkeys([*tasks, *self._fresh]))
        spellings: list[tuple[str, bool]] = []
        began = time.monotonic()
        for number, task_id in enumerate(task_ids, 1):
            states = walk(self.lab, vocabulary, task_id, rng)
            if number <= SPELLING_TASKS:
                sample = rng.sample(states, min(SPELLING_STATES, len(states)))
                spellings += try_spelling(self.lab, sample, refusals, rng)
            left = (time.monotonic() - began) / number * (len(task_ids) - number) / 60
            rest = f", about {left:.0f} minutes to go" if left > LONG else ""
            self._say(f"learning what can be said: task {number} of {len(task_ids)}{rest}")
        self.lab.forget()
        views = self.lab.env.contract.read_only_actions
        spec = {**vocabulary.spec(refusals, views), "spelling": spelling_needed(spellings)}
        return merged(before, spec), vocabulary.slots()

    def _cases(
        self,
        spec: dict[str, Any],
        slots: Slots,
        failed: Sequence[Trajectory],
        tasks: Sequence[str],
        rng: random.Random,
    ) -> tuple[list[Case], list[Utterance]]:
        cases: list[Case] = []
        utterances: list[Utterance] = []
        by_task = {task_id: [trajectory for trajectory in failed if trajectory.task_id == task_id] for task_id in tasks}
        for number, task_id in enumerate(tasks, 1):
            counts: Counter[str] = Counter()
            for state, action in failures(self.lab, by_task[task_id], spec["uninformative"]):
                template = skeleton(action, self.lab.name)[0]
                counts[template] += 1
                if counts[template] > FAILURES_PER_TASK or not template:
                    continue
                if template not in spec["templates"]:
                    utterance = try_form(self.lab, spec, state, action)
                    utterances += [utterance] if utterance else []
                else:
                    cases.append(try_case(self.lab, spec, state, action))
            cases += self._walked(spec, slots, task_id, rng)
            self._say(f"studying refused actions: task {number} of {len(tasks)}, {len(cases)} cases")
        return cases, utterances

    def _walked(self, spec: dict[str, Any], slots: Slots, task_id: str, rng: random.Random) -> list[Case]:
        """Cases from a walk through a task, a few of each template and each reason to look at it."""
        cases: list[Case] = []
        counts: Counter[tuple[str, str]] = Counter()
        vocabulary = Vocabulary(self.lab.name)
        offers = list(proposals(walk(self.lab, vocabulary, task_id, rng), vocabulary, slots, rng))
        rng.shuffle(offers)
        for why, state, action in offers:
            kind = (why, vocabulary.form(action))
            counts[kind] += 1
            if counts[kind] <= CASES_PER_KIND:
                cases.append(try_case(self.lab, spec, state, action))
        return cases

    # ------------------------------------------------------------ Algorithm 1, stage 2

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """The interface with the new misalignments resolved."""
        spec = emit.read_spec(interface.source)
        details = [json.loads(misalignment.detail) for misalignment in new]
        of_pages = pages.is_of_pages(spec) or any("pages" in detail for detail in details)
        offers = any("offered" in detail for detail in details) or (spec is not None and "travel" in spec)
        work_in = pages.resolved if of_pages else learner.resolved if offers else resolved
        for detail in details:
            spec = work_in(spec, detail)
        if spec is None:
            return interface
        old = interface.provenance
        provenance = Provenance(
            environment=interface.contract.environment,
            backend=self.name,
            agent=old.agent,
            seed=self._seed,
            iterations=old.iterations + 1,
            training_tasks=tuple(
                dict.fromkeys((*old.training_tasks, *(misalignment.task_id for misalignment in new), *self._fresh))
            ),
            rules=records(old.rules, new),
            engine_steps=old.engine_steps + self._steps_since(),
        )
        source = (pages_emit if of_pages else offered_emit if offers else emit).source(spec, interface.contract)
        return interface.model_copy(update={"name": "probe", "source": source, "provenance": provenance})

    def _steps_since(self) -> int:
        """Engine steps since this was last asked."""
        steps = self._lab.steps if self._lab else 0
        since, self._counted = steps - self._counted, steps
        return since
