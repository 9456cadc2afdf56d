"""`llm` backend of Algorithm 1: Analyzer and Optimizer on chat models, with access to the training environments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from align_echo.align.budget import Budget
from align_echo.align.experiments import Failure, Simulator, clip
from align_echo.align.llm import analyzer, optimizer
from align_echo.align.llm.replies import LlmSettings, failure_in, step_usage
from align_echo.align.refutation import SHOWN_TASKS
from align_echo.align.showing import describe_actions
from align_echo.align.world import TrainingSplit
from align_echo.errors import EngineError, InterfaceError, MissingExtraError
from align_echo.interface.contract import Interface
from align_echo.models.endpoint import get_base_url
from align_echo.models.recording import get_weights
from align_echo.prompts import prompt_hash
from align_echo.rollout.batches import failed
from align_echo.rollout.session import base_env, take_turn
from align_echo.types import Agent, AgentReply, ChatModel, Misalignment, Trajectory, Violation
from align_echo.wrappers.text_env import TextEnv

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
        self._optimizer = optimizer.Optimizer(
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
        names = (*analyzer.PROMPTS, *optimizer.PROMPTS, *SHARED_PROMPTS)
        prompts = {f"prompt.{name}": prompt_hash(name) for name in names}
        settings = {name: str(value) for name, value in self._settings.model_dump().items()}
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
    """Describe both models for the run's record (`types.Described`): names and endpoints or weights."""
    described: dict[str, str] = {}
    for role, model in (("analyzer", analyzer), ("optimizer", optimizer)):
        described |= {f"model.{role}": model.name, f"base_url.{role}": get_base_url(model)}
        if weights := get_weights(model):
            described[f"weights.{role}"] = weights
    return described


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
