"""The wrapper that puts an interface between an agent and a text environment. First cut: passes everything through."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from align_echo.errors import UsageError
from align_echo.interface import Interface
from align_echo.wrappers.text_env import TextEnv


class AlignWrapper(gym.Wrapper[str, str, str, str]):
    """Adds an interface's rules to the task and its feedback to the observations."""

    def __init__(self, env: gym.Env[str, str], interface: Interface, *, sandbox: Any = None) -> None:
        if not isinstance(env.unwrapped, TextEnv):
            raise UsageError(f"AlignWrapper wraps a text environment, not {type(env.unwrapped).__name__}")
        super().__init__(env)
        self.interface = interface
