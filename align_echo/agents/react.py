"""The ReAct agent (Yao et al., ICLR 2023; arXiv 2210.03629): a thought and an action in each reply, one call a turn.

The history keeps both. Zero-shot: left out are the method's worked examples, which are another environment's in every
environment. A reply without a thought is accepted, as the method thinks only now and then on such tasks; one that
does not end with exactly one action is not. An observation that the model writes after it is made up, and left out.
"""

from __future__ import annotations

from align_echo.agents.conversation import ChatAgent, labelled
from align_echo.agents.parsing import parse_reasoned_action, text_after_label
from align_echo.types import AgentView, Turn


class ReAct(ChatAgent):
    """A chat model that writes a thought and then an action."""

    kind = "react"
    prompts = ("react/system",)

    def read(self, reply: str, view: AgentView) -> str:
        """The action, by `parse_reasoned_action`."""
        return parse_reasoned_action(reply, view)

    def raw_action(self, reply: str, view: AgentView) -> str:
        """Return what stands behind the first "Action:", up to the next; the whole reply without one."""
        return text_after_label(reply, view)

    def told(self, turn: Turn) -> str:
        """Thought and action."""
        return turn.reply if self._raw_replies else labelled(turn)
