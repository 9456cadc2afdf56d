"""ReAct agent (Yao et al., ICLR 2023; arXiv 2210.03629): a thought and an action in each reply, one call a turn.

The history keeps both. Zero-shot: the method's worked examples are not included, as they belong to one environment. A
reply without a thought is accepted, since the method thinks only now and then on such tasks; a reply must end with
exactly one action. An observation after the action is made up by the model and is dropped.
"""

from __future__ import annotations

from align_echo.agents.conversation import ChatAgent, labelled_reply
from align_echo.agents.parsing import parse_reasoned_action, text_after_label
from align_echo.types import AgentView, Turn


class ReAct(ChatAgent):
    """A chat model that writes a thought and then an action."""

    kind = "react"
    prompts = ("react/system",)

    def read(self, reply: str, view: AgentView) -> str:
        """Parse the action with `parse_reasoned_action`."""
        return parse_reasoned_action(reply, view)

    def raw_action(self, reply: str, view: AgentView) -> str:
        """Return the text after the first "Action:", up to the next; the full reply without one."""
        return text_after_label(reply, view)

    def history_text(self, turn: Turn) -> str:
        """Return thought and action."""
        return turn.reply if self._raw_replies else labelled_reply(turn)
