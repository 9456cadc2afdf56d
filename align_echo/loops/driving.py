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

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import gymnasium as gym

from align_echo.agents.catalogue import agent_spec
from align_echo.agents.conversation import ChatAgent
from align_echo.agents.spec import AgentSetting, AgentSpec
from align_echo.agents.vanilla import Vanilla
from align_echo.errors import UsageError, did_you_mean
from align_echo.evaluate.selection import pick_tasks
from align_echo.interface import Interface
from align_echo.models.scripted import ScriptedModel
from align_echo.session import Session
from align_echo.types import AgentReply, AgentView, ChatModel, Completion, Message, Trajectory
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.environment import EnvironmentSpec, as_path

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

    def asking(
        self, model: ChatModel, *, temperature: float | None = None, max_tokens: int | None = None
    ) -> ChatAgent:
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
