"""Hybrid backend of ALIGN's loop: the probe first, then a model's hypotheses, each tested before use.

It keeps no state between calls except its lab: rules are read from the interface, and hypotheses travel in a
misalignment's `detail`.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

from align_echo.agents.parsing import visible_text
from align_echo.align import refutation
from align_echo.align.budget import BudgetSpentError
from align_echo.align.experiments import clip, trajectory_text
from align_echo.align.hybrid.hypotheses import (
    UNTESTED,
    ActionJudge,
    Hypothesis,
    NeededStep,
    StatedClaim,
    WrongWording,
    as_hypothesis,
    as_rule,
    fit_forms,
    in_words,
    is_own,
    list_forms,
    list_trials,
    rule_set,
    said_as,
    slots_of,
    spoken_forms,
    with_letters,
)
from align_echo.align.hybrid.reading import ParsedHypotheses, json_values, parse_hypotheses
from align_echo.align.hybrid.trials import HypothesisCounts, Verdict, play_attack, run_trials, try_as_told, verdict_on
from align_echo.align.llm.backend import ModelDialogue, ask_attack, described_models
from align_echo.align.llm.replies import LlmSettings, looks_usage
from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.effects.outcomes import distinct_actions, episode_actions, episode_texts
from align_echo.align.probe.findings import WRONG, report, rules_in
from align_echo.align.refutation import MIN_TASKS, SHOWN_TASKS, Openings, attack_system, narrow_prompt
from align_echo.align.showing import repeated_answers
from align_echo.errors import ContextOverflowError, ModelError, NoAnswerError, ReplyFormatError, UsageError
from align_echo.interface.contract import Interface, InterfaceContract, RuleRecord, identity_source
from align_echo.interface.rules import rule_file
from align_echo.interface.rules.actions import ActionGrammar, declared_forms, seen_forms
from align_echo.interface.rules.answers import fit_reader
from align_echo.interface.rules.model import Rule, RuleSet, dump, load_rules
from align_echo.interface.rules.rule_file import merge_rules, read_rule_set
from align_echo.models.spending import SpentError
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
        self._failed, self._openings, self._known = failed, openings, list(dict.fromkeys(shown_already))
        self._settings, self._model = settings, model
        self._system = render(
            "analyzer/hypotheses_system",
            {
                "environment": interface.contract.environment,
                "action_format": action_format,
                "signature": f"The rules will be told to agents by two functions, {interface.contract.signature}.",
                "looks": looks_usage(interface),
            },
        )
        self._note = note
        self._begin(EPISODES)

    def _begin(self, most: int) -> None:
        """Begin the dialogue by a prompt with so many episodes at most, the fewer the shorter."""
        chosen = self._failed[:: -(-len(self._failed) // most)]
        share = most / EPISODES
        openings = self._openings[: math.ceil(len(self._openings) * share)]
        characters, opening_characters = (
            int(length * share) for length in (self._settings.episode_characters, OPENING_CHARACTERS)
        )
        values = {
            "episodes": [
                {"task_id": episode.task_id, "goal": episode.goal, "log": trajectory_text(episode, characters)}
                for episode in chosen
            ],
            "again": repeated_answers(self._failed),
            "openings": [{"task_id": task_id, "text": clip(text, opening_characters)} for task_id, text in openings],
            "known": "\n".join(f"- {text}" for text in self._known) or "nothing yet",
        }
        self._prompt = render("analyzer/hypotheses", values)
        self._tasks = {*(episode.task_id for episode in chosen), *(task_id for task_id, _ in openings)}
        self._played = {episode.task_id: episode.actions for episode in chosen}
        self._dialogue = ModelDialogue(self._model, self._settings, self._system)

    def propose(self) -> tuple[Hypothesis, ...]:
        """Ask for hypotheses, by fewer and shorter episodes where these do not fit the context. Raises `ModelError`."""
        fewer = iter((EPISODES // 2, 1))
        while True:
            try:
                return self._ask(self._prompt)
            except ContextOverflowError as error:
                most = next(fewer, None)
                if most is None:
                    raise NoAnswerError(f"the shortest question for hypotheses is too long: {error}") from error
                self._note(f"the episodes are too long for {self._model.name}: {most} at most are shown, and shorter")
                self._begin(most)
            except ModelError as error:
                raise type(error)(f"proposing hypotheses broke: {error}") from error

    def narrow(self, refuted: Sequence[TriedHypothesis]) -> tuple[Hypothesis, ...]:
        """Ask once for narrower hypotheses in place of refuted ones. Raises `ModelError`."""
        pairs = [(in_words(tried.hypothesis), tried.tally.counterexample) for tried in refuted]
        try:
            return self._ask(narrow_prompt(pairs, experiments=", with experiments of its own", nothing="[]"))
        except (NoAnswerError, ContextOverflowError) as error:
            self._note(f"refuted claims are dropped, since no narrower ones could be read: {error}")
            return ()

    def _ask(self, prompt: str) -> tuple[Hypothesis, ...]:
        def parse(reply: str) -> ParsedHypotheses:
            return parse_hypotheses(reply, self._tasks, self._prompt, self._played)

        proposals = self._dialogue.ask(prompt, parse)
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


@dataclass
class HybridBackend:
    """Backend with a probe and a chat model. `probe` learns first and shares its lab; `analyzer_model` proposes
    hypotheses and `optimizer_model` words the confirmed ones.

    Rules are tested on `fresh_tasks`. `is_invalid` is the environment's own test of an answer for a refusal.
    `allow_untested` keeps and marks undecided hypotheses. `note` logs each result. `save` takes the interface so far
    where the model cannot be asked, before the error is raised.
    """

    name = "hybrid"
    probe: ProbeBackend
    fresh_tasks: Sequence[str]
    analyzer_model: ChatModel
    optimizer_model: ChatModel
    action_format: str
    settings: LlmSettings = field(default_factory=LlmSettings)
    is_invalid: Callable[[str], bool] | None = None
    allow_untested: bool = False
    seed: int = 0
    note: Callable[[str], None] = lambda _: None
    on_progress: Callable[[str], None] = lambda _: None
    save: Callable[[Interface], None] = lambda _: None

    def describe(self) -> dict[str, str]:
        """Describe models, endpoints or weights, prompt hashes and settings."""
        prompts = {f"prompt.{name}": prompt_hash(name) for name in (*PROMPTS, *WORDING_PROMPTS)}
        settings = {"allow_untested": str(self.allow_untested), "max_tokens": str(self.settings.max_tokens)}
        if self.settings.optimizer_max_tokens is not None:
            settings["optimizer_max_tokens"] = str(self.settings.optimizer_max_tokens)
        models = described_models(analyzer=self.analyzer_model, optimizer=self.optimizer_model)
        return {**models, **prompts, **settings}

    # ------------------------------------------------------------ Algorithm 1, stage 1

    def analyze(
        self, played: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """Return the probe's findings and the confirmed hypotheses of the model.

        Also reports earlier rules refuted by now. Where the budget ends, hypotheses count by their trials so far. The
        probe's findings stand without a usable answer of the model, and are saved where it cannot be asked. Raises
        `ModelError`, or `UsageError` for an endpoint that is not there or refuses the key.
        """
        from_probe, lost = self.probe.analyze(played, known, interface), failed(played)
        try:
            return [*from_probe, *self._from_model(lost, played, known, from_probe, interface)]
        except BudgetSpentError as error:
            self.note(f"no hypothesis was tried: the budget of {error} was spent before")
            return from_probe
        except NoAnswerError as error:
            if not from_probe:
                raise
            self.note(f"no hypothesis was tried, and what the probe found stands: {error}")
            return from_probe
        except (ModelError, UsageError):
            found = self.probe.optimize(from_probe, interface) if from_probe else interface
            if found.provenance.rules:
                self.save(found)
            raise

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
        openings, model = self._openings(self._untouched(lost)[:OPENINGS]), self.analyzer_model
        proposer = Proposer(
            model, self.settings, lost, openings, known_rules, interface, self.action_format, self.note
        )
        self.on_progress(f"asking {self.analyzer_model.name} for hypotheses")
        hypotheses = proposer.propose()
        self.note(f"{len(hypotheses)} hypotheses proposed by {self.analyzer_model.name}")
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
                self.note(f"{len(refuted)} refuted by counter-experiments; {len(narrower)} narrower ones proposed")
                again = self._tried(lost, narrower, base)
                fresh += again
                self._attacked(lost, again, interface)
        except BudgetSpentError as error:
            self.note(f"not all counter-experiments were tried: the budget of {error} is spent")
        told = self._told(lost, fresh, base)
        for number, (hypothesis, tally, _) in enumerate(fresh):
            self.note(outcome_line(hypothesis, tally, allow_untested=self.allow_untested))
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
            if verdict in ("kept", "played") or (verdict == "untested" and self.allow_untested):
                rule = self._as_rule(hypothesis, tally, judge)
                if rule is not None:
                    told[number] = rule_set([rule], base, judge.grammar, judge.refusals())
        if self.probe.lists(lost[0].task_id):
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
        rng = random.Random(f"{self.seed}/told")
        left, book = try_as_told(self.probe.lab, together, lost, self._untouched(lost)[:TASKS], rng, self.on_progress)
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
        forms = {form.name: form for form in (*declared_forms(self.action_format), *rules.forms)}
        forms |= {form.name: form for form in seen_forms(distinct_actions(played), forms.values()) if form.tool}
        return rules.model_copy(update={"forms": tuple(forms.values())})

    def _as_rule(self, hypothesis: Hypothesis, tally: HypothesisCounts, judge: ActionJudge) -> Rule | None:
        untested, played = verdict_on(hypothesis, tally) == "untested", ""
        if verdict_on(hypothesis, tally) == "played":
            played = tally.attack.as_played()
        refusals, latest = judge.refusals(), tally.undoes
        try:
            return as_rule(hypothesis, judge.grammar, refusals, latest=latest, untested=untested, played=played)
        except ValueError as error:
            self.note(f"left out: {in_words(hypothesis)} ({error})")
            return None

    def _openings(self, tasks: Sequence[str]) -> Openings:
        lab = self.probe.lab
        return [(task_id, "\n".join(lab.env.opening(lab.start(task_id).observation))) for task_id in tasks]

    def _tried(
        self, failed: Sequence[Trajectory], hypotheses: Sequence[Hypothesis], base: RuleSet
    ) -> list[TriedHypothesis]:
        if not hypotheses:
            return []
        rng = random.Random(f"{self.seed}/hypotheses")
        fresh = self._untouched(failed)[:TASKS]
        lab = self.probe.lab
        grammar = ActionGrammar(fit_forms(hypotheses, base.forms))
        tallies, judge = run_trials(
            lab, hypotheses, failed, fresh, rng, self.on_progress, grammar, base.reader, self.is_invalid
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
            self.note(f"no claim can be tested in {MIN_TASKS} tasks: the run has {quantity(len(tasks), 'task')}")
        openings = [(task_id, clip(text, OPENING_CHARACTERS)) for task_id, text in self._openings(tasks)]
        claims = [(in_words(each.hypothesis), list_trials(each.hypothesis)) for each in standing]
        self.on_progress(f"asking {self.analyzer_model.name} for counter-experiments")
        system = attack_system(interface.contract.environment, self.action_format)
        trials = ask_attack(self.analyzer_model, self.settings, system, claims, openings, self.note)
        for number, each in enumerate(standing):
            play_attack(each.judge, each.hypothesis, each.tally, trials.get(number, ()))
        return [each for each in standing if each.tally.refuted]

    def _untouched(self, failed: Sequence[Trajectory]) -> list[str]:
        """Return fresh tasks without a shown failure; all if there are none."""
        seen = {trajectory.task_id for trajectory in failed}
        return [task_id for task_id in self.fresh_tasks if task_id not in seen] or list(self.fresh_tasks)

    # ------------------------------------------------------------ Algorithm 1, stage 2

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """Write an interface for the new misalignments, with the model's words for its own rules."""
        written = self.probe.optimize(new, interface)
        rules, source = read_rule_set(written.source), written.source
        unresolved = list_unresolved(interface.provenance.unresolved, new)
        provenance = written.provenance.model_copy(update={"backend": self.name, "unresolved": unresolved})
        if rules is not None and rules.rules:
            details = [json.loads(misalignment.detail) for misalignment in new]
            own = [load_rules(detail["ruleset"]) for detail in details if "confirmed" in detail]
            rules = self._worded(rules, reduce(merge_rules, own), interface) if own else rules
            source = write_source(interface.source, interface.contract, rules, provenance.rules)
        return written.model_copy(update={"name": self.name, "source": source, "provenance": provenance})

    def _worded(self, rules: RuleSet, own: RuleSet, interface: Interface) -> RuleSet:
        """Return rules with the model's words for its own ones."""
        self.on_progress(f"asking {self.optimizer_model.name} for words")
        role = {"environment": interface.contract.environment, "action_format": self.action_format}
        try:
            worded = reword_rules(own, self.optimizer_model, self.settings, role, self.note).rules
        except BudgetSpentError as error:
            self.note(f"the rules are told in plain words: the budget of {error} is spent")
            return rules
        told = tuple(worded[own.rules.index(rule)] if rule in own.rules else rule for rule in rules.rules)
        return rules.model_copy(update={"rules": told})


# ---------------------------------------------------------------- what is reported


def about(hypothesis: Hypothesis, tally: HypothesisCounts, rules: RuleSet, failed_task: str) -> Misalignment:
    """Convert a confirmed, untested or merely played hypothesis into a misalignment.

    `rules` holds it as a rule. A hypothesis without trials is reported for `failed_task`.
    """
    task_id, action = tally.example
    (rule,) = rules.rules
    return Misalignment(
        task_id=task_id or failed_task,
        action_type=list_forms(hypothesis)[0],
        action=action or list_forms(hypothesis)[0],
        intent=f"do `{hypothesis.right}`" if isinstance(hypothesis, WrongWording) else "get on with the task",
        rule=rule.text.removeprefix(UNTESTED).removesuffix("."),
        sufficient_feedback=_written_hint(rule.say, hypothesis),
        evidence=tally.evidence,
        detail=json.dumps({"ruleset": dump(rules), "confirmed": verdict_on(hypothesis, tally) == "kept"}),
    )


def about_wrong(rule: Rule, hypothesis: Hypothesis, tally: HypothesisCounts) -> Misalignment:
    """Report an existing rule refuted by a trial."""
    task_id, action, *_ = (*tally.counterexample.split(": "), "", "")
    return report(
        f"{WRONG}{in_words(hypothesis)}",
        (task_id, action or list_forms(hypothesis)[0]),
        tally.evidence,
        None,
        kind=list_forms(hypothesis)[0],
        intent="follow the interface's hint",
        feedback="leave the hint out",
        dropped=rule.text,
    )


def _written_hint(say: str, hypothesis: Hypothesis) -> str:
    """Return a message with the hypothesis's forms in it."""
    action, step, *_ = (*spoken_forms(hypothesis), "", "")
    return say.replace("{action}", action).replace("{step}", step)


def outcome_line(hypothesis: Hypothesis, tally: HypothesisCounts, *, allow_untested: bool) -> str:
    """Describe a hypothesis's result in a line with its counts."""
    verdict: Verdict = verdict_on(hypothesis, tally)
    tasks = quantity(len(tally.tasks), "task")
    counts = f"{quantity(tally.support, 'trial')} for it and {tally.refuted} against, in {tasks}"
    claim = in_words(hypothesis)
    if verdict == "kept":
        confirmed = "confirmed" if tally.withstood >= MIN_TASKS else "stood its trials"
        return f"{confirmed}: {claim} ({counts}; counter-experiments in {quantity(tally.withstood, 'task')})"
    if verdict == "played":
        attack = f"counter-experiments in {quantity(tally.withstood, 'task')}, so it is told as what was played"
        return f"not confirmed: {claim} ({counts}; {attack})"
    if verdict == "refuted":
        return f"refuted: {claim} ({counts}; {tally.counterexample})"
    why = "too few" if tally.support else "no state was found in which it says anything"
    if isinstance(hypothesis, WrongWording) and tally.support and tally.meaning != "meant":
        why = "what agents mean by it cannot be told from where they say it"
    fate = "it is kept all the same and marked" if allow_untested else "it is left out; --allow-untested keeps such"
    return f"untested: {claim} ({counts}: {why}; {fate})"


def list_unresolved(old: Sequence[str], new: Sequence[Misalignment]) -> tuple[str, ...]:
    """List misalignments without confirmed rules, untested ones included, refuted ones excluded."""
    gone = {misalignment.text.replace(WRONG, "", 1) for misalignment in new if misalignment.kind == "bug-of-current"}
    untested = [each.text for each in new if not json.loads(each.detail).get("confirmed", True)]
    return tuple(dict.fromkeys((*(text for text in old if text not in gone), *untested)))


# ---------------------------------------------------------------- the words in which agents are told what holds

WORDING_PROMPTS = ("optimizer/wording_system", "optimizer/wording")
LONGEST_WORDS = 400


def reword_rules(
    rules: RuleSet, model: ChatModel, settings: LlmSettings, role: Mapping[str, str], note: Callable[[str], None]
) -> RuleSet:
    """Reword rules with the model, in a `role`, where its words are usable; note each rejection.

    Never raises for a model that does not answer: rules do not depend on its words.
    """
    system = render("optimizer/wording_system", role)
    dialogue = ModelDialogue(model, settings, system, settings.optimizer_temperature, writes=True)
    grammar = ActionGrammar(rules.forms)
    pairs = [(rule, hypothesis) for rule in rules.rules if (hypothesis := as_hypothesis(rule, grammar)) is not None]
    plain_rules = [
        {"rule": rule.text, "hint": _written_hint(rule.say, hypothesis), "forms": list_forms(hypothesis)}
        for rule, hypothesis in pairs
    ]
    try:
        prompt = render("optimizer/wording", {"rules": plain_rules})
        written = dialogue.ask(prompt, _parse_words)
    except SpentError:
        raise
    except (ModelError, UsageError) as error:
        note(f"the rules are told in plain words, since the model's could not be read: {error}")
        return rules
    worded = [_with_words(*pair, written.get(number, {}), note) for number, pair in enumerate(pairs, start=1)]
    return rules.model_copy(update={"rules": tuple(worded)})


def problem_with(words: str, hypothesis: Hypothesis, *, hint: bool) -> str:
    """Return the problem of a model's words for a rule; "" if usable."""
    forms = [_plain(form) for form in list_forms(hypothesis)]
    named = re.findall(r"`([^`]*)`", words)
    commands = [_plain(command) for command in named]
    if not words.strip() or len(words) > LONGEST_WORDS or "\n" in words:
        return f"they are empty, have several lines or more than {LONGEST_WORDS} characters"
    if words.count("`") % 2:
        return "a backtick is not closed"
    rest = re.sub(r"`[^`]*`", "", words)
    quoted = re.findall(r'"([^"]*)"', rest)
    wrong = [command for command in (*named, *quoted) if _plain(command) not in forms]
    if wrong:
        return f"they name `{wrong[0]}`, which is no form of the rule"
    if re.search(r"[{}]", re.sub(r"\{\d\}", "", rest)):
        return "they hold braces that are no {0} to {9}"
    wanted = [_plain(_order(hypothesis))] if hint and _order(hypothesis) else []
    if not commands or any(form not in commands for form in wanted):
        return "they do not name the command that helps"
    return ""


def _order(hypothesis: Hypothesis) -> str:
    """Return the form of the command that helps, "" without one."""
    if isinstance(hypothesis, NeededStep):
        return hypothesis.step
    return hypothesis.right if isinstance(hypothesis, WrongWording) else ""


def _plain(text: str) -> str:
    """Normalise a command for comparison; letters may stand for slot numbers."""
    return said_as(with_letters(text))


def _with_words(rule: Rule, hypothesis: Hypothesis, words: dict[str, Any], note: Callable[[str], None]) -> Rule:
    if isinstance(hypothesis, StatedClaim):
        return rule
    changed: dict[str, str] = {}
    is_order = set(slots_of(_order(hypothesis))) <= set(slots_of(spoken_forms(hypothesis)[0]))
    for part, name in (("up_front", "text"), ("hint", "say")):
        text = words.get(part)
        if not isinstance(text, str) or (part == "hint" and not is_order):
            continue
        told = _as_template(text, hypothesis) if part == "hint" else with_letters(text)
        problem = problem_with(text, hypothesis, hint=part == "hint")
        if not problem and slots_of(told):
            problem = "they speak of names outside a command that is known then"
        if problem:
            note(f"the model's words for {rule.text!r} are not used, since {problem}")
        else:
            prefix = UNTESTED if name == "text" and rule.text.startswith(UNTESTED) else ""
            changed[name] = prefix + " ".join(told.split())
    return rule.model_copy(update=changed)


def _as_template(words: str, hypothesis: Hypothesis) -> str:
    """Return a model's message with {action} and {step} for the forms of the action and of the command that helps."""
    known = {_plain(spoken_forms(hypothesis)[0]): "`{action}`", _plain(_order(hypothesis)): "`{step}`"}
    return re.sub(r"`([^`]*)`", lambda command: known.get(_plain(command[1]), command[0]), words)


def _parse_words(reply: str) -> dict[int, dict[str, Any]]:
    """Map rule numbers, from 1, to their words."""
    written: dict[int, dict[str, Any]] = {}
    for value in json_values(visible_text(reply)):
        if isinstance(value, dict) and str(value.get("number", "")).strip().isdigit():
            written[int(str(value["number"]))] = value
    if not written:
        raise ReplyFormatError('it holds no words: write a JSON list of {"number", "up_front", "hint"}')
    return written


# ---------------------------------------------------------------- write the interface's source


def write_source(before: str, contract: InterfaceContract, rules: RuleSet, known: Sequence[RuleRecord]) -> str:
    """Build source from rules and an interface: code of the probe, or one with rules only.

    In code, existing words for a refused action take precedence.
    """
    if rule_file.read_rule_set(before) is not None or before == identity_source(contract):
        code = rule_file.without_docstring(rule_file.source(rules, contract))
    else:
        code = rule_file.write_beside(before, contract, rules)
    return f"{_head(contract, rules, known)}\n\n{code.strip()}\n"


def _head(contract: InterfaceContract, rules: RuleSet, known: Sequence[RuleRecord]) -> str:
    confirmed = {record.text for record in known if not record.untested}
    unsure = {record.text for record in known if record.untested}
    texts = [rule.text.removesuffix(".") for rule in rules.rules if is_own(rule)]
    lines = [
        f"Interface for {contract.environment}, learned by experiment; the .json beside it holds the evidence.",
        "",
        f"{len([text for text in texts if text not in unsure and not text.startswith(UNTESTED)])} rules were proposed "
        "by a model and stood every trial.",
    ]
    played = [text for text in texts if text in unsure - confirmed]
    if played:
        lines += ["", "No rules, but what was played:", *(f"- {text}." for text in played)]
    untested = [text.removeprefix(UNTESTED) for text in texts if text.startswith(UNTESTED)]
    if untested:
        lines += ["", "Not tested, since no state was found that could decide them (--allow-untested):"]
        lines += [f"- {text}." for text in untested]
    quoted = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''").rstrip('"')
    return f'"""{quoted}\n"""'
