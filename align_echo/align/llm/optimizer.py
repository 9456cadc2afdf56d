"""Optimizer: writes interface code that loads and runs, and refines it until experiments confirm the fix.

If no version passes its check on all misalignments, the best version is used and its record lists the open ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from align_echo.align.budget import BudgetSpentError
from align_echo.align.llm.analyzer import ModelDialogue, SimulatorFactory, experiments_text, verify
from align_echo.align.llm.replies import (
    MOST_OPERATIONS,
    CheckVerdict,
    LlmSettings,
    failures_in,
    interface_values,
    looks_usage,
    misalignments_text,
    numbered_text,
    parse_checker_move,
    parse_choice,
    parse_code,
    rules_text,
)
from align_echo.align.refutation import MIN_TASKS
from align_echo.errors import ModelError, NoAnswerError
from align_echo.interface.contract import Interface, RuleRecord, check_source
from align_echo.prompts import render
from align_echo.types import ChatModel, Misalignment

PROMPTS = (
    "optimizer/system",
    "optimizer/write",
    "optimizer/refine",
    "optimizer/checker",
    "optimizer/check",
    "optimizer/rerank",
)


class Optimizer:
    """Optimizer on chat models. `writer` writes code; `checker` runs experiments (in the paper: the analyzer's model).

    `trial` runs a candidate in the sandbox and raises `InterfaceError` on failure. `samples` holds observations at the
    misalignments.
    """

    def __init__(
        self,
        writer: ChatModel,
        checker: ChatModel,
        settings: LlmSettings,
        *,
        action_format: str,
        new_simulator: SimulatorFactory,
        trial: Callable[[Interface, Sequence[Misalignment]], None],
        samples: Callable[[Sequence[Misalignment], Interface], str],
        note: Callable[[str], None],
    ) -> None:
        self._writer = writer
        self._checker = checker
        self._settings = settings
        self._action_format = action_format
        self._new_simulator = new_simulator
        self._trial = trial
        self._samples = samples
        self._note = note

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """Write the interface that passes its check on most of `new`; return `interface` with a note if none is.

        Raises `ModelError`, or `NoAnswerError` without usable code or without a conclusion.
        """
        write = self._verified if self._settings.verify else self._chosen
        try:
            return write(new, interface)
        except BudgetSpentError as error:
            self._note(f"the previous interface is kept: the budget of {error} was spent before another was checked")
            return interface
        except ModelError as error:
            raise type(error)(f"writing the interface broke: {error}") from error

    def _verified(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        settings = self._settings
        dialogue = self._dialogue(self._writer, interface, settings.optimizer_temperature)
        prompt = self._write_prompt(new, interface)
        best, open_in_best, versions = interface, tuple(range(1, len(new) + 1)), settings.refinements + 1
        for version in range(1, versions + 1):
            try:
                candidate = self._code(dialogue, prompt, new, interface)
                verdict, tried = self._check(candidate, new)
            except (NoAnswerError, BudgetSpentError) as error:
                if best is interface:
                    raise
                self._note(f"version {version} of the interface came to nothing: {error}")
                break
            left = len(verdict.unresolved)
            stood = f"{len(new) - left} of {len(new)} misalignments"
            self._note(f"version {version} of the interface stood its check on {stood} ({tried})")
            if verdict.resolved:
                return _on_record(candidate, interface, new, ())
            if left < len(open_in_best):
                best, open_in_best = candidate, verdict.unresolved
            prompt = render("optimizer/refine", {"refinement": verdict.refinement})
        if best is interface:
            none = f"none of {versions} versions stood its check on any of {len(new)}"
            self._note(f"the previous interface is kept: {none}")
            return interface
        stood = f"{len(new) - len(open_in_best)} of {len(new)} misalignments"
        self._note(f"a version is kept that stood its check on {stood}")
        return _on_record(best, interface, new, open_in_best)

    def _chosen(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        settings = self._settings
        prompt = self._write_prompt(new, interface)
        candidates = []
        for sample in range(settings.samples):
            dialogue = self._dialogue(self._writer, interface, settings.sample_temperature, sample)
            try:
                candidates.append(self._code(dialogue, prompt, new, interface))
            except NoAnswerError as error:
                self._note(f"interface {sample + 1} of {settings.samples} came to nothing: {error}")
        if not candidates:
            raise NoAnswerError(f"none of {settings.samples} sampled interfaces could be used")
        judge = self._dialogue(self._writer, interface, settings.sample_temperature)
        values = {"new": misalignments_text(new), "candidates": [candidate.source for candidate in candidates]}
        choice = judge.ask(
            render("optimizer/rerank", values),
            lambda reply: parse_choice(reply, len(candidates)),
            tries=settings.format_tries,
        )
        return _on_record(candidates[choice], interface, new, ())

    def _dialogue(self, model: ChatModel, interface: Interface, temperature: float, sample: int = 0) -> ModelDialogue:
        values = {
            **interface_values(interface, self._action_format),
            "looks_usage": looks_usage(interface),
        }
        system = render("optimizer/system", values)
        return ModelDialogue(
            model, system, temperature=temperature, max_tokens=self._settings.max_tokens, sample=sample
        )

    def _write_prompt(self, new: Sequence[Misalignment], interface: Interface) -> str:
        values = {
            "covered": rules_text(interface),
            "new": misalignments_text(new),
            "samples": self._samples(new, interface),
        }
        return render("optimizer/write", values)

    def _code(
        self, dialogue: ModelDialogue, prompt: str, new: Sequence[Misalignment], interface: Interface
    ) -> Interface:
        """Write code that parses, matches the contract and runs; send problems back to the model."""

        def accept(reply: str) -> Interface:
            source = parse_code(reply, current=interface.source)
            check_source(source, interface.contract)
            candidate = interface.model_copy(update={"name": "llm", "source": source})
            self._trial(candidate, new)
            return candidate

        return dialogue.ask(prompt, accept, tries=self._settings.code_tries)

    def _check(self, candidate: Interface, new: Sequence[Misalignment]) -> tuple[CheckVerdict, str]:
        """Check a candidate by experiments; also return their number in words."""
        settings = self._settings
        dialogue = ModelDialogue(
            self._checker,
            render("optimizer/checker", interface_values(candidate, self._action_format)),
            temperature=settings.analyzer_temperature,
            max_tokens=settings.max_tokens,
        )
        values = {"new": numbered_text(new), "turns": settings.operations, "most": MOST_OPERATIONS}
        opening = render("optimizer/check", values)
        simulator = self._new_simulator(candidate, failures_in(new))
        try:
            verdict = verify(dialogue, simulator, opening, partial(parse_checker_move, claims=len(new)), settings)
        finally:
            simulator.close()
        return verdict, experiments_text(simulator.outcomes)


def _on_record(
    candidate: Interface, previous: Interface, new: Sequence[Misalignment], unresolved: Sequence[int]
) -> Interface:
    """Add rules for resolved misalignments and a list of unresolved ones to the candidate.

    `unresolved` holds indices into `new`, from 1.
    """
    open_now = [misalignment for number, misalignment in enumerate(new, start=1) if number in unresolved]
    done = [misalignment for misalignment in new if misalignment not in open_now]
    claims = {misalignment.claim for misalignment in new}
    before = [rule for rule in previous.provenance.unresolved if " ".join(rule.lower().split()) not in claims]
    rules = tuple(
        RuleRecord(
            text=misalignment.text,
            evidence=misalignment.evidence,
            untested=misalignment.evidence.attacked < MIN_TASKS,
        )
        for misalignment in done
    )
    provenance = previous.provenance.model_copy(
        update={
            "rules": (*previous.provenance.rules, *rules),
            "unresolved": (*before, *(misalignment.text for misalignment in open_now)),
            "content_hash": "",
        }
    )
    return candidate.model_copy(update={"provenance": provenance})
