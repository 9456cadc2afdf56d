"""The `llm` backend of Algorithm 1: Analyzer and Optimizer on chat models.

The Analyzer derives misalignments from failed episodes and verifies them by experiment. The Optimizer writes interface
code that loads and runs, and refines it until experiments confirm the fix. If no version passes its check on all
misalignments, the best version is used and its record lists the open ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from align_echo.align import refutation
from align_echo.align.budget import Budget, BudgetSpentError
from align_echo.align.experiments import ExperimentResult, Failure, Simulator, clip, failures_of, trajectory_text
from align_echo.align.llm.replies import (
    KINDS,
    MOST_OPERATIONS,
    AnalyzerFindings,
    CheckVerdict,
    ExperimentRequests,
    LlmSettings,
    failure_in,
    failures_in,
    gold_text,
    interface_values,
    located,
    looks_usage,
    misalignments_text,
    numbered_text,
    parse_analyzer_move,
    parse_checker_move,
    parse_choice,
    parse_code,
    parse_findings,
    rules_text,
    step_usage,
)
from align_echo.align.loop import TrainingSplit
from align_echo.align.refutation import (
    MIN_TASKS,
    SHOWN_TASKS,
    Attack,
    Openings,
    attack_prompt,
    attack_system,
    narrow_prompt,
    parse_attack,
)
from align_echo.align.showing import describe_actions, repeated_answers
from align_echo.errors import (
    EngineError,
    InterfaceError,
    MissingExtraError,
    ModelError,
    NoAnswerError,
    ReplyFormatError,
)
from align_echo.interface.contract import Interface, RuleRecord, check_source
from align_echo.interface.rules.model import ClaimTrial
from align_echo.models.drawing import model_for_sample
from align_echo.models.recording import describe_model
from align_echo.prompts import prompt_hash, render
from align_echo.registry import quantity
from align_echo.rollout.batches import failed
from align_echo.rollout.session import base_env, take_turn
from align_echo.types import Agent, AgentReply, ChatModel, Message, Misalignment, Trajectory, Violation
from align_echo.wrappers.text_env import TextEnv

# ---------------------------------------------------------------- the conversation with the model

Parsed = TypeVar("Parsed")
EMPTY = "(empty message)"

SAMPLES_PER_ROUND = 1000
"""Offset of sample numbers between rounds of tries, so that each round draws new replies."""

MOST_ROUNDS = 100
WARMTH = 0.5
"""Minimum temperature after the first round; greedy decoding would only repeat itself."""


class ModelDialogue:
    """Message history with a model. `ask` sends a prompt and returns the parsed reply; `sample` selects the model's
    sample. Its temperature is the Analyzer's if none is given. `writes`: it may be as long as the Optimizer's."""

    def __init__(
        self,
        model: ChatModel,
        settings: LlmSettings,
        system: str,
        temperature: float | None = None,
        sample: int = 0,
        *,
        writes: bool = False,
    ) -> None:
        self._model = model
        self._settings = settings
        self._sample = sample
        self._temperature = settings.analyzer_temperature if temperature is None else temperature
        self._max_tokens = settings.writing_tokens if writes else settings.max_tokens
        self._messages = [Message(role="system", content=system)]

    def ask(self, prompt: str, parse: Callable[[str], Parsed], *, tries: int = 0) -> Parsed:
        """Send a prompt and return the parsed reply, in as many tries as the settings allow if none are given.

        Truncated replies, and those `parse` rejects with `ReplyFormatError` or `InterfaceError`, are sent back with the
        reason. So are partly wrong findings (`AnalyzerFindings.dropped`); after the last try the valid ones are used.

        A resumed run draws a new round of tries and finds earlier replies in its cache. Raises `NoAnswerError` with the
        last reason after a new round, and `ModelError`.
        """
        tries, length = tries or self._settings.format_tries, len(self._messages)
        for number in range(MOST_ROUNDS):
            del self._messages[length:]
            problem, new = "", False
            partly: Parsed | None = None
            model = model_for_sample(self._model, self._sample + number * SAMPLES_PER_ROUND)
            message = prompt
            for _ in range(tries):
                self._messages.append(Message(role="user", content=message))
                completion = model.complete(
                    self._messages,
                    temperature=max(self._temperature, WARMTH) if number else self._temperature,
                    max_tokens=self._max_tokens,
                )
                new = not completion.cached
                self._messages.append(Message(role="assistant", content=completion.text.strip() or EMPTY))
                try:
                    if completion.finish_reason == "length":
                        raise ReplyFormatError(f"it was cut off after {self._max_tokens} tokens; be shorter")
                    parsed = parse(completion.text)
                    if not isinstance(parsed, AnalyzerFindings) or not parsed.dropped:
                        return parsed
                    partly, problem = parsed, ". ".join(parsed.dropped)
                except (ReplyFormatError, InterfaceError) as error:
                    problem = str(error)
                message = render("shared/again", {"problem": problem})
            if partly is not None:
                return partly
            if new:
                break
        raise NoAnswerError(f"no usable answer in {tries} tries; the last problem: {problem}")

    def choose(self, question: str, candidates: Sequence[Parsed]) -> Parsed:
        """Ask which candidate is best."""
        return candidates[self.ask(question, lambda reply: parse_choice(reply, len(candidates)))]


def ask_attack(
    model: ChatModel,
    settings: LlmSettings,
    system: str,
    claims: Sequence[tuple[str, Sequence[str]]],
    openings: Openings,
    note: Callable[[str], None],
) -> dict[int, list[ClaimTrial]]:
    """Ask a model in another role to refute claims; (claim, experiments played already).

    Returns counter-experiments by claim, from 0; none with a note if no reply could be read. Raises `ModelError`.
    """
    tasks = {task_id for task_id, _ in openings}
    dialogue = ModelDialogue(model, settings, system)
    try:
        return dialogue.ask(
            attack_prompt(claims, openings), lambda reply: parse_attack(reply, len(claims), tasks, note)
        )
    except NoAnswerError as error:
        note(f"no claim was attacked, since no counter-experiment could be read: {error}")
        return {}


def draw_samples(
    name: str, draw: Callable[[int], Parsed], count: int, note: Callable[[str], None]
) -> list[Parsed]:
    """Draw answers for a choice; note those that cannot be used. Raises `NoAnswerError` if none can."""
    samples: list[Parsed] = []
    for number in range(count):
        try:
            samples.append(draw(number))
        except NoAnswerError as error:
            note(f"{name} {number + 1} of {count} gave nothing: {error}")
    if not samples:
        raise NoAnswerError(f"none of {count} samples could be used")
    return samples


# ---------------------------------------------------------------- check a misalignment by experiment

Concluded = TypeVar("Concluded")
SHOWN_OF_ARGUMENT = 300
"""Maximum characters of an argument repeated in its outcome."""

MoveParser = Callable[[str, Sequence[ExperimentResult], bool], ExperimentRequests | Concluded]
"""Maps (reply, experiments so far, more allowed) to the next experiments or the conclusion."""


def verify(
    dialogue: ModelDialogue,
    simulator: Simulator,
    opening: str,
    parse: MoveParser[Concluded],
    settings: LlmSettings,
) -> Concluded:
    """Run up to `settings.operations` experiments and return the conclusion.

    Operations of a message are carried out in order until one cannot be. Raises `NoAnswerError` without a conclusion,
    and `ModelError`.
    """
    prompt, left = opening, settings.operations

    def read(reply: str) -> ExperimentRequests | Concluded:
        return parse(reply, simulator.outcomes, left > 0)

    while True:
        move = dialogue.ask(prompt, read)
        if not isinstance(move, ExperimentRequests):
            return move
        done: list[ExperimentResult] = []
        for request in move.requests[:left]:
            done.append(simulator.perform(request.operation, request.argument))
            if not done[-1].ok:
                break
        left -= len(done)
        prompt = outcomes_text(done, left, len(move.requests) + move.dropped - len(done))


def outcomes_text(outcomes: Sequence[ExperimentResult], left: int, dropped: int = 0) -> str:
    """Format the outcomes of a message for the model: `left` operations remain, `dropped` ones were not carried out."""
    values = {
        "outcomes": [
            {**outcome.model_dump(), "argument": clip(outcome.argument, SHOWN_OF_ARGUMENT)} for outcome in outcomes
        ],
        "dropped": dropped,
        "most": MOST_OPERATIONS,
        "left": left,
    }
    return render("shared/outcome", values)


# ---------------------------------------------------------------- the Analyzer

SimulatorFactory = Callable[[Interface, Mapping[str, Failure]], Simulator]
"""Opens a simulator under an interface, with the failed episodes it can replay."""

OPENING_CHARACTERS = 1500
"""Characters shown of a task's opening to the attacker."""



def experiments_text(outcomes: Sequence[ExperimentResult]) -> str:
    """Count experiments and their tasks."""
    tasks = {outcome.task_id for outcome in outcomes if outcome.task_id}
    return f"{quantity(len(outcomes), 'experiment')} in {quantity(len(tasks), 'task')}"


@dataclass
class Analyzer:
    """Analyzer on a chat model. `new_simulator` opens a simulator under an interface; `gold` returns an expert's
    solution; `other_tasks` lists tasks for counter-experiments; `note` logs a remark."""

    model: ChatModel
    settings: LlmSettings
    action_format: str
    new_simulator: SimulatorFactory
    gold: Callable[[str], Sequence[tuple[str, str]]]
    other_tasks: Callable[[], Sequence[str]]
    note: Callable[[str], None]

    def analyze(
        self, failed: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """Find new misalignments, a few episodes at a time.

        Raises `ModelError` at the first failed analysis, since its findings are unknown.
        """
        misalignments: list[Misalignment] = []
        again = repeated_answers(failed)
        size = self.settings.episodes_per_analysis
        for start in range(0, len(failed), size):
            episodes = failed[start : start + size]
            last = f" to {start + len(episodes)}" if len(episodes) > 1 else ""
            self.note(
                f"analysing failed episodes {start + 1}{last} of {len(failed)}; {len(misalignments)} found so far"
            )
            try:
                fresh = self._analyze(episodes, [*known, *misalignments], interface, again)
            except BudgetSpentError as error:
                rest = quantity(len(failed) - start, "failed episode")
                self.note(f"{rest} not analysed to the end: the budget of {error} is spent")
                break
            except ModelError as error:
                names = ", ".join(episode.task_id for episode in episodes)
                raise type(error)(f"the analysis of {names} broke: {error}") from error
            claims = {misalignment.claim for misalignment in (*known, *misalignments)}
            misalignments += [misalignment for misalignment in fresh if misalignment.claim not in claims]
        return misalignments

    def _analyze(
        self, episodes: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface, again: str
    ) -> Sequence[Misalignment]:
        system = render("analyzer/system", interface_values(interface, self.action_format))
        prompt = self._proposal_prompt(episodes, known, interface.provenance.unresolved, again)
        failures = failures_of(episodes)
        found = (
            self._verified(system, prompt, failures, interface)
            if self.settings.verify
            else self._chosen(system, prompt, failures)
        )
        return [located(misalignment, failures) for misalignment in found]

    def _proposal_prompt(
        self, episodes: Sequence[Trajectory], known: Sequence[Misalignment], unresolved: Sequence[str], again: str
    ) -> str:
        limit = self.settings.episode_characters
        records = [
            {
                "task_id": episode.task_id,
                "goal": episode.goal,
                "log": trajectory_text(episode, limit),
                "gold": gold_text(self._expert(episode.task_id), limit // 2),
            }
            for episode in episodes
        ]
        values = {
            "episodes": records,
            "again": again,
            "known": misalignments_text(known),
            "unresolved": "\n".join(f"- {rule}" for rule in unresolved),
            "kinds": KINDS,
        }
        return render("analyzer/propose", values)

    def _expert(self, task_id: str) -> Sequence[tuple[str, str]]:
        try:
            return self.gold(task_id)
        except (EngineError, MissingExtraError) as error:
            self.note(f"no expert play of {task_id}: {error}")
            return ()

    # ------------------------------------------------------------ with experiments

    def _verified(
        self, system: str, prompt: str, failures: Mapping[str, Failure], interface: Interface
    ) -> Sequence[Misalignment]:
        settings, tasks = self.settings, failures.keys()
        dialogue = ModelDialogue(self.model, settings, system)
        proposed = dialogue.ask(prompt, lambda reply: parse_findings(reply, tasks))
        self._tell_dropped(proposed)
        if not proposed.misalignments:
            return ()
        opening = render(
            "analyzer/verify", {"turns": settings.operations, "kinds": KINDS, "most": MOST_OPERATIONS}
        )
        simulator = self.new_simulator(interface, failures)
        try:
            verified = verify(
                dialogue,
                simulator,
                opening,
                lambda reply, outcomes, more: parse_analyzer_move(reply, tasks, outcomes, more),
                settings,
            )
            self._tell_dropped(verified)
            self.note(
                f"{len(proposed.misalignments)} misalignments proposed, {len(verified.misalignments)} kept "
                f"after {experiments_text(simulator.outcomes)} of its own"
            )
            standing, refuted = self._attacked(verified.misalignments, tasks, interface, simulator)
            if refuted:
                narrower = self._narrowed(dialogue, refuted, tasks)
                standing += self._attacked(narrower, tasks, interface, simulator)[0]
        finally:
            simulator.close()
        return standing

    def _attacked(
        self, findings: Sequence[Misalignment], tasks: Collection[str], interface: Interface, simulator: Simulator
    ) -> tuple[list[Misalignment], list[tuple[str, str]]]:
        """Attack findings by counter-experiments: return those that stand, and (finding, counter-example) of others.

        A finding that did not withstand in enough tasks is worded as what was seen.
        """
        if not findings:
            return [], []
        known = list(dict.fromkeys((*sorted(tasks), *self.other_tasks())))[:SHOWN_TASKS]
        if len(known) < MIN_TASKS:
            self.note(f"no finding can be tested in {MIN_TASKS} tasks: the run has {quantity(len(known), 'task')}")
        openings = [(task_id, clip(simulator.init_simulator(task_id).text, OPENING_CHARACTERS)) for task_id in known]
        claims = [(finding.text, [f"{finding.task_id}: {finding.action}"]) for finding in findings]
        system = attack_system(interface.contract.environment, self.action_format)
        trials = ask_attack(self.model, self.settings, system, claims, openings, self.note)
        standing: list[Misalignment] = []
        refuted: list[tuple[str, str]] = []
        for number, finding in enumerate(findings):
            attack = Attack()
            attack.play(trials.get(number, ()), partial(_played, simulator))
            if attack.counterexample is None:
                standing.append(_with_attack(finding, attack))
                continue
            refuted.append((finding.text, ": ".join(attack.counterexample)))
            self.note(f"refuted by a counter-experiment: {finding.text} ({refuted[-1][1]})")
        return standing, refuted

    def _narrowed(
        self, dialogue: ModelDialogue, refuted: Sequence[tuple[str, str]], tasks: Collection[str]
    ) -> Sequence[Misalignment]:
        """Ask once for narrower findings in place of refuted ones."""
        prompt = narrow_prompt(refuted, experiments="", nothing="<misalignments>none</misalignments>")
        try:
            return dialogue.ask(prompt, lambda reply: parse_findings(reply, tasks)).misalignments
        except NoAnswerError as error:
            self.note(f"refuted findings are dropped, since no narrower ones could be read: {error}")
            return ()

    def _tell_dropped(self, findings: AnalyzerFindings) -> None:
        for reason in findings.dropped:
            self.note(f"a finding was left out, since it could not be read in any try: {reason}")

    # ------------------------------------------------------------ without experiments

    def _chosen(self, system: str, prompt: str, tasks: Collection[str]) -> Sequence[Misalignment]:
        temperature = self.settings.sample_temperature

        def draw(sample: int) -> AnalyzerFindings:
            dialogue = ModelDialogue(self.model, self.settings, system, temperature, sample)
            return dialogue.ask(prompt, lambda reply: parse_findings(reply, tasks))

        candidates = draw_samples("analysis", draw, self.settings.samples, self.note)
        if not any(candidate.misalignments for candidate in candidates):
            return ()
        texts = [misalignments_text(candidate.misalignments) for candidate in candidates]
        question = f"{prompt}\n\n{render('analyzer/rerank', {'candidates': texts})}"
        judge = ModelDialogue(self.model, self.settings, system, temperature)
        return judge.choose(question, candidates).misalignments


def _played(simulator: Simulator, task_id: str, actions: Sequence[str]) -> str:
    """Play actions from a task's beginning and return the last answer."""
    outcome = simulator.init_simulator(task_id)
    for action in actions:
        outcome = simulator.execute_agent_action(action)
        if not outcome.ok:
            break
    return outcome.text


def _with_attack(finding: Misalignment, attack: Attack) -> Misalignment:
    """Add an attack that a finding withstood to its evidence; word it as what was seen if it is not confirmed."""
    tasks = max(finding.evidence.tasks, len(attack.tasks), 1)
    support = finding.evidence.support + len(attack.withstood)
    evidence = finding.evidence.model_copy(
        update={"support": support, "tasks": tasks, "attacked": len(attack.tasks) if attack.confirms else 0}
    )
    seen = "" if attack.confirms else f"Seen in {quantity(tasks, 'task')}, not shown to be a rule: "
    return finding.model_copy(update={"rule": seen + finding.rule, "evidence": evidence})


# ---------------------------------------------------------------- the backend

PROMPTS = (
    *refutation.PROMPTS,
    *("analyzer/system", "analyzer/propose", "analyzer/verify", "analyzer/rerank"),
    *("optimizer/system", "optimizer/write", "optimizer/refine"),
    *("optimizer/checker", "optimizer/check", "optimizer/rerank"),
    *("shared/interface", "shared/tools", "shared/misalignment", "shared/outcome", "shared/again"),
)


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


SAMPLE_TASKS = 2
SAMPLE_CHARACTERS = 4000
"""Maximum tasks of observation samples for the Optimizer, and characters of each."""

TRIALS = 3
"""Number of new misalignments to try before accepting a candidate interface."""


class LlmBackend:
    """Backend with chat models that find misalignments and write the interface.

    `analyzer_model` analyses and runs both roles' experiments; `optimizer_model` writes the code (in the paper, the
    Optimizer). Experiments query `agent`, the agent the interface is for. `note` logs discarded results.
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
        self._checker, self._writer = analyzer_model, optimizer_model
        self._settings = settings or LlmSettings()
        self._action_format = describe_actions(world.spec)
        self._seed = seed
        self._budget = budget or Budget()
        self._note = note or (lambda _: None)
        self._analyzer = Analyzer(
            analyzer_model,
            self._settings,
            action_format=self._action_format,
            new_simulator=self._simulator,
            gold=world.gold,
            other_tasks=lambda: world.tasks(0, seed, SHOWN_TASKS),
            note=self._note,
        )

    def describe(self) -> dict[str, str]:
        """Describe models, endpoints or weights, prompt hashes and settings."""
        prompts = {f"prompt.{name}": prompt_hash(name) for name in PROMPTS}
        settings = {name: str(value) for name, value in self._settings.model_dump(exclude_none=True).items()}
        return {**self._models, **prompts, **settings}

    def analyze(
        self, played: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """Find misalignments; see `Analyzer.analyze`."""
        return self._analyzer.analyze(failed(played), known, interface)

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
        dialogue = self._dialogue(interface, settings.optimizer_temperature)
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
        settings, prompt = self._settings, self._write_prompt(new, interface)

        def draw(sample: int) -> Interface:
            dialogue = self._dialogue(interface, settings.sample_temperature, sample)
            return self._code(dialogue, prompt, new, interface)

        candidates = draw_samples("interface", draw, settings.samples, self._note)
        values = {"new": misalignments_text(new), "candidates": [candidate.source for candidate in candidates]}
        judge = self._dialogue(interface, settings.sample_temperature)
        return _on_record(judge.choose(render("optimizer/rerank", values), candidates), interface, new, ())

    def _dialogue(self, interface: Interface, temperature: float, sample: int = 0) -> ModelDialogue:
        values = {**interface_values(interface, self._action_format), "looks_usage": looks_usage(interface)}
        system = render("optimizer/system", values)
        return ModelDialogue(self._writer, self._settings, system, temperature, sample, writes=True)

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
        system = render("optimizer/checker", interface_values(candidate, self._action_format))
        dialogue = ModelDialogue(self._checker, settings, system)
        values = {"new": numbered_text(new), "turns": settings.operations, "most": MOST_OPERATIONS}
        opening = render("optimizer/check", values)
        simulator = self._simulator(candidate, failures_in(new))
        try:
            verdict = verify(dialogue, simulator, opening, partial(parse_checker_move, claims=len(new)), settings)
        finally:
            simulator.close()
        return verdict, experiments_text(simulator.outcomes)

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
