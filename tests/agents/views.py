"""What the tests of the chat agents share: a view, views drawn by hypothesis, and the five agents."""

from __future__ import annotations

from hypothesis import strategies as st

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.reasoning import Planning, ReAct, SelfConsistency, SelfRefine, Vanilla
from align_echo.types import AgentView, Turn

FIVE: tuple[type[ChatAgent], ...] = (Vanilla, ReAct, SelfConsistency, SelfRefine, Planning)

VIEW = AgentView(
    task_id="t",
    action_format="look | go to {room}",
    goal="find the mug",
    rules="Rooms are entered by the door.",
    initial_observation="You are in the kitchen.",
)

PLAN = "Plan:\n1. find the mug\n2. bring it"

SPOKEN = {
    "vanilla": "{}",
    "react": "Thought: hm\nAction: {}",
    "self-consistency": "{}",
    "self-refine": "{}",
    "planning": f"{PLAN}\nSub-goal: 1\nAction: {{}}",
}
"""How a model says an action to each agent, in its first reply."""

words = st.text(st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=1, max_size=8)
actions = st.lists(words, min_size=1, max_size=4).map(" ".join)
texts = st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20), max_size=3).map(
    lambda lines: "\n".join(lines).strip()
)


def after(*turns: tuple[str, str | None, str]) -> AgentView:
    """`VIEW` after turns of reply, action and observation."""
    seen = tuple(Turn(reply=reply, action=action, observation=observation) for reply, action, observation in turns)
    return VIEW.model_copy(update={"turns": seen})
