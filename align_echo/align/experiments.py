"""Seven tools for the Analyzer and Optimizer to verify claims by experiments in the wrapped environment.

The agent's state is an `AgentView`, so querying its next action or changing its observation leaves the environment
alone. Misuse returns text with `ok=False`. Only an unreachable model endpoint (`ModelError`) raises, since the run must
stop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, NamedTuple, get_args

import gymnasium as gym

from align_echo.align.budget import Budget
from align_echo.errors import AgentError, EngineError, InterfaceError, ModelError, RequestRejectedError, UsageError
from align_echo.interface.contract import Interface
from align_echo.rollout.batches import run_episode
from align_echo.rollout.faults import BROKE, ask, fault_text
from align_echo.rollout.session import base_env, extend, start_view, take_turn
from align_echo.types import Agent, AgentReply, AgentView, Frozen, Step, Trajectory
from align_echo.wrappers.align_wrapper import AlignWrapper

Operation = Literal[
    "init_simulator",
    "go_to_failure",
    "reset_simulator",
    "run_task",
    "execute_agent_action",
    "get_next_agent_action",
    "change_last_action_observation",
]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
WITH_ARGUMENT = ("init_simulator", "go_to_failure", "execute_agent_action", "change_last_action_observation")
"""Operations with a required argument: a task id (with a step number or not), an action or an observation."""

TELLING = ("run_task", "execute_agent_action", "get_next_agent_action")
"""Operations with outcomes that may serve as evidence."""

STEPS_BEFORE = 3
"""Steps shown before the one that a replay goes to."""

LONGEST_TEXT = 4000
SHOWN_OF_REPLY, REWORDED = 300, 3
"""Characters shown of a reply, and replies shown per episode although their action could be read."""


class ExperimentResult(Frozen):
    """Result of an experiment. `number` counts a simulator's experiments from 1."""

    number: int
    operation: str
    argument: str
    task_id: str
    ok: bool
    text: str

    @property
    def telling(self) -> bool:
        """True if the outcome may be cited as evidence."""
        return self.ok and self.operation in TELLING


class FailedStep(NamedTuple):
    """Step of a failed episode: the agent's reply and its action, None with a `problem` for an unreadable reply."""

    text: str
    action: str | None
    problem: str = ""

    def reply(self) -> AgentReply:
        """Return the reply, to be taken as it was."""
        return AgentReply(text=self.text, action=self.action, problem=self.problem, verbatim=True)


Failure = Sequence[FailedStep]
"""Steps of a failed episode, up to the failed action or to the end."""


def failures_of(trajectories: Iterable[Trajectory]) -> dict[str, Failure]:
    """Return the steps of episodes by task, of those that have any."""
    return {
        trajectory.task_id: [FailedStep(step.reply, step.action, step.problem) for step in trajectory.steps]
        for trajectory in trajectories
        if trajectory.steps
    }


@dataclass
class Simulator:
    """Simulated session of `agent` under an interface. `make_env` wraps the environment; call `close` when done.

    `failures` are failed episodes by task. An action beyond `budget` raises `BudgetSpentError`.
    """

    make_env: Callable[[Interface], gym.Env[str, str]]
    agent: Agent
    interface: Interface
    split: str
    action_format: str
    seed: int = 0
    failures: Mapping[str, Failure] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    outcomes: list[ExperimentResult] = field(default_factory=list)
    _env: gym.Env[str, str] | None = None
    _task_id: str = ""
    _view: AgentView | None = None
    _over: str = ""

    # ------------------------------------------------------------ the seven tools

    def init_simulator(self, task_id: str, interface: Interface | None = None) -> ExperimentResult:
        """Start a task from its beginning, optionally under another interface."""

        def start() -> str:
            if interface is not None and interface != self.interface:
                self.close()
                self.interface = interface
            self._task_id = ""
            return self._start(task_id)

        return self._perform("init_simulator", task_id, start)

    def go_to_failure(self, place: str) -> ExperimentResult:
        """Start a failed task and replay the agent's own steps before a step: "TASK 7", or "TASK" for the last."""
        return self._perform("go_to_failure", place, lambda: self._replay(place))

    def reset_simulator(self) -> ExperimentResult:
        """Restart the current task."""
        return self._perform("reset_simulator", "", lambda: self._start(self._current_task()))

    def run_task(self, task_id: str = "") -> ExperimentResult:
        """Let the agent play a full task (default: the current one). Init or reset before further calls."""
        return self._perform("run_task", task_id, lambda: self._run_task(task_id or self._current_task()))

    def execute_agent_action(self, action: str) -> ExperimentResult:
        """Execute an action on behalf of the agent, through the interface."""
        return self._perform("execute_agent_action", action, lambda: self._execute(action))

    def get_next_agent_action(self) -> ExperimentResult:
        """Ask the agent for its next action, given its observations so far, without executing it."""
        return self._perform("get_next_agent_action", "", self._next_action)

    def change_last_action_observation(self, observation: str) -> ExperimentResult:
        """Replace the agent's last observation, leaving the environment unchanged."""
        return self._perform("change_last_action_observation", observation, lambda: self._rewrite(observation))

    # ------------------------------------------------------------ by name, for a model

    def perform(self, operation: str, argument: str) -> ExperimentResult:
        """Execute an operation by name. A wrong name or a missing argument gives an outcome with `ok=False`."""
        if operation in WITH_ARGUMENT and not argument.strip():
            return self._record(operation, argument, False, f"{operation} needs an argument")
        if operation in OPERATIONS:
            text = argument if operation == "change_last_action_observation" else argument.strip()
            given = (text,) if operation in (*WITH_ARGUMENT, "run_task") else ()
            outcome: ExperimentResult = getattr(self, operation)(*given)
            return outcome
        known = ", ".join(OPERATIONS)
        return self._record(operation, argument, False, f"there is no operation {operation!r}; there are {known}")

    def close(self) -> None:
        """Close the environment."""
        if self._env is not None:
            self._env.close()
        self._env = None
        self._view = None

    # ------------------------------------------------------------ inside

    def _perform(self, operation: Operation, argument: str, run: Callable[[], str]) -> ExperimentResult:
        try:
            return self._record(operation, argument, True, run())
        except RequestRejectedError as error:
            problem = f"the agent's model refused the request: {error}"
        except AgentError as error:
            problem = f"{BROKE['agent']}: {error}"
        except (UsageError, InterfaceError) as error:
            problem = str(error)
        except EngineError as error:
            self._view = None
            problem = f"the environment broke ({error}); call init_simulator to start again"
        return self._record(operation, argument, False, problem)

    def _record(self, operation: str, argument: str, ok: bool, text: str) -> ExperimentResult:
        outcome = ExperimentResult(
            number=len(self.outcomes) + 1,
            operation=operation,
            argument=argument,
            task_id=self._task_id,
            ok=ok,
            text=clip(text, LONGEST_TEXT),
        )
        self.outcomes.append(outcome)
        return outcome

    def _environment(self) -> gym.Env[str, str]:
        if self._env is None:
            self._env = self.make_env(self.interface)
        return self._env

    def _current_task(self) -> str:
        if not self._task_id:
            raise UsageError("no task was started yet; call init_simulator with a task id first")
        return self._task_id

    def _started(self) -> AgentView:
        if self._view is None:
            raise UsageError("no task is running; call init_simulator with a task id first")
        return self._view

    def _running(self) -> AgentView:
        view = self._started()
        if self._over:
            raise UsageError(f"{self._over}; call reset_simulator or init_simulator first")
        return view

    def _start(self, task_id: str) -> str:
        self._view = None
        known = base_env(self._environment()).task_ids
        if task_id not in known:
            raise UsageError(f"there is no task {task_id!r}; task ids look like {known[0]!r}")
        self._view = start_view(self._environment(), task_id, self.action_format, self.seed)
        self._task_id, self._over = task_id, ""
        rules = f"\nRules told to the agent:\n{self._view.rules}" if self._view.rules else ""
        return f"Task {task_id} begins. Goal: {self._view.goal}\n{self._view.initial_observation}{rules}"

    def _replay(self, place: str) -> str:
        task_id, number = self._read_place(place)
        opening = self._start(task_id)
        failure = self.failures[task_id]
        shown: list[str] = []
        for step_number, step in enumerate(failure[: number - 1], start=1):
            if self._over:
                return "\n".join([opening, *shown[-STEPS_BEFORE:], f"The replay ended after step {step_number - 1}."])
            said = f"(no action) {clip(step.text, SHOWN_OF_REPLY)}" if step.action is None else step.action
            shown.append(f"[{step_number}] Action: {said}\n{clip(self._take(step.reply()), 1000)}")
        last = failure[number - 1]
        left_out = f"[... steps before {number - STEPS_BEFORE} ...]\n" if number > STEPS_BEFORE + 1 else ""
        there = f"reply there was: {last.text}" if last.action is None else f"action there was: {last.action}"
        following = clip(f"Step {number} of the failed episode comes next. The agent's {there}", 1000)
        return "\n".join([opening, left_out + "\n".join(shown[-STEPS_BEFORE:]), following])

    def _read_place(self, place: str) -> tuple[str, int]:
        """Parse a failed task and a step number; the last step without a number. Raises `UsageError`."""
        task_id, number = place, ""
        if place not in self.failures and (match := re.fullmatch(r"(.+?)[\s,;:(\[]+(?:step\s*)?(\d+)[\])]?", place)):
            task_id, number = match[1], match[2]
        if task_id not in self.failures:
            known = ", ".join(self.failures) or "none"
            raise UsageError(f"no failed episode of {task_id!r} is known, of: {known}; init_simulator starts any task")
        last = len(self.failures[task_id])
        if number and not 1 <= int(number) <= last:
            raise UsageError(f"the failed episode of {task_id} has steps 1 to {last}, not {number}")
        return task_id, int(number or last)

    def _execute(self, action: str) -> str:
        return self._take(AgentReply(text=action, action=action))

    def _take(self, reply: AgentReply) -> str:
        view = self._running()
        env = self._environment()
        self.budget.take_step()
        logged = len(env.log) if isinstance(env, AlignWrapper) else 0
        step = take_turn(env, reply)
        self._view = extend(view, step)
        if step.terminated or step.truncated:
            won = base_env(self._environment()).state.won
            self._over = "the task is won" if won else "the episode is over and the task is not won"
            self._over += _format_partial_score(step.score)
        lines = [line.message for line in env.log[logged:]] if isinstance(env, AlignWrapper) else []
        log = clip("\n(logged by the interface: " + " | ".join(lines) + ")", 1000) if lines else ""
        head = "" if step.action == reply.action else f"(carried out: {step.action})\n"
        return head + step_text(step) + log + (f"\n({self._over})" if self._over else "")

    def _next_action(self) -> str:
        reply = ask(self.agent, self._running())
        if reply.action is None:
            return f"The agent replies without an action ({reply.problem}):\n{reply.text}"
        return f"The agent's next action: {reply.action}"

    def _rewrite(self, observation: str) -> str:
        view = self._started()
        if not view.turns:
            raise UsageError("no action was executed yet, so there is no observation to change")
        turns = (*view.turns[:-1], view.turns[-1].model_copy(update={"observation": observation}))
        self._view = view.model_copy(update={"turns": turns})
        return "The agent's last observation is changed. The environment is as it was."

    def _run_task(self, task_id: str) -> str:
        env = self._environment()
        self._view = None
        if task_id not in base_env(env).task_ids:
            raise UsageError(f"there is no task {task_id!r}")
        self.budget.check()
        self._task_id = task_id
        trajectory = run_episode(
            env, self.agent, task_id, split=self.split, action_format=self.action_format, seed=self.seed
        )
        self.budget.add_steps(len(trajectory.steps))
        if trajectory.fault is not None:
            if trajectory.fault.error == ModelError.__name__:
                raise ModelError(trajectory.fault.message)
            raise UsageError(f"the run broke off: {fault_text(trajectory.fault)}")
        return trajectory_text(trajectory, LONGEST_TEXT)


def step_text(step: Step) -> str:
    """Format a step for a model: the agent's observation, and the raw one if different."""
    parts = [f"Observation: {step.observation}"]
    if step.raw_observation is None and step.action is not None:
        parts.append("(the interface answered without passing the action on)")
    elif step.raw_observation is not None and step.raw_observation != step.observation:
        parts.append(f"(the environment itself answered: {step.raw_observation})")
    if step.interface_error:
        parts.append(f"(the interface failed and was bypassed: {step.interface_error})")
    parts += [f"(forbidden call refused: {violation.action!r}, {violation.reason})" for violation in step.violations]
    return "\n".join(parts)


def trajectory_text(trajectory: Trajectory, limit: int) -> str:
    """Format an episode for a model in about `limit` characters, cutting the middle first.

    Steps that repeat the step before are folded. Replies without an action are shown, and the first few that do not
    hold theirs as it was sent.
    """
    lines = [f"Initial observation: {trajectory.initial_observation}"]
    numbered = enumerate(trajectory.steps, start=1)
    reworded = 0
    for (action, text), steps in groupby(numbered, lambda entry: (entry[1].action, step_text(entry[1]))):
        (first, step), *others = steps
        times = f" to {first + len(others)}, {len(others) + 1} times alike" if others else ""
        wrote = f"the agent wrote: {clip(step.reply, SHOWN_OF_REPLY)}"
        if action is None:
            action = f"(none could be read; {wrote})"
        elif f"{action}\n" not in f"{step.reply.strip()}\n" and reworded < REWORDED:
            action, reworded = f"{action}\n({wrote})", reworded + 1
        lines.append(f"[{first}{times}] Action: {action}\n{clip(text, 1000)}")
    result = "won" if trajectory.won else "not won"
    result += _format_partial_score(trajectory.score)
    return clip("\n".join(lines), limit) + f"\nThe task was {result} after {len(trajectory.steps)} actions."


def _format_partial_score(score: float) -> str:
    """Format a score strictly between 0 and 1; "" for 0 and 1, which `won` covers."""
    return f" (score {score:.2f} of 1)" if 0 < score < 1 else ""


def clip(text: str, limit: int) -> str:
    """Return the text, or its beginning and end with a mark for the cut."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
