"""The chat in which the intuitive critic is asked about an action and answers. Labels come from `critic.labels`."""

from __future__ import annotations

from align_echo.agents.conversation import assistant_message
from align_echo.agents.reasoning import Vanilla
from align_echo.critic.verdict import Verdict, verdict_messages
from align_echo.models.drawing import ScriptedModel
from align_echo.train.sft import Demonstration
from align_echo.types import AgentView

_VANILLA = Vanilla(ScriptedModel(()))
"""Words the chats; never asked."""


def verdict_demonstration(
    view: AgentView, action: str, verdict: Verdict, *, kind: str = "alfworld.verdict"
) -> Demonstration:
    """The agent's chat with the question about the action and the one-word answer, which alone is imitated."""
    messages = verdict_messages(_VANILLA.conversation(view), action)
    spoken = sum(message.role == "assistant" for message in messages)
    weights = (*(0.0,) * spoken, 1.0)
    return Demonstration(kind=kind, messages=(*messages, assistant_message(verdict)), weights=weights)
