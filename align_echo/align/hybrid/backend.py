"""Hybrid backend of ALIGN's loop: the probe first, then a model's hypotheses, each tested before use.

It keeps no state between calls except its lab: rules are read from the interface, and hypotheses travel in a
misalignment's `detail`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from align_echo.align.experiments import clip, trajectory_text
from align_echo.align.hybrid import findings
from align_echo.align.hybrid.findings import (
    Answers,
    Rule,
    about,
    about_wrong,
    extend_source,
    outcome_line,
    read_rules,
    records,
    reword_rules,
    unresolved,
)
from align_echo.align.hybrid.hypotheses import HYPOTHESIS, Hypothesis
from align_echo.align.hybrid.reading import ParsedHypotheses, parse_hypotheses
from align_echo.align.hybrid.trials import run_trials, verdict_on
from align_echo.align.llm.analyzer import ModelDialogue
from align_echo.align.llm.backend import described_models
from align_echo.align.llm.replies import LlmSettings, looks_usage
from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.emit import read_spec
from align_echo.align.showing import repeated_answers
from align_echo.errors import ModelError
from align_echo.interface.contract import Interface, identity_source
from align_echo.prompts import prompt_hash, render
from align_echo.rollout.batches import failed
from align_echo.types import ChatModel, Misalignment, Trajectory

# ---------------------------------------------------------------- ask the model for hypotheses

PROMPTS = ("analyzer/hypotheses_system", "analyzer/hypotheses")

EPISODES = 6
"""Failed episodes shown to the model, spread over all."""

OPENINGS = 4
OPENING_CHARACTERS = 1500
"""Opening texts shown of other tasks, where claims can be tested."""


def propose_hypotheses(
    model: ChatModel,
    settings: LlmSettings,
    failed: Sequence[Trajectory],
    openings: Sequence[tuple[str, str]],
    shown_already: Sequence[str],
    interface: Interface,
    action_format: str,
    note: Callable[[str], None],
) -> tuple[Hypothesis, ...]:
    """Ask the model for hypotheses and note each unreadable one.

    `openings` pairs task ids with opening texts. Raises `ModelError`.
    """
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
    prompt = render("analyzer/hypotheses", values)
    tasks = {*(episode.task_id for episode in chosen), *(task_id for task_id, _ in openings)}
    dialogue = ModelDialogue(model, system, temperature=settings.analyzer_temperature, max_tokens=settings.max_tokens)

    def parse(reply: str) -> ParsedHypotheses:
        return parse_hypotheses(reply, tasks, prompt)

    try:
        proposals = dialogue.ask(prompt, parse, tries=settings.format_tries)
    except ModelError as error:
        raise type(error)(f"proposing hypotheses broke: {error}") from error
    for reason in proposals.unread:
        note(f"a hypothesis was left out, since it could not be read: {reason}")
    return proposals.hypotheses


# ---------------------------------------------------------------- the hybrid backend of ALIGN's loop

TASKS = 8
"""Fresh tasks for testing hypotheses."""


class HybridBackend:
    """Backend with a probe and a chat model. `probe` learns first and shares its lab; `analyzer_model` proposes
    hypotheses and `optimizer_model` words the confirmed ones.

    Rules are tested on `fresh_tasks`. `allow_untested` keeps and marks undecided hypotheses. `note` logs each result.
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

        Also reports earlier rules refuted by now. Raises `ModelError`.
        """
        from_probe, lost = self._probe.analyze(played, known, interface), failed(played)
        rules, _ = read_rules(interface.source)
        before = [HYPOTHESIS.validate_python(rule["hypothesis"]) for rule in rules]
        known_rules = [record.text for record in interface.provenance.rules]
        known_rules += [misalignment.rule for misalignment in (*known, *from_probe)]
        hypotheses = self._proposed(lost, known_rules, interface)
        new = [hypothesis for hypothesis in hypotheses if hypothesis not in before]
        return [*from_probe, *self._tried(lost, rules, before, new)]

    def _proposed(
        self, failed: Sequence[Trajectory], known_rules: Sequence[str], interface: Interface
    ) -> tuple[Hypothesis, ...]:
        lab = self._probe.lab
        tasks = self._untouched(failed)[:OPENINGS]
        openings = [(task_id, "\n".join(lab.env.opening(lab.start(task_id).observation))) for task_id in tasks]
        self._say(f"asking {self._analyzer.name} for hypotheses")
        hypotheses = propose_hypotheses(
            self._analyzer,
            self._settings,
            failed,
            openings,
            known_rules,
            interface,
            self._action_format,
            self._note,
        )
        self._note(f"{len(hypotheses)} hypotheses proposed by {self._analyzer.name}")
        return hypotheses

    def _tried(
        self,
        failed: Sequence[Trajectory],
        rules: Sequence[Rule],
        before: Sequence[Hypothesis],
        new: Sequence[Hypothesis],
    ) -> list[Misalignment]:
        everything = [*before, *new]
        if not everything:
            return []
        rng = random.Random(f"{self._seed}/hypotheses")
        tallies, judge = run_trials(
            self._probe.lab, everything, failed, self._untouched(failed)[:TASKS], rng, self._say
        )
        reported = []
        for rule, tally in zip(rules, tallies, strict=False):
            if tally.refuted:
                reported.append(about_wrong(rule, tally))
        for hypothesis, tally in zip(new, tallies[len(before) :], strict=True):
            self._note(outcome_line(hypothesis, tally, allow_untested=self._allow_untested))
            verdict = verdict_on(hypothesis, tally)
            if verdict == "kept" or (verdict == "untested" and self._allow_untested):
                reported.append(about(hypothesis, tally, judge.refusals(), failed[0].task_id))
        return reported

    def _untouched(self, failed: Sequence[Trajectory]) -> list[str]:
        """Return fresh tasks without a shown failure; all if there are none."""
        seen = {trajectory.task_id for trajectory in failed}
        return [task_id for task_id in self._fresh if task_id not in seen] or self._fresh

    # ------------------------------------------------------------ Algorithm 1, stage 2

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """Write an interface that resolves the new misalignments: the probe's rules, rewritten, plus the others."""
        details: list[dict[str, Any]] = [json.loads(misalignment.detail) for misalignment in new]
        own = [("hypothesis" in detail or "withdrawn" in detail) for detail in details]
        of_probe = [misalignment for misalignment, mine in zip(new, own, strict=True) if not mine]
        of_model = [misalignment for misalignment, mine in zip(new, own, strict=True) if mine]
        rules, answers = read_rules(interface.source)
        plain = interface.model_copy(update={"source": self._without_rules(interface, rules)})
        written = self._probe.optimize(of_probe, plain)
        gone = [detail["withdrawn"] for detail in details if "withdrawn" in detail]
        added = [detail for detail in details if "hypothesis" in detail]
        rules = [rule for rule in rules if rule["hypothesis"] not in gone]
        if added:
            rules += self._worded([detail["hypothesis"] for detail in added], interface)
        for detail in added:
            answers = _merge_answers(answers, detail["answers"])
        provenance = written.provenance.model_copy(
            update={
                "backend": self.name,
                "rules": records(written.provenance.rules, of_model),
                "unresolved": unresolved(interface.provenance.unresolved, of_model),
                "iterations": interface.provenance.iterations + 1,
                "engine_steps": interface.provenance.engine_steps + self._steps_since(),
                "training_tasks": tuple(
                    dict.fromkeys(
                        (*written.provenance.training_tasks, *(rule.task_id for rule in of_model), *self._fresh)
                    )
                ),
            }
        )
        source = extend_source(written.source, written.contract, rules, answers) if rules else written.source
        return written.model_copy(update={"name": self.name, "source": source, "provenance": provenance})

    def _without_rules(self, interface: Interface, rules: Sequence[Rule]) -> str:
        """Return an interface's source without hypothesis rules; the probe rewrites its own part."""
        if not rules or read_spec(interface.source) is not None:
            return interface.source
        return identity_source(interface.contract)

    def _steps_since(self) -> int:
        """Count engine steps since the last call."""
        steps = self._probe.lab.steps
        since, self._counted = steps - self._counted, steps
        return since

    def _worded(self, rules: Sequence[Rule], interface: Interface) -> list[Rule]:
        self._say(f"asking {self._optimizer.name} for words")
        return reword_rules(
            rules,
            self._optimizer,
            self._settings,
            environment=interface.contract.environment,
            action_format=self._action_format,
            note=self._note,
        )


def _merge_answers(before: Answers, new: Answers) -> Answers:
    """Merge refusals by form of two iterations."""
    return {form: sorted({*before.get(form, ()), *new.get(form, ())}) for form in sorted({*before, *new})}
