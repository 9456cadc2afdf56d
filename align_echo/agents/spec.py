"""What is known of an agent before one is made (`AgentSpec`), and what one is made for (`AgentSetting`).

Left out: finding an agent by name (`catalogue.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from align_echo.agents.presets import AgentPreset
from align_echo.errors import UsageError
from align_echo.types import Agent, ChatModel
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv

NO_STEP_LIMIT = 10**9


@dataclass(frozen=True)
class AgentSetting:
    """What an agent is made for: tasks of a split, a seed, and a chat model where it asks one.

    `temperature` and `max_tokens` None are the agent's own, or those of the `preset`, where there is one.
    """

    spec: EnvironmentSpec
    split: str
    data_root: Path | None = None
    seed: int = 0
    model: ChatModel | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    preset: AgentPreset | None = None

    def raw_env(self) -> TextEnv:
        """An environment without a step limit beside the one that is played, for agents that may see the hidden state.
        """
        return self.spec.make_env(split=self.split, data_root=self.data_root, step_limit=NO_STEP_LIMIT)

    def chat_model(self, agent: str) -> ChatModel:
        """The chat model. Raises `UsageError` where there is none."""
        if self.model is None:
            raise UsageError(f"the agent {agent} needs a chat model")
        return self.model


@dataclass(frozen=True)
class AgentSpec:
    """An agent by name: `about` in one line, whether it asks a chat model, and how one is made. One that `needs_expert`
    plays only tasks that have an expert.
    """

    name: str
    about: str
    asks_model: bool
    build: Callable[[AgentSetting], Agent]
    needs_expert: bool = False
