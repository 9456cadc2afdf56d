"""Probe backend of ALIGN's loop: analyse failures by experiment and write an interface from the confirmed rules.

`analyze` and `optimize` keep no state between iterations. Earlier rules are read from the interface, so a resumed run
behaves like an uninterrupted one.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from align_echo.align.budget import Budget, BudgetSpentError
from align_echo.align.probe.cases import (
    ActionVocabulary,
    Case,
    Need,
    Slots,
    count_walks,
    proposals,
    random_walk,
    replay_actions,
    spelling_needed,
    try_case,
    try_spelling,
    walk,
)
from align_echo.align.probe.effects import learner as effects
from align_echo.align.probe.findings import (
    UnmatchedUtterance,
    about_form,
    about_needs,
    about_refusals,
    about_rules,
    about_wrong_rules,
    doubted_forms,
    learn_forms,
    merge_records,
    not_tried,
    nothing_found,
    refine,
    rules_in,
    too_many_forms,
    try_form,
)
from align_echo.align.probe.lab import Lab, LabState, rarely_collected
from align_echo.align.probe.names import (
    MOST_TRIED,
    ActionForms,
    heard_sayings,
    is_numbered,
    learn_names,
    skeleton,
)
from align_echo.align.probe.offered import learner, pages
from align_echo.align.probe.rules import (
    further_refusals,
    listed_refusals,
    refused_actions,
    taken_actions,
    unlisted_refusals,
)
from align_echo.interface.contract import Interface, Provenance
from align_echo.interface.rules import rule_file
from align_echo.interface.rules.actions import parse_call
from align_echo.interface.rules.answers import SAME
from align_echo.interface.rules.decisions import DecisionLists
from align_echo.interface.rules.model import RuleSet
from align_echo.interface.rules.rule_file import check_format, drop_rules, merge_rules, read_rule_set
from align_echo.interface.rules.vocabulary import distinct_names, without_action
from align_echo.registry import quantity
from align_echo.rollout.batches import failed as lost_of
from align_echo.types import Misalignment, Trajectory
from align_echo.wrappers.plain import PlainEnv
from align_echo.wrappers.text_env import TextEnv

FAILURES_PER_TASK = 3
"""Cases per task and action template from the agent's failures."""

CASES_PER_KIND = 3
"""Cases per walk, action template and reason."""

SPELLING_TASKS = 4
SPELLING_STATES = 12
"""Tasks, and states per task, for trying allowed actions in other letter case and without numbers."""

MOST_SAYINGS = 1_500
"""Maximum combinations of offered forms and names for trying them all."""

STARTS = 4
"""Tasks whose initial state is tried with all combinations, to find refusals the agent did not meet."""

STROLL = 40
"""Steps of a random walk per task, to find names the agent did not meet."""

FEWEST_FORMS = 3
"""Minimum forms for learning steps."""

MOST_FORMS = 200
"""Maximum action forms an agent can read; beyond this, names were probably not recognised."""

TRIALS_PER_WALK = 3
"""Price of a walk with the searches and tests along it, in bare walks."""

NAMES_SHARE = 0.1
"""Share of a budget for learning names."""

FEWEST_TASKS = 6
"""Tasks that even a small budget has."""

LONG = 5.0
"""Minutes of remaining walks above which the time left is reported."""

Progress = Callable[[str], None]
Studied = tuple[list[Case], list[UnmatchedUtterance], Counter[str]]


@dataclass
class ProbeBackend:
    """Backend that learns on failed tasks and tests on `fresh_tasks`; `make_lab_env` creates a raw environment without
    a step limit.

    `on_progress` reports the current work and `note` logs remarks. `processes` test rules in parallel if the
    environment permits, with the same result for any number. `budget` ends an analysis with what it has by then.
    """

    name = "probe"
    make_lab_env: Callable[[], TextEnv]
    fresh_tasks: Sequence[str]
    seed: int = 0
    on_progress: Progress = lambda _: None
    note: Progress | None = None
    processes: int = 1
    budget: Budget = field(default_factory=Budget)
    action_format: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    _lab: Lab | None = None
    _counted: int = 0

    def _tell(self, remark: str) -> None:
        (self.note or self.on_progress)(remark)

    def describe(self) -> dict[str, str]:
        """Describe the backend for the run's record; it uses no model."""
        return {"backend": "probe"}

    @property
    def lab(self) -> Lab:
        """Return the lab, opened on first use."""
        if self._lab is None:
            self._lab = Lab(self.make_lab_env(), self.processes, self.budget)
        return self._lab

    # ------------------------------------------------------------ Algorithm 1, stage 1

    def analyze(
        self, played: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """Find rules that hold on fresh tasks and are new to the interface. Empty if all feedback is informative.

        Where the budget ends, these are the rules that stood their trials by then.
        """
        with rarely_collected():
            try:
                return self._learned_from(played, known, interface)
            except BudgetSpentError as error:
                self._tell(f"no rule was tried: the budget of {error} was spent before")
                return []
            finally:
                self._tell_broken()

    def _tell_broken(self) -> None:
        broken = self.lab.broken
        if broken:
            action, reason = next(iter(broken.items()))
            count = quantity(len(broken), "action")
            self._tell(f"the environment failed at {count}, of which nothing is learned, first at `{action}`: {reason}")
            broken.clear()

    def _learned_from(
        self, played: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        self.lab.forget()
        failed = lost_of(played)
        rng = random.Random(f"{self.seed}/{interface.provenance.iterations}")
        check_format(interface.source)
        listed = self.lists(failed[0].task_id)
        rules = read_rule_set(interface.source)
        before = DecisionLists(rules.vocabulary, rules.rules) if rules and rules.vocabulary else None
        fresh: list[Misalignment] = []
        of_pages = rules if rules is not None and rules.pages else None
        of_places = rules if rules is not None and rules.places else None
        if of_pages or (before is None and pages.is_silent(self.lab, failed)):
            fresh = pages.analyze(self.lab, failed, of_pages, self.fresh_tasks, rng, self.on_progress)
        elif of_places or (before is None and not listed and self._offers_much(failed)):
            fresh = learner.analyze(self.lab, failed, of_places, self.fresh_tasks, rng, self.on_progress)
        else:
            engine = self.lab.env.unwrapped
            # Chance may look like a refusal where an environment from outside does not tell what refuses.
            guesses = isinstance(engine, PlainEnv) and not engine.declares_refusals and not listed
            if before is None and isinstance(engine, PlainEnv):
                fresh = self._by_effect(played, failed, rules)
            of_actions = any(each.action_type != effects.ANY_ACTION for each in fresh)
            if (rules is None or before) and not (fresh if guesses else of_actions):
                read = self._read_lists(failed, before, rng) if listed else self._read_answers(played, before, rng)
                fresh = (self._analyze(failed, before, rng) if read else []) or fresh
        if not fresh and rules is None and not self.budget.cut:
            self._tell(nothing_found(failed))
        texts = {misalignment.rule for misalignment in known}
        return [misalignment for misalignment in fresh if misalignment.rule not in texts]

    def _by_effect(
        self, played: Sequence[Trajectory], failed: Sequence[Trajectory], known: RuleSet | None
    ) -> list[Misalignment]:
        """Learn what actions do by their effects."""
        rng, form, tools = random.Random(f"{self.seed}/effects"), self.action_format, self.tools
        learned = effects.analyze(self.lab, played, failed, known, self.fresh_tasks, form, tools, rng, self.on_progress)
        self.lab.forget()
        return learned

    def lists(self, task_id: str) -> bool:
        """Check if the engine lists its admissible actions."""
        self.lab.start(task_id)
        return self.lab.lists

    def _offers_much(self, failed: Sequence[Trajectory]) -> bool:
        """Check if the engine offers too many combinations to try where tasks start, or too few forms for steps.

        If so, `offered` learns from the offers directly.
        """
        if self.lab.env.offered() is None:
            return False
        tasks = list(dict.fromkeys(trajectory.task_id for trajectory in failed))[:STARTS]
        offers = [self.lab.offered(self.lab.start(task_id)) for task_id in tasks]
        names = {name for offered in offers for name in offered.names}
        forms = {template for offered in offers for template in offered.templates if "{" in template}
        many = sum(len(names) ** template.count("{") for template in forms) > MOST_SAYINGS
        return many or len(forms) < FEWEST_FORMS

    def _read_lists(self, failed: Sequence[Trajectory], before: DecisionLists | None, rng: random.Random) -> bool:
        """Learn names and refusals from the lists; False if every answer is informative."""
        self.lab.use_names(before.vocabulary.names if before else self._learn_names(failed))
        self.lab.compare_saved(self.lab.start(failed[0].task_id))
        self.on_progress("learning how refusals look")
        refusals = listed_refusals(self.lab, failed, rng)
        self.lab.refusals = sorted({*refusals, *(before.vocabulary.refusals if before else ())})
        return bool(self.lab.refusals)

    def _read_answers(self, played: Sequence[Trajectory], before: DecisionLists | None, rng: random.Random) -> bool:
        """Learn names and refusals without lists, from offers, or from the agent's actions and random walks.

        Won episodes count too. Forms refused so far are tried on the walks.
        """
        failed = lost_of(played)
        refusals = unlisted_refusals(failed)
        self.lab.refusals = sorted({*refusals, *(before.vocabulary.refusals if before else ())})
        accepted = {action for _, action in taken_actions(played, failed, self.lab.refusals)}
        utterances = accepted | {action for _, action in refused_actions(played, self.lab.refusals)}
        utterances = {
            action for action in utterances if not self.lab.env.read_only(action) and parse_call(action.strip()) is None
        }
        accepted &= utterances
        tasks = list(dict.fromkeys([*(trajectory.task_id for trajectory in failed), *self.fresh_tasks]))
        answered = [(step.action or "", step.raw_observation or "") for each in played for step in each.steps]
        texts = [without_action(action, text) for action, text in answered]
        texts += [self.lab.start(task_id).opening for task_id in tasks]
        forms = set(before.vocabulary.forms) if before else set[str]()
        names: set[str] = set()
        for trajectory in failed:
            for state, _, _ in replay_actions(self.lab, [trajectory]):
                self._take_offers(state, forms, names)
        self._speak(forms, names, accepted, utterances, texts)
        if not self.lab.refusals or not (self.lab.sayings and self.lab.sayings.forms):
            return False
        self.lab.compare_saved(self.lab.start(tasks[0]))
        if SAME not in self.lab.refusals:
            self.lab.refusals = sorted({*self.lab.refusals, *further_refusals(self.lab, tasks[:STARTS])})
        record, seconds = self.budget.record, self.budget.seconds
        for number, task_id in enumerate(tasks, 1):
            if number > FEWEST_TASKS and self.budget.share_since(record, seconds) > NAMES_SHARE:
                break
            self.on_progress(f"learning what can be spoken of: task {number} of {len(tasks)}")
            self.lab.forget()
            for state in random_walk(self.lab, task_id, rng, STROLL):
                self._take_offers(state, forms, names)
                texts.append(state.observation)
        accepted |= {action for actions in self.lab.sayings.taken.values() for action in actions}
        self._speak(forms, names, accepted, utterances, texts, most_tried=0)
        return True

    def _take_offers(self, state: LabState, forms: set[str], names: set[str]) -> None:
        """Add the forms and names offered in a state."""
        offered = self.lab.offered(state)
        forms.update(template for template in offered.templates if "{" in template)
        names.update(offered.names)

    def _speak(
        self,
        forms: set[str],
        names: set[str],
        accepted: set[str],
        utterances: set[str],
        texts: Sequence[str],
        most_tried: int = MOST_TRIED,
    ) -> None:
        """Let the lab try all combinations of these forms and names, or of the agent's utterances."""
        if self.lab.env.offered() is not None:
            self.lab.sayings = ActionForms(tuple(sorted(forms)), distinct_names(names))
        else:
            self.lab.sayings = heard_sayings(accepted, utterances, texts, most_tried)
            self.lab.sayings.forms = tuple(sorted({*self.lab.sayings.forms, *forms}))
        self.lab.use_names(self.lab.sayings.names)
        self.lab.forget()

    def _analyze(
        self, failed: Sequence[Trajectory], before: DecisionLists | None, rng: random.Random
    ) -> list[Misalignment]:
        tasks = list(dict.fromkeys(trajectory.task_id for trajectory in failed))
        complete = self.lab.lists or self.lab.env.offered() is not None
        doubted = doubted_forms(self.lab, before, failed) if before and complete else None
        if doubted == set():
            return []
        tasks = self._set_pace(tasks)
        lists, slots, enabled = self._learn_vocabulary(tasks, before, rng)
        known = lists.vocabulary.forms
        if before and doubted is not None:
            old = before.vocabulary.forms
            slots = {form: kinds for form, kinds in slots.items() if form in doubted or form not in old}
        if len(known) > MOST_FORMS:
            self._tell(too_many_forms(len(known), len({*tasks, *self.fresh_tasks})))
            return []
        cases, utterances, worded = self._cases(lists, slots, failed, tasks, rng)
        self.on_progress(f"{len(cases)} refused actions studied ({self.lab.steps} engine steps so far)")
        read = learn_forms(utterances, worded, complete=complete)
        forms = {form: reading for form, reading in read.items() if form not in lists.wordings}
        untouched = [task_id for task_id in self._afforded(self.fresh_tasks) if task_id not in tasks]
        learned, trials = refine(self.lab, lists, slots, cases, untouched, rng, self.on_progress)
        fresh = [*about_refusals(lists, before, failed)]
        fresh += [about_form(form, *reading) for form, reading in sorted(forms.items())]
        fresh += about_wrong_rules(lists, trials)
        fresh += about_rules(lists.vocabulary, learned, trials, cases)
        stood = {misalignment.rule for misalignment in fresh}
        fresh += about_needs(lists, [rule for rule in learned if rule.text in stood], enabled)
        if self.budget.cut:
            self._tell(not_tried(learned, fresh, self.budget.cut))
        return fresh

    def _set_pace(self, tasks: Sequence[str]) -> list[str]:
        """Measure a walk, and let walks be shorter and tasks fewer where the budget affords no more; return the tasks.
        """
        budget, steps, seconds = self.budget, self.lab.steps, self.budget.seconds
        self.lab.pace = 1.0
        if not budget.is_limited:
            return list(tasks)
        walk(self.lab, ActionVocabulary(self.lab.name), tasks[0], random.Random(f"{self.seed}/pace"))
        walks = TRIALS_PER_WALK * count_walks(len(tasks), len(self.fresh_tasks))
        share = budget.affords(walks * (self.lab.steps - steps), walks * (budget.seconds - seconds))
        self.lab.pace = min(1.0, share**0.5)
        self.lab.forget()
        afforded = self._afforded(tasks)
        if self.lab.pace < 1:
            fresh = f"{len(self._afforded(self.fresh_tasks))} of {len(self.fresh_tasks)} fresh tasks"
            self._tell(
                f"by the first walk the budget affords {100 * share:.0f}% of the usual walks: they are shorter, "
                f"through {len(afforded)} of {len(tasks)} tasks with failures and {fresh}"
            )
        return afforded

    def _afforded(self, tasks: Sequence[str]) -> list[str]:
        """Return as many tasks as the pace allows, spread over all; at least `FEWEST_TASKS`."""
        count = min(len(tasks), max(FEWEST_TASKS, round(self.lab.pace * len(tasks))))
        return [tasks[number * len(tasks) // count] for number in range(count)]

    def _learn_names(self, failed: Sequence[Trajectory]) -> tuple[str, ...] | None:
        """Learn the names, from initial states if names have numbers, else from walks."""
        tasks = list(dict.fromkeys([*(trajectory.task_id for trajectory in failed), *self.fresh_tasks]))
        listed = {action for task_id in tasks for action in self.lab.start(task_id).admissible}
        texts: set[str] = set()
        if not is_numbered(listed):
            rng = random.Random(f"{self.seed}/names")
            record, seconds = self.budget.record, self.budget.seconds
            for number, task_id in enumerate(tasks, 1):
                if number > FEWEST_TASKS and self.budget.share_since(record, seconds) > NAMES_SHARE:
                    break
                self.on_progress(f"learning what a name is: task {number} of {len(tasks)}")
                for state in random_walk(self.lab, task_id, rng):
                    listed |= state.admissible
                    texts |= {state.opening, state.observation}
        self.lab.forget()
        return learn_names(listed, texts)

    def _learn_vocabulary(
        self, tasks: Sequence[str], before: DecisionLists | None, rng: random.Random
    ) -> tuple[DecisionLists, Slots, dict[Need, set[tuple[str, str]]]]:
        """Learn the vocabulary, kinds by slot, and enabling steps; return the rules before on the vocabulary."""
        vocabulary = ActionVocabulary(self.lab.name)
        task_ids = list(dict.fromkeys([*tasks, *self._afforded(self.fresh_tasks)]))
        spellings: list[tuple[str, bool]] = []
        began = time.monotonic()
        for number, task_id in enumerate(task_ids, 1):
            states = walk(self.lab, vocabulary, task_id, rng)
            if number <= SPELLING_TASKS:
                sample = rng.sample(states, min(SPELLING_STATES, len(states)))
                spellings += try_spelling(self.lab, sample, rng)
            left = (time.monotonic() - began) / number * (len(task_ids) - number) / 60
            rest = f", about {left:.0f} minutes to go" if left > LONG else ""
            self.on_progress(f"learning what can be said: task {number} of {len(task_ids)}{rest}")
        self.lab.forget()
        views = self.lab.env.contract.read_only_actions
        new = vocabulary.build(self.lab.names, self.lab.refusals, views, spelling_needed(spellings))
        lists = DecisionLists(before.vocabulary.merge(new), before.rules) if before else DecisionLists(new, ())
        return lists, vocabulary.slots(), vocabulary.enabled

    def _cases(
        self,
        lists: DecisionLists,
        slots: Slots,
        failed: Sequence[Trajectory],
        tasks: Sequence[str],
        rng: random.Random,
    ) -> tuple[list[Case], list[UnmatchedUtterance], Counter[str]]:
        """Collect cases, utterances in unknown forms, and counts of forms in the agent's or equivalent wording."""
        by_task = {task_id: [trajectory for trajectory in failed if trajectory.task_id == task_id] for task_id in tasks}

        def works() -> Iterator[Callable[[], Studied]]:
            for number, task_id in enumerate(tasks, 1):
                self.on_progress(f"studying refused actions: task {number} of {len(tasks)}")
                offers = self._offers(slots, task_id, rng)
                # Where actions have to be tried, what the agent said comes before the walk, which is taken then.
                drawn = list(offers) if self.lab.copies > 1 else offers
                yield partial(self._studied, lists, by_task[task_id], drawn)

        studied = self.lab.share_out(works(), len(tasks))
        worded = sum((words for _, _, words in studied), Counter[str]())
        cases = [case for task_cases, _, _ in studied for case in task_cases]
        return cases, [utterance for _, heard, _ in studied for utterance in heard], worded

    def _studied(
        self, lists: DecisionLists, failed: Sequence[Trajectory], offers: Iterable[tuple[LabState, str]]
    ) -> Studied:
        """Study a task: its failed episodes and other offered actions."""
        worded: Counter[str] = Counter()
        cases: list[Case] = []
        utterances: list[UnmatchedUtterance] = []
        counts: Counter[str] = Counter()
        stuck: LabState | None = None
        for state, action, refused in replay_actions(self.lab, failed):
            template = skeleton(action, self.lab.name)[0]
            worded[lists.wordings[template].edit.detail if template in lists.wordings else template] += 1
            if not refused:
                continue
            first, stuck = state is not stuck, state
            counts[template] += 1
            if counts[template] > FAILURES_PER_TASK or not template:
                continue
            if template not in lists.vocabulary.forms:
                utterance = try_form(self.lab, lists, state, action, first=first)
                utterances += [utterance] if utterance else []
            else:
                cases.append(try_case(self.lab, lists, state, action))
        cases += [try_case(self.lab, lists, state, action) for state, action in offers]
        return cases, utterances, worded

    def _offers(self, slots: Slots, task_id: str, rng: random.Random) -> Iterator[tuple[LabState, str]]:
        """Yield actions to study from a walk, a few per template and reason."""
        counts: Counter[tuple[str, str]] = Counter()
        vocabulary = ActionVocabulary(self.lab.name)
        offers = list(proposals(walk(self.lab, vocabulary, task_id, rng), vocabulary, slots, rng))
        rng.shuffle(offers)
        for why, state, action in offers:
            if vocabulary.form(action) not in slots:
                continue
            kind = (why, vocabulary.form(action))
            counts[kind] += 1
            if counts[kind] <= CASES_PER_KIND:
                yield state, action

    # ------------------------------------------------------------ Algorithm 1, stage 2

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """Write an interface for the new misalignments."""
        details = [json.loads(misalignment.detail) for misalignment in new]
        rules = read_rule_set(interface.source)
        for learned in filter(None, (rules_in(misalignment.detail) for misalignment in new)):
            rules = merge_rules(rules, learned)
        rules = rules and drop_rules(rules, {detail["dropped"] for detail in details if "dropped" in detail})
        if rules is None:
            return interface
        old, steps = interface.provenance, self._lab.steps if self._lab else 0
        provenance = Provenance(
            environment=interface.contract.environment,
            backend=self.name,
            agent=old.agent,
            seed=self.seed,
            iterations=old.iterations + 1,
            training_tasks=tuple(
                dict.fromkeys((*old.training_tasks, *(misalignment.task_id for misalignment in new), *self.fresh_tasks))
            ),
            rules=merge_records(old.rules, new),
            engine_steps=old.engine_steps + steps - self._counted,
        )
        self._counted = steps
        source = rule_file.source(rules, interface.contract)
        return interface.model_copy(update={"name": "probe", "source": source, "provenance": provenance})
