"""`AgentSpec`, an agent by name before it is built, and `AgentSetting`, what it is built for.

Not here: the registry of agents (`catalogue.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from align_echo.agents.conversation import WHOLE_HISTORY, HistoryBounds
from align_echo.agents.presets import AgentPreset
from align_echo.errors import UsageError
from align_echo.types import Agent, ChatModel
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv

NO_STEP_LIMIT = 10**9


@dataclass(frozen=True)
class AgentSetting:
    """What an agent is built for: a split of an environment, a seed, and a chat model if it needs one.

    If `temperature` or `max_tokens` is None, the `preset` decides, or else the agent's own default. With `tools` the
    model calls tools in place of writing actions.
    """

    spec: EnvironmentSpec
    split: str
    data_root: Path | None = None
    seed: int = 0
    model: ChatModel | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    preset: AgentPreset | None = None
    history: HistoryBounds = WHOLE_HISTORY
    tools: bool = False

    def raw_env(self) -> TextEnv:
        """Build a separate environment without a step limit, for agents that may see the hidden state."""
        return self.spec.make_env(split=self.split, data_root=self.data_root, step_limit=NO_STEP_LIMIT)

    def chat_model(self, agent: str) -> ChatModel:
        """Return the chat model. Raises `UsageError` if there is none."""
        if self.model is None:
            raise UsageError(f"the agent {agent} needs a chat model")
        return self.model


@dataclass(frozen=True)
class AgentSpec:
    """An agent by name: a one-line description (`about`), whether it asks a chat model, and how to build it. An agent
    that `needs_expert` plays only tasks with an expert.
    """

    name: str
    about: str
    asks_model: bool
    build: Callable[[AgentSetting], Agent]
    needs_expert: bool = False


def check_agent(agent: Agent) -> None:
    """Raise `UsageError` if the object is no agent."""
    if not isinstance(getattr(agent, "name", None), str) or not callable(getattr(agent, "act", None)):
        kind = type(agent).__name__
        raise UsageError(f"an agent has a `name` (text) and a method `act(view)`: {kind} lacks one of them")
