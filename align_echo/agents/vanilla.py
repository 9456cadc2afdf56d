"""Vanilla agent: a chat model that gets the action format and the rules, and answers one action a turn.

The paper's base agent (ALIGN, section 4.1 and appendix C.4), at temperature 0 like there: one call a turn.
"""

from __future__ import annotations

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.parsing import parse_action
from align_echo.types import AgentView


class Vanilla(ChatAgent):
    """A chat model that gets the task, the rules and the turns so far, and answers one action."""

    kind = "vanilla"
    prompts = ("vanilla/system",)

    def read(self, reply: str, view: AgentView) -> str:
        """Parse the action with `parse_action`."""
        return parse_action(reply, view)
