"""Shared parts of the loops: choose the tasks, build an agent's prompt and parse its reply, classify how an episode
ended.

    panel = TaskPanel.build("alfworld", tasks=6, interface="probe")
    with panel.open() as session:
        session.reset(panel.tasks[0])
        while not session.over:
            messages = panel.messages(session.view)                     # for the loop's own model
            session.act(panel.reply(session.view, "go to shelf 1"))     # its answer

The agent supplies its prompt and its parser of replies. Not here: the model, which belongs to the loop, and agents
that call their model more than once per turn.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import gymnasium as gym

from align_echo.agents.catalogue import agent_spec
from align_echo.agents.conversation import ChatAgent
from align_echo.agents.reasoning import Vanilla
from align_echo.agents.spec import AgentSetting, AgentSpec
from align_echo.base.jsonl import JsonlFile
from align_echo.errors import AgentError, UsageError, did_you_mean
from align_echo.evaluate.plan import pick_tasks
from align_echo.interface.contract import Interface
from align_echo.models.drawing import ScriptedModel
from align_echo.registry import with_article
from align_echo.rollout.session import Session
from align_echo.types import AgentReply, AgentView, ChatModel, Completion, Message, Step, Trajectory
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec, as_path
from align_echo.wrappers.text_env import MAX_TEXT

End = Literal["won", "lost", "truncated", "broken"]

NOBODY = ScriptedModel((), name="the loop's own model")
"""Placeholder for an agent's model; it is never called."""


@dataclass(frozen=True)
class TaskPanel:
    """Tasks of one split of one environment, with an interface or none, and the agent that builds prompts for the
    model.
    """

    spec: EnvironmentSpec
    split: str
    tasks: tuple[str, ...]
    interface: Interface | None
    agent: AgentSpec
    data_root: Path | None = None
    step_limit: int | None = None
    seed: int = 0

    @classmethod
    def build(
        cls,
        env: str | EnvironmentSpec,
        *,
        split: str | None = None,
        tasks: int | str | Sequence[str] | None = None,
        interface: str | Path | Interface | None = None,
        agent: str = Vanilla.kind,
        data_root: str | Path | None = None,
        step_limit: int | None = None,
        seed: int = 0,
    ) -> TaskPanel:
        """Build a panel from names.

        `split` None is the test split. `tasks` is a number of tasks to spread evenly over the task types (the same
        tasks for the same seed, as `align-echo evaluate` picks them), a list of ids, or None for all.

        Raises `UsageError`, `MissingDataError` or `InterfaceError`, each one line.
        """
        spec = environment(env)
        split = spec.check_split(split or spec.test_split)
        root = as_path(data_root)
        chosen = tuple(pick(spec, spec.tasks(split, root), tasks, seed=seed))
        panel = cls(spec, split, chosen, spec.interface(interface), agent_spec(agent), root, step_limit, seed)
        panel.asking(NOBODY)
        return panel

    def make(self) -> gym.Env[str, str]:
        """Make an environment of the panel."""
        return self.spec.make(
            self.split, interface=self.interface, data_root=self.data_root, step_limit=self.step_limit
        )

    def open(self, *, agent: str = "") -> Session:
        """Open a session in a new environment. `agent` is the agent's name in trajectories."""
        agent_name = agent or self.agent.name
        return Session(
            self.make(), agent=agent_name, split=self.split, action_format=self.spec.action_format, seed=self.seed
        )

    def asking(self, model: ChatModel, *, temperature: float | None = None, max_tokens: int | None = None) -> ChatAgent:
        """Build the agent with this model. Raises `UsageError` unless it calls its model exactly once per turn."""
        setting = AgentSetting(self.spec, self.split, self.data_root, self.seed, model, temperature, max_tokens)
        built_agent = self.agent.build(setting) if self.agent.asks_model else None
        if not isinstance(built_agent, ChatAgent) or not built_agent.asks_once:
            raise UsageError(
                f"the agent {self.agent.name} does not ask a chat model just once a turn, which this loop needs: "
                "vanilla, react and planning do"
            )
        return built_agent

    def messages(self, view: AgentView) -> list[Message]:
        """Return the conversation the agent would send to its model. It ends with a user message."""
        return self.asking(NOBODY).conversation(view)

    def reply(self, view: AgentView, text: str, *, cut_off: bool = False) -> AgentReply:
        """Parse a model's answer to `messages(view)` as the agent does. `cut_off`: the answer reached its token limit.
        """
        answer = Completion(text=text, finish_reason="length" if cut_off else "stop")
        return self.asking(NOBODY).parse_completion(answer, view)

    @property
    def about(self) -> dict[str, str]:
        """Description of the panel for another library's record."""
        label = self.interface.label if self.interface else "none"
        about = {"environment": self.spec.name, "split": self.split, "interface": label, "agent": self.agent.name}
        return {**about, "seed": str(self.seed), "games": self.spec.games(self.data_root)}


def pick(
    spec: EnvironmentSpec, task_ids: Sequence[str], tasks: int | str | Sequence[str] | None, *, seed: int
) -> list[str]:
    """Select tasks from `task_ids`. Raises `UsageError` for an unknown or repeated task."""
    if tasks is None or isinstance(tasks, int):
        return pick_tasks(task_ids, tasks, task_type=spec.task_type, seed=seed)
    named = [tasks] if isinstance(tasks, str) else list(tasks)
    unknown = next((task for task in named if task not in set(task_ids)), None)
    if unknown is not None:
        raise UsageError(
            f"{spec.name} has no task {unknown!r} in this split; {did_you_mean(unknown, task_ids)}"
            f"align_echo.tasks({spec.name!r}, split=...) lists them"
        )
    if not named or len({*named}) < len(named):
        raise UsageError("name at least one task, and each of them once")
    return named


def classify_end(trajectory: Trajectory) -> End:
    """Classify how an episode ended. An episode stopped before the environment ended it counts as truncated."""
    if trajectory.fault is not None:
        return "broken"
    if trajectory.won:
        return "won"
    return "lost" if trajectory.terminated else "truncated"


# ---------------------------------------------------------------- environments for another loop

LEFT = "the client left this episode before its end"

LONGEST_NAME = 200
"""Maximum characters of an unknown name quoted in an error."""


class ClientSession:
    """Episodes of one client. Methods are thread-safe: each call waits for the one before."""

    def __init__(self, panel: TaskPanel, agent: str, record: JsonlFile | None = None) -> None:
        """Store the settings; the environment is made at the first reset. `agent` is the client's name in
        trajectories.
        """
        self._panel = panel
        self._agent = agent
        self._record = record
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._closed = False
        self._kept = True

    def reset(self, task: object) -> AgentView:
        """Begin a task, leaving any episode in progress.

        Raises `UsageError`, `EngineError`, or the error from making the environment.
        """
        with self._lock:
            self._check_open()
            name = self._known(task)
            self._leave()
            if self._session is None:
                self._session = self._panel.open(agent=self._agent)
            self._kept = False
            return self._session.reset(name)

    def act(self, action: object) -> Step:
        """Take one turn.

        Raises `UsageError` for an invalid action or if no turn can be taken, `EngineError` if the environment breaks:
        the episode then has no score.
        """
        with self._lock:
            self._check_open()
            if self._session is None:
                raise UsageError("no episode was begun: reset to a task first")
            text = checked_action(action)
            try:
                return self._session.step(text)
            finally:
                if self._session.over:
                    self._keep(self._session.trajectory())

    @property
    def won(self) -> bool:
        """True if the episode so far is won."""
        with self._lock:
            return self._session is not None and self._session.trajectory().won

    def close(self) -> None:
        """Leave any episode and close the environment. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._leave()
            finally:
                if self._session is not None:
                    self._session.close()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this session is closed, as it was idle for too long or its client had left: begin anew")

    def _known(self, task: object) -> str:
        """Return the task if it is in the panel. Raises `UsageError` otherwise."""
        if not isinstance(task, str):
            raise UsageError(f"a task is named by its id, a text, not by {describe_json_type(task)}")
        panel = self._panel
        if task not in panel.tasks:
            asked = task if len(task) <= LONGEST_NAME else f"{task[:LONGEST_NAME]}..."
            raise UsageError(f"{panel.spec.name} has no {panel.split} task {asked!r}; its first is {panel.tasks[0]!r}")
        return task

    def _leave(self) -> None:
        """Record an episode left by the client before its end."""
        session = self._session
        if session is None or self._kept:
            return
        if not session.over:
            session.fail(AgentError(LEFT))
        if session.trajectory().fault:
            self._keep(session.trajectory())

    def _keep(self, trajectory: Trajectory) -> None:
        if not self._kept and self._record is not None:
            self._record.append(trajectory)
        self._kept = True


def checked_action(action: object) -> str:
    """Return the action if it is valid. Raises `UsageError` otherwise."""
    if not isinstance(action, str):
        raise UsageError(f"an action is a text, not {describe_json_type(action)}")
    if len(action) > MAX_TEXT:
        raise UsageError(f"the action has {len(action):,} characters; at most {MAX_TEXT:,} are taken")
    try:
        action.encode()
    except UnicodeEncodeError as error:
        raise UsageError("the action holds half of a character, which UTF-8 cannot write") from error
    return action


def describe_json_type(value: object) -> str:
    """Return the JSON type of a value in words."""
    names = {type(None): "nothing", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return {**names, dict: "an object"}.get(type(value), with_article(type(value).__name__))


def opening(view: AgentView) -> str:
    """Return everything a client may know before its first action, as one text for a model."""
    parts = [view.action_format, view.rules, view.critique, f"Your task: {view.goal}", view.initial_observation]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def ending(step: Step, won: bool) -> str:
    """Describe in one line how an episode ended; "" while it goes on."""
    if not (step.terminated or step.truncated):
        return ""
    how = "it was won" if won else "the last turn was taken" if step.truncated else "it was lost"
    return f"The episode is over: {how}; its score is {step.score:g} of 1."
