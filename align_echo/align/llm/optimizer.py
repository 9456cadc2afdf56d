"""The Optimizer: writes interface code that loads and runs, and refines it until experiments show that it resolves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from align_echo.align.experiments import Simulator
from align_echo.align.llm.dialogue import Dialogue
from align_echo.align.llm.replies import Verdict, parse_checker_move, parse_choice, parse_code
from align_echo.align.llm.settings import LlmSettings
from align_echo.align.llm.text import interface_values, looks_usage, misalignments_text, rule_line, rules_text
from align_echo.align.llm.verification import verify
from align_echo.errors import ReplyFormatError, RequestRejectedError
from align_echo.interface import Interface, RuleRecord, check_source
from align_echo.models.drawing import sample_of
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
    """`writer` writes the code; `checker` runs the experiments (the paper uses the analyzer's model for that).

    `trial` loads a candidate in the sandbox and raises `InterfaceError` if it does not run.
    """

    def __init__(
        self,
        writer: ChatModel,
        checker: ChatModel,
        settings: LlmSettings,
        *,
        action_format: str,
        new_simulator: Callable[[Interface], Simulator],
        trial: Callable[[Interface, Sequence[Misalignment]], None],
        note: Callable[[str], None],
    ) -> None:
        self._writer = writer
        self._checker = checker
        self._settings = settings
        self._action_format = action_format
        self._new_simulator = new_simulator
        self._trial = trial
        self._note = note

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """An interface that was shown to resolve `new`, or the given one with a note why not. Raises `ModelError`."""
        write = self._verified if self._settings.verify else self._chosen
        try:
            return write(new, interface)
        except (ReplyFormatError, RequestRejectedError) as error:
            self._note(f"the previous interface is kept: {error}")
            return interface

    def _verified(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        settings = self._settings
        dialogue = self._dialogue(self._writer, interface, settings.optimizer_temperature)
        prompt = self._write_prompt(new, interface)
        for attempt in range(settings.refinements + 1):
            candidate = self._code(dialogue, prompt, new, interface)
            verdict = self._check(candidate, new)
            if verdict.resolved:
                self._note(f"the new interface resolved the misalignments in experiments, version {attempt + 1}")
                return candidate
            prompt = render("optimizer/refine", {"refinement": verdict.refinement})
        raise ReplyFormatError(f"no version resolved the misalignments in {settings.refinements + 1} versions")

    def _chosen(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        settings = self._settings
        prompt = self._write_prompt(new, interface)
        candidates = []
        for sample in range(settings.samples):
            dialogue = self._dialogue(sample_of(self._writer, sample), interface, settings.sample_temperature)
            try:
                candidates.append(self._code(dialogue, prompt, new, interface))
            except ReplyFormatError as error:
                self._note(f"interface {sample + 1} of {settings.samples} came to nothing: {error}")
        if not candidates:
            raise ReplyFormatError("no sampled interface could be used")
        judge = self._dialogue(self._writer, interface, settings.sample_temperature)
        values = {"new": misalignments_text(new), "candidates": [candidate.source for candidate in candidates]}
        choice = judge.ask(
            render("optimizer/rerank", values),
            lambda reply: parse_choice(reply, len(candidates)),
            tries=settings.format_tries,
        )
        return candidates[choice]

    def _dialogue(self, model: ChatModel, interface: Interface, temperature: float) -> Dialogue:
        values = {
            **interface_values(interface, self._action_format),
            "looks_usage": looks_usage(interface),
        }
        system = render("optimizer/system", values)
        return Dialogue(model, system, temperature=temperature, max_tokens=self._settings.max_tokens)

    def _write_prompt(self, new: Sequence[Misalignment], interface: Interface) -> str:
        values = {"covered": rules_text(interface), "new": misalignments_text(new)}
        return render("optimizer/write", values)

    def _code(self, dialogue: Dialogue, prompt: str, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """Code that parses, has the contract's signatures and runs; the author hears of whatever is wrong."""

        def accept(reply: str) -> Interface:
            source = parse_code(reply)
            check_source(source, interface.contract)
            rules = tuple(RuleRecord(text=rule_line(one), evidence=one.evidence) for one in new)
            provenance = interface.provenance.model_copy(
                update={"rules": (*interface.provenance.rules, *rules), "content_hash": ""}
            )
            candidate = interface.model_copy(update={"name": "llm", "source": source, "provenance": provenance})
            self._trial(candidate, new)
            return candidate

        return dialogue.ask(prompt, accept, tries=self._settings.code_tries)

    def _check(self, candidate: Interface, new: Sequence[Misalignment]) -> Verdict:
        """What the experiments say about a candidate."""
        settings = self._settings
        dialogue = Dialogue(
            self._checker,
            render("optimizer/checker", interface_values(candidate, self._action_format)),
            temperature=settings.analyzer_temperature,
            max_tokens=settings.max_tokens,
        )
        opening = render("optimizer/check", {"new": misalignments_text(new), "turns": settings.operations})
        simulator = self._new_simulator(candidate)
        try:
            return verify(dialogue, simulator, opening, parse_checker_move, settings)
        finally:
            simulator.close()
