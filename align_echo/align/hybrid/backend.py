"""Hybrid backend of ALIGN's loop: the probe first, then a model's hypotheses, each tested before use.

It keeps no state between calls except its lab: rules are read from the interface, and hypotheses travel in a
misalignment's `detail`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from align_echo.align import refutation
from align_echo.align.budget import BudgetSpentError
from align_echo.align.experiments import clip, trajectory_text
from align_echo.align.hybrid import findings
from align_echo.align.hybrid.findings import about, about_wrong, outcome_line
from align_echo.align.hybrid.hypotheses import ActionJudge, Hypothesis, in_words, list_trials
from align_echo.align.hybrid.reading import ParsedHypotheses, parse_hypotheses
from align_echo.align.hybrid.rules import as_hypothesis, as_rule, fit_forms, rule_set
from align_echo.align.hybrid.trials import HypothesisCounts, play_attack, run_trials, try_as_told, verdict_on
from align_echo.align.llm.analyzer import ModelDialogue, ask_attack
from align_echo.align.llm.backend import described_models
from align_echo.align.llm.replies import LlmSettings, looks_usage
from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.effects.outcomes import distinct_actions, episode_actions, episode_texts
from align_echo.align.probe.rule_file import merge_rules, read_rule_set, rules_in
from align_echo.align.refutation import MIN_TASKS, SHOWN_TASKS, Openings, attack_system, narrow_prompt
from align_echo.align.showing import repeated_answers
from align_echo.errors import ModelError, NoAnswerError
from align_echo.interface.contract import Interface
from align_echo.interface.rules.actions import ActionGrammar, declared_forms, seen_forms
from align_echo.interface.rules.answers import fit_reader
from align_echo.interface.rules.model import Rule, RuleSet, load_rules
from align_echo.prompts import prompt_hash, render
from align_echo.registry import quantity
from align_echo.rollout.batches import failed
from align_echo.types import ChatModel, Misalignment, Trajectory

# ---------------------------------------------------------------- ask the model for hypotheses

PROMPTS = ("analyzer/hypotheses_system", "analyzer/hypotheses", *refutation.PROMPTS)

EPISODES = 6
"""Failed episodes shown to the model, spread over all."""

OPENINGS = 4
OPENING_CHARACTERS = 1500
"""Opening texts shown of other tasks, where claims can be tested."""


class Proposer:
    """Author of hypotheses: a dialogue with the model. `openings` pairs task ids with opening texts; `note` tells each
    unreadable hypothesis."""

    def __init__(
        self,
        model: ChatModel,
        settings: LlmSettings,
        failed: Sequence[Trajectory],
        openings: Openings,
        shown_already: Sequence[str],
        interface: Interface,
        action_format: str,
        note: Callable[[str], None],
    ) -> None:
        chosen = failed[:: -(-len(failed) // EPISODES)]
        system = render(
            "analyzer/hypotheses_system",
            {
                "environment": interface.contract.environment,
                "action_format": action_format,
                "signature": f"The rules will be told to agents by two functions, {interface.contract.signature}.",
                "looks": looks_usage(interface),
            },
        )
        values = {
            "episodes": [
                {
                    "task_id": episode.task_id,
                    "goal": episode.goal,
                    "log": trajectory_text(episode, settings.episode_characters),
                }
                for episode in chosen
            ],
            "again": repeated_answers(failed),
            "openings": [{"task_id": task_id, "text": clip(text, OPENING_CHARACTERS)} for task_id, text in openings],
            "known": "\n".join(f"- {text}" for text in dict.fromkeys(shown_already)) or "nothing yet",
        }
        self._prompt = render("analyzer/hypotheses", values)
        self._tasks = {*(episode.task_id for episode in chosen), *(task_id for task_id, _ in openings)}
        self._played = {episode.task_id: episode.actions for episode in chosen}
        self._dialogue = ModelDialogue(
            model, system, temperature=settings.analyzer_temperature, max_tokens=settings.max_tokens
        )
        self._tries = settings.format_tries
        self._note = note

    def propose(self) -> tuple[Hypothesis, ...]:
        """Ask for hypotheses. Raises `ModelError`."""
        try:
            return self._ask(self._prompt)
        except ModelError as error:
            raise type(error)(f"proposing hypotheses broke: {error}") from error

    def narrow(self, refuted: Sequence[TriedHypothesis]) -> tuple[Hypothesis, ...]:
        """Ask once for narrower hypotheses in place of refuted ones. Raises `ModelError`."""
        pairs = [(in_words(tried.hypothesis), tried.tally.counterexample) for tried in refuted]
        try:
            return self._ask(narrow_prompt(pairs, experiments=", with experiments of its own", nothing="[]"))
        except NoAnswerError as error:
            self._note(f"refuted claims are dropped, since no narrower ones could be read: {error}")
            return ()

    def _ask(self, prompt: str) -> tuple[Hypothesis, ...]:
        def parse(reply: str) -> ParsedHypotheses:
            return parse_hypotheses(reply, self._tasks, self._prompt, self._played)

        proposals = self._dialogue.ask(prompt, parse, tries=self._tries)
        for reason in proposals.unread:
            self._note(f"a hypothesis was left out, since it could not be read: {reason}")
        return proposals.hypotheses


class TriedHypothesis(NamedTuple):
    """Hypothesis with its trials and the judge that knows its refusals."""

    hypothesis: Hypothesis
    tally: HypothesisCounts
    judge: ActionJudge


# ---------------------------------------------------------------- the hybrid backend of ALIGN's loop

TASKS = 8
"""Fresh tasks for testing hypotheses."""


def _is_mended(rule: Rule, other: Rule) -> bool:
    """Whether a rule is another one, maybe with exceptions, which its text names at the end."""
    same = rule.kind == other.kind and getattr(rule, "form", "") == getattr(other, "form", "")
    return same and other.text.startswith(rule.text.removesuffix("."))


class HybridBackend:
    """Backend with a probe and a chat model. `probe` learns first and shares its lab; `analyzer_model` proposes
    hypotheses and `optimizer_model` words the confirmed ones.

    Rules are tested on `fresh_tasks`. `is_invalid` is the environment's own test of an answer for a refusal.
    `allow_untested` keeps and marks undecided hypotheses. `note` logs each result.
    """

    name = "hybrid"

    def __init__(
        self,
        probe: ProbeBackend,
        fresh_tasks: Sequence[str],
        *,
        analyzer_model: ChatModel,
        optimizer_model: ChatModel,
        action_format: str,
        settings: LlmSettings | None = None,
        is_invalid: Callable[[str], bool] | None = None,
        allow_untested: bool = False,
        seed: int = 0,
        note: Callable[[str], None] | None = None,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        self._probe = probe
        self._fresh = list(fresh_tasks)
        self._analyzer = analyzer_model
        self._optimizer = optimizer_model
        self._action_format = action_format
        self._settings = settings or LlmSettings()
        self._is_invalid = is_invalid
        self._allow_untested = allow_untested
        self._seed = seed
        self._note = note or (lambda _: None)
        self._say = on_progress or (lambda _: None)
        self._counted = 0

    def describe(self) -> dict[str, str]:
        """Describe models, endpoints or weights, prompt hashes and settings."""
        prompts = {f"prompt.{name}": prompt_hash(name) for name in (*PROMPTS, *findings.PROMPTS)}
        settings = {"allow_untested": str(self._allow_untested), "max_tokens": str(self._settings.max_tokens)}
        models = described_models(analyzer=self._analyzer, optimizer=self._optimizer)
        return {**models, **prompts, **settings}

    # ------------------------------------------------------------ Algorithm 1, stage 1

    def analyze(
        self, played: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """Return the probe's findings and the confirmed hypotheses of the model.

        Also reports earlier rules refuted by now. Where the budget ends, hypotheses count by their trials so far.
        Raises `ModelError`.
        """
        from_probe, lost = self._probe.analyze(played, known, interface), failed(played)
        try:
            return [*from_probe, *self._from_model(lost, played, known, from_probe, interface)]
        except BudgetSpentError as error:
            self._note(f"no hypothesis was tried: the budget of {error} was spent before")
            return from_probe

    def _from_model(
        self,
        lost: Sequence[Trajectory],
        played: Sequence[Trajectory],
        known: Sequence[Misalignment],
        from_probe: Sequence[Misalignment],
        interface: Interface,
    ) -> list[Misalignment]:
        base = self._known_rules(played, from_probe, interface)
        grammar = ActionGrammar(base.forms)
        pairs = [(rule, hypothesis) for rule in base.rules if (hypothesis := as_hypothesis(rule, grammar)) is not None]
        before = [hypothesis for _, hypothesis in pairs]
        known_rules = [record.text for record in interface.provenance.rules]
        known_rules += [misalignment.rule for misalignment in (*known, *from_probe)]
        proposer = Proposer(
            self._analyzer,
            self._settings,
            lost,
            self._openings(self._untouched(lost)[:OPENINGS]),
            known_rules,
            interface,
            self._action_format,
            self._note,
        )
        self._say(f"asking {self._analyzer.name} for hypotheses")
        hypotheses = proposer.propose()
        self._note(f"{len(hypotheses)} hypotheses proposed by {self._analyzer.name}")
        new = [hypothesis for hypothesis in hypotheses if hypothesis not in before]
        tried = self._tried(lost, [*before, *new], base)
        reported = [
            about_wrong(*pair, each.tally) for pair, each in zip(pairs, tried, strict=False) if each.tally.refuted
        ]
        fresh = tried[len(before) :]
        try:
            refuted = self._attacked(lost, fresh, interface)
            if refuted:
                narrower = [hypothesis for hypothesis in proposer.narrow(refuted) if hypothesis not in (*before, *new)]
                self._note(f"{len(refuted)} refuted by counter-experiments; {len(narrower)} narrower ones proposed")
                again = self._tried(lost, narrower, base)
                fresh += again
                self._attacked(lost, again, interface)
        except BudgetSpentError as error:
            self._note(f"not all counter-experiments were tried: the budget of {error} is spent")
        told = self._told(lost, fresh, base)
        for number, (hypothesis, tally, _) in enumerate(fresh):
            self._note(outcome_line(hypothesis, tally, allow_untested=self._allow_untested))
            if number in told and not tally.refuted:
                reported.append(about(hypothesis, tally, told[number], lost[0].task_id))
        return reported

    def _told(
        self, lost: Sequence[Trajectory], fresh: Sequence[TriedHypothesis], base: RuleSet
    ) -> dict[int, RuleSet]:
        """Return the hypotheses that are told to agents as rules, by number. Where nothing is listed, try them so."""
        told: dict[int, RuleSet] = {}
        for number, (hypothesis, tally, judge) in enumerate(fresh):
            verdict = verdict_on(hypothesis, tally)
            if verdict in ("kept", "played") or (verdict == "untested" and self._allow_untested):
                rule = self._as_rule(hypothesis, tally, judge)
                if rule is not None:
                    told[number] = rule_set([rule], base, judge.grammar, judge.refusals())
        if self._probe.lists(lost[0].task_id):
            return told
        count = len(told) + 1
        while told and len(told) < count:  # a rule that fell may have spoken in another's place
            count = len(told)
            told = self._as_told(told, lost, fresh, base)
        return told

    def _as_told(
        self,
        told: Mapping[int, RuleSet],
        lost: Sequence[Trajectory],
        fresh: Sequence[TriedHypothesis],
        base: RuleSet,
    ) -> dict[int, RuleSet]:
        """Try rules together as agents are told them. Return those that helped; the others are refuted."""
        together = reduce(merge_rules, told.values(), base)
        rng = random.Random(f"{self._seed}/told")
        left, book = try_as_told(self._probe.lab, together, lost, self._untouched(lost)[:TASKS], rng, self._say)
        stand: dict[int, RuleSet] = {}
        for number, rules in told.items():
            (rule,) = rules.rules
            mended = next((each for each in left.rules if _is_mended(rule, each)), None)
            if mended is None or not book.helps(mended) or not (mended == rule or book.may_stand(mended)):
                task_id, _, action = book.counterexample(rule).partition(": ")
                fresh[number].tally.failed(task_id, action, "what the rule says does not help")
            else:
                stand[number] = rule_set([mended], base, ActionGrammar(together.forms), together.refusals)
        return stand

    def _known_rules(
        self, played: Sequence[Trajectory], from_probe: Sequence[Misalignment], interface: Interface
    ) -> RuleSet:
        """Return the rules as data that are known by now, with all known forms of actions."""
        rules = read_rule_set(interface.source)
        for new in filter(None, (rules_in(misalignment.detail) for misalignment in from_probe)):
            rules = merge_rules(rules, new)
        rules = rules or RuleSet(reader=fit_reader(episode_texts(played), episode_actions(played)))
        forms = {form.name: form for form in (*declared_forms(self._action_format), *rules.forms)}
        forms |= {form.name: form for form in seen_forms(distinct_actions(played), forms.values()) if form.tool}
        return rules.model_copy(update={"forms": tuple(forms.values())})

    def _as_rule(self, hypothesis: Hypothesis, tally: HypothesisCounts, judge: ActionJudge) -> Rule | None:
        verdict = verdict_on(hypothesis, tally)
        played = tally.attack.as_played() if verdict == "played" else ""
        try:
            return as_rule(
                hypothesis,
                judge.grammar,
                judge.refusals(),
                latest=tally.undoes,
                untested=verdict == "untested",
                played=played,
            )
        except ValueError as error:
            self._note(f"left out: {in_words(hypothesis)} ({error})")
            return None

    def _openings(self, tasks: Sequence[str]) -> Openings:
        lab = self._probe.lab
        return [(task_id, "\n".join(lab.env.opening(lab.start(task_id).observation))) for task_id in tasks]

    def _tried(
        self, failed: Sequence[Trajectory], hypotheses: Sequence[Hypothesis], base: RuleSet
    ) -> list[TriedHypothesis]:
        if not hypotheses:
            return []
        rng = random.Random(f"{self._seed}/hypotheses")
        fresh = self._untouched(failed)[:TASKS]
        lab = self._probe.lab
        grammar = ActionGrammar(fit_forms(hypotheses, base.forms))
        tallies, judge = run_trials(
            lab, hypotheses, failed, fresh, rng, self._say, grammar, base.reader, self._is_invalid
        )
        return [TriedHypothesis(*pair, judge) for pair in zip(hypotheses, tallies, strict=True)]

    def _attacked(
        self, failed: Sequence[Trajectory], tried: Sequence[TriedHypothesis], interface: Interface
    ) -> list[TriedHypothesis]:
        """Attack what withstood its trials by counter-experiments of another call, and return what they refute."""
        standing = [each for each in tried if verdict_on(each.hypothesis, each.tally) in ("kept", "played")]
        if not standing:
            return []
        untouched = self._untouched(failed)
        seen = (episode.task_id for episode in failed)
        tasks = list(dict.fromkeys((*untouched[:OPENINGS], *seen, *untouched)))[:SHOWN_TASKS]
        if len(tasks) < MIN_TASKS:
            self._note(f"no claim can be tested in {MIN_TASKS} tasks: the run has {quantity(len(tasks), 'task')}")
        openings = [(task_id, clip(text, OPENING_CHARACTERS)) for task_id, text in self._openings(tasks)]
        claims = [(in_words(each.hypothesis), list_trials(each.hypothesis)) for each in standing]
        self._say(f"asking {self._analyzer.name} for counter-experiments")
        trials = ask_attack(
            self._analyzer,
            self._settings,
            attack_system(interface.contract.environment, self._action_format),
            claims,
            openings,
            self._note,
        )
        for number, each in enumerate(standing):
            play_attack(each.judge, each.hypothesis, each.tally, trials.get(number, ()))
        return [each for each in standing if each.tally.refuted]

    def _untouched(self, failed: Sequence[Trajectory]) -> list[str]:
        """Return fresh tasks without a shown failure; all if there are none."""
        seen = {trajectory.task_id for trajectory in failed}
        return [task_id for task_id in self._fresh if task_id not in seen] or self._fresh

    # ------------------------------------------------------------ Algorithm 1, stage 2

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """Write an interface for the new misalignments: the probe's rules, rewritten, plus the others."""
        details: list[dict[str, Any]] = [json.loads(misalignment.detail) for misalignment in new]
        own = [("confirmed" in detail or "withdrawn" in detail) for detail in details]
        of_probe = [misalignment for misalignment, mine in zip(new, own, strict=True) if not mine]
        of_model = [misalignment for misalignment, mine in zip(new, own, strict=True) if mine]
        rules = read_rule_set(interface.source)
        written = self._probe.optimize(of_probe, interface)
        rules = read_rule_set(written.source) or rules
        gone = [detail["withdrawn"] for detail in details if "withdrawn" in detail]
        if rules is not None and gone:
            left = tuple(rule for rule in rules.rules if rule.model_dump(mode="json") not in gone)
            rules = rules.model_copy(update={"rules": left})
        added = [detail for detail in details if "confirmed" in detail]
        if added:
            proposed = reduce(merge_rules, (load_rules(detail["ruleset"]) for detail in added))
            rules = merge_rules(rules, self._worded(proposed, interface))
        records = findings.records(written.provenance.rules, of_model)
        provenance = written.provenance.model_copy(
            update={
                "backend": self.name,
                "rules": records,
                "unresolved": findings.unresolved(interface.provenance.unresolved, of_model),
                "iterations": interface.provenance.iterations + 1,
                "engine_steps": interface.provenance.engine_steps + self._steps_since(),
                "training_tasks": tuple(
                    dict.fromkeys(
                        (*written.provenance.training_tasks, *(rule.task_id for rule in of_model), *self._fresh)
                    )
                ),
            }
        )
        source = written.source
        if rules is not None and rules.rules:
            source = findings.write_source(written.source, written.contract, rules, records)
        return written.model_copy(update={"name": self.name, "source": source, "provenance": provenance})

    def _steps_since(self) -> int:
        """Count engine steps since the last call."""
        steps = self._probe.lab.steps
        since, self._counted = steps - self._counted, steps
        return since

    def _worded(self, rules: RuleSet, interface: Interface) -> RuleSet:
        self._say(f"asking {self._optimizer.name} for words")
        try:
            return findings.reword_rules(
                rules,
                self._optimizer,
                self._settings,
                environment=interface.contract.environment,
                action_format=self._action_format,
                note=self._note,
            )
        except BudgetSpentError as error:
            self._note(f"the rules are told in plain words: the budget of {error} is spent")
            return rules
