"""Optimizer: writes interface code that loads and runs, and refines it until experiments confirm the fix; and the
`llm` backend of Algorithm 1, Analyzer and Optimizer on chat models.

If no version passes its check on all misalignments, the best version is used and its record lists the open ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from align_echo.align.budget import Budget, BudgetSpentError
from align_echo.align.experiments import Failure, Simulator, clip
from align_echo.align.llm import analyzer
from align_echo.align.llm.analyzer import ModelDialogue, SimulatorFactory, experiments_text, verify
from align_echo.align.llm.replies import (
    MOST_OPERATIONS,
    CheckVerdict,
    LlmSettings,
    failure_in,
    failures_in,
    interface_values,
    looks_usage,
    misalignments_text,
    numbered_text,
    parse_checker_move,
    parse_choice,
    parse_code,
    rules_text,
    step_usage,
)
from align_echo.align.refutation import MIN_TASKS, SHOWN_TASKS
from align_echo.align.showing import describe_actions
from align_echo.align.world import TrainingSplit
from align_echo.errors import EngineError, InterfaceError, MissingExtraError, ModelError, NoAnswerError
from align_echo.interface.contract import Interface, RuleRecord, check_source
from align_echo.models.recording import describe_model
from align_echo.prompts import prompt_hash, render
from align_echo.rollout.batches import failed
from align_echo.rollout.session import base_env, take_turn
from align_echo.types import Agent, AgentReply, ChatModel, Misalignment, Trajectory, Violation
from align_echo.wrappers.text_env import TextEnv

PROMPTS = (
    "optimizer/system",
    "optimizer/write",
    "optimizer/refine",
    "optimizer/checker",
    "optimizer/check",
    "optimizer/rerank",
)


@dataclass
class Optimizer:
    """Optimizer on chat models. `writer` writes code; `checker` runs experiments (in the paper: the analyzer's model).

    `trial` runs a candidate in the sandbox and raises `InterfaceError` on failure. `samples` holds observations at the
    misalignments.
    """

    writer: ChatModel
    checker: ChatModel
    settings: LlmSettings
    action_format: str
    new_simulator: SimulatorFactory
    trial: Callable[[Interface, Sequence[Misalignment]], None]
    samples: Callable[[Sequence[Misalignment], Interface], str]
    note: Callable[[str], None]

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """Write the interface that passes its check on most of `new`; return `interface` with a note if none is.

        Raises `ModelError`, or `NoAnswerError` without usable code or without a conclusion.
        """
        write = self._verified if self.settings.verify else self._chosen
        try:
            return write(new, interface)
        except BudgetSpentError as error:
            self.note(f"the previous interface is kept: the budget of {error} was spent before another was checked")
            return interface
        except ModelError as error:
            raise type(error)(f"writing the interface broke: {error}") from error

    def _verified(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        settings = self.settings
        dialogue = self._dialogue(self.writer, interface, settings.optimizer_temperature)
        prompt = self._write_prompt(new, interface)
        best, open_in_best, versions = interface, tuple(range(1, len(new) + 1)), settings.refinements + 1
        for version in range(1, versions + 1):
            try:
                candidate = self._code(dialogue, prompt, new, interface)
                verdict, tried = self._check(candidate, new)
            except (NoAnswerError, BudgetSpentError) as error:
                if best is interface:
                    raise
                self.note(f"version {version} of the interface came to nothing: {error}")
                break
            left = len(verdict.unresolved)
            stood = f"{len(new) - left} of {len(new)} misalignments"
            self.note(f"version {version} of the interface stood its check on {stood} ({tried})")
            if verdict.resolved:
                return _on_record(candidate, interface, new, ())
            if left < len(open_in_best):
                best, open_in_best = candidate, verdict.unresolved
            prompt = render("optimizer/refine", {"refinement": verdict.refinement})
        if best is interface:
            none = f"none of {versions} versions stood its check on any of {len(new)}"
            self.note(f"the previous interface is kept: {none}")
            return interface
        stood = f"{len(new) - len(open_in_best)} of {len(new)} misalignments"
        self.note(f"a version is kept that stood its check on {stood}")
        return _on_record(best, interface, new, open_in_best)

    def _chosen(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        settings = self.settings
        prompt = self._write_prompt(new, interface)
        candidates = []
        for sample in range(settings.samples):
            dialogue = self._dialogue(self.writer, interface, settings.sample_temperature, sample)
            try:
                candidates.append(self._code(dialogue, prompt, new, interface))
            except NoAnswerError as error:
                self.note(f"interface {sample + 1} of {settings.samples} came to nothing: {error}")
        if not candidates:
            raise NoAnswerError(f"none of {settings.samples} sampled interfaces could be used")
        judge = self._dialogue(self.writer, interface, settings.sample_temperature)
        values = {"new": misalignments_text(new), "candidates": [candidate.source for candidate in candidates]}
        choice = judge.ask(
            render("optimizer/rerank", values),
            lambda reply: parse_choice(reply, len(candidates)),
            tries=settings.format_tries,
        )
        return _on_record(candidates[choice], interface, new, ())

    def _dialogue(self, model: ChatModel, interface: Interface, temperature: float, sample: int = 0) -> ModelDialogue:
        values = {
            **interface_values(interface, self.action_format),
            "looks_usage": looks_usage(interface),
        }
        system = render("optimizer/system", values)
        return ModelDialogue(
            model, system, temperature=temperature, max_tokens=self.settings.writing_tokens, sample=sample
        )

    def _write_prompt(self, new: Sequence[Misalignment], interface: Interface) -> str:
        values = {
            "covered": rules_text(interface),
            "new": misalignments_text(new),
            "samples": self.samples(new, interface),
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
            self.trial(candidate, new)
            return candidate

        return dialogue.ask(prompt, accept, tries=self.settings.code_tries)

    def _check(self, candidate: Interface, new: Sequence[Misalignment]) -> tuple[CheckVerdict, str]:
        """Check a candidate by experiments; also return their number in words."""
        settings = self.settings
        dialogue = ModelDialogue(
            self.checker,
            render("optimizer/checker", interface_values(candidate, self.action_format)),
            temperature=settings.analyzer_temperature,
            max_tokens=settings.max_tokens,
        )
        values = {"new": numbered_text(new), "turns": settings.operations, "most": MOST_OPERATIONS}
        opening = render("optimizer/check", values)
        simulator = self.new_simulator(candidate, failures_in(new))
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


SHARED_PROMPTS = ("shared/interface", "shared/tools", "shared/misalignment", "shared/outcome", "shared/again")
SAMPLE_TASKS = 2
SAMPLE_CHARACTERS = 4000
"""Maximum tasks of observation samples for the Optimizer, and characters of each."""

TRIALS = 3
"""Number of new misalignments to try before accepting a candidate interface."""


class LlmBackend:
    """Backend with chat models that find misalignments and write the interface.

    `analyzer_model` analyses and runs both roles' experiments; `optimizer_model` writes the code. Experiments query
    `agent`, the agent the interface is for. `note` logs discarded results.
    """

    name = "llm"

    def __init__(
        self,
        world: TrainingSplit,
        agent: Agent,
        *,
        analyzer_model: ChatModel,
        optimizer_model: ChatModel,
        settings: LlmSettings | None = None,
        seed: int = 0,
        budget: Budget | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self._world = world
        self._agent = agent
        self._models = described_models(analyzer=analyzer_model, optimizer=optimizer_model)
        self._settings = settings or LlmSettings()
        self._seed = seed
        self._budget = budget or Budget()
        self._note = note or (lambda _: None)
        self._analyzer = analyzer.Analyzer(
            analyzer_model,
            self._settings,
            action_format=describe_actions(world.spec),
            new_simulator=self._simulator,
            gold=world.gold,
            other_tasks=lambda: world.tasks(0, seed, SHOWN_TASKS),
            note=self._note,
        )
        self._optimizer = Optimizer(
            optimizer_model,
            analyzer_model,
            self._settings,
            action_format=describe_actions(world.spec),
            new_simulator=self._simulator,
            trial=self._trial,
            samples=self._samples,
            note=self._note,
        )

    def describe(self) -> dict[str, str]:
        """Describe models, endpoints or weights, prompt hashes and settings."""
        names = (*analyzer.PROMPTS, *PROMPTS, *SHARED_PROMPTS)
        prompts = {f"prompt.{name}": prompt_hash(name) for name in names}
        settings = {name: str(value) for name, value in self._settings.model_dump(exclude_none=True).items()}
        return {**self._models, **prompts, **settings}

    def analyze(
        self, played: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """Find misalignments; see `Analyzer.analyze`."""
        return self._analyzer.analyze(failed(played), known, interface)

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """Write the interface; see `Optimizer.optimize`."""
        return self._optimizer.optimize(new, interface)

    def _simulator(self, interface: Interface, failures: Mapping[str, Failure]) -> Simulator:
        return Simulator(
            self._world.env,
            self._agent,
            interface,
            split=self._world.split,
            action_format=self._world.spec.action_format,
            seed=self._seed,
            failures=failures,
            budget=self._budget,
        )

    def _samples(self, new: Sequence[Misalignment], interface: Interface) -> str:
        """Collect observations under the current interface where the agents met the first few misalignments.

        The agent's own steps before are replayed where the episode is known; else its task begins there.
        """
        samples = []
        tasks = list(dict.fromkeys(misalignment.task_id for misalignment in new))[:SAMPLE_TASKS]
        for misalignment in (each for task_id in tasks for each in new if each.task_id == task_id):
            failure = failure_in(misalignment)
            simulator = self._simulator(interface, {misalignment.task_id: failure} if failure else {})
            start = simulator.go_to_failure if failure else simulator.init_simulator
            try:
                before, after = start(misalignment.task_id), simulator.execute_agent_action(misalignment.action)
            finally:
                simulator.close()
            samples.append(clip(f"{before.text}\n> {misalignment.action}\n{after.text}", SAMPLE_CHARACTERS))
        return "\n\n".join(samples)

    def _trial(self, candidate: Interface, new: Sequence[Misalignment]) -> None:
        """Run a candidate in the states of new misalignments. Raises `InterfaceError` if it breaks.

        The agent's own steps before come first, and an expert's action follows, so a candidate must also pass actions
        on.
        """
        try:
            env = self._world.env(candidate)
            try:
                for misalignment in new[:TRIALS]:
                    _, info = env.reset(seed=self._seed, options={"task": misalignment.task_id})
                    _refuse_broken("InferRules", str(info.get("interface_error", "")), ())
                    for reply in _replies_around(misalignment, base_env(env)):
                        step = take_turn(env, reply)
                        error = f"{step.interface_error}. {step_usage(candidate)}" if step.interface_error else ""
                        _refuse_broken(f"WrapStep on {reply.action!r}", error, step.violations)
                        if step.terminated or step.truncated:
                            break
            finally:
                env.close()
        except EngineError as error:
            self._note(f"the environment broke while an interface was tried: {error}")


def described_models(*, analyzer: ChatModel, optimizer: ChatModel) -> dict[str, str]:
    """Describe both models for the run's record."""
    return describe_model("analyzer", analyzer) | describe_model("optimizer", optimizer)


def _replies_around(misalignment: Misalignment, env: TextEnv) -> Iterator[AgentReply]:
    """Yield the agent's replies before the misaligned action, that action, and the expert's next one if there is one.
    """
    yield from (step.reply() for step in failure_in(misalignment)[:-1])
    yield AgentReply(text=misalignment.action, action=misalignment.action)
    try:
        action = env.oracle().expert_action()
    except (EngineError, MissingExtraError):
        return
    if action is not None:
        yield AgentReply(text=action, action=action)


def _refuse_broken(where: str, error: str, violations: Sequence[Violation]) -> None:
    problems = [
        f"it called env.step with {violation.action!r}, which is refused: {violation.reason}"
        for violation in violations
    ]
    problems += [error] if error else []
    if problems:
        raise InterfaceError(f"the code failed in the sandbox, {where}: {'; '.join(problems)}")
