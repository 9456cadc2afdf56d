"""Environments and the gymnasium wrappers around them, one concern a file."""

from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import TextEnv

__all__ = ["AlignWrapper", "TextEnv"]
