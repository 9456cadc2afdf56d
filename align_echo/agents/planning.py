"""The planning agent: sub-goals first, then one action a turn that serves the present one. One call a turn.

After the Planning Agent of ALIGN (section 4.1), which takes from RAP (Hao et al., EMNLP 2023; arXiv 2305.14992) that
the model splits the task before it acts; left out is RAP's tree search with the model as the world. Temperature 0.

The first reply holds the plan and the first action; the history carries it, so the agent stays a function of the view.
A later reply may put a new plan in its place. Until an accepted reply holds one every message asks for it, and keeps
asking in the history: the conversation only grows.
"""

from __future__ import annotations

import re

from align_echo.agents.conversation import ChatAgent, labelled
from align_echo.agents.parsing import after_label, own_lines, parse_reasoned_action
from align_echo.errors import ReplyFormatError
from align_echo.prompts import render
from align_echo.types import AgentView, Message, Turn

_ITEM = re.compile(r"([0-9]{1,3})[.)]\s+(.+)")


class Planning(ChatAgent):
    """A chat model that plans sub-goals first and then acts on them."""

    kind = "planning"
    prompts = ("planning/system", "planning/ask")

    def conversation(self, view: AgentView) -> list[Message]:
        """The chat so far, with a request for a plan in each message to which there was none yet."""
        system, *chat = super().conversation(view)
        planned = next((number for number, turn in enumerate(view.turns) if plan_in(turn)), len(view.turns))
        asking = render("planning/ask", {})
        for index in range(0, 2 * planned + 1, 2):
            chat[index] = Message(role="user", content=f"{chat[index].content}\n\n{asking}")
        return [system, *chat]

    def read(self, reply: str, view: AgentView) -> str:
        """The action, of a reply that names a sub-goal of its own plan or of the one before."""
        action = parse_reasoned_action(reply, view)
        plan = parse_plan(reply) or plan_of(view)
        if not plan:
            raise ReplyFormatError("there is no plan yet; begin the reply with 'Plan:' and numbered sub-goals")
        number = parse_sub_goal(reply)
        if not 1 <= number <= len(plan):
            raise ReplyFormatError(f"there is no sub-goal {number}: the plan has {len(plan)}")
        return action

    def told(self, turn: Turn) -> str:
        """Plan, sub-goal and action."""
        return labelled(turn)


def plan_of(view: AgentView) -> tuple[str, ...]:
    """The sub-goals of the newest plan in an accepted reply; () if there is none."""
    return next((plan for turn in reversed(view.turns) if (plan := plan_in(turn))), ())


def plan_in(turn: Turn) -> tuple[str, ...]:
    """The sub-goals that an accepted reply sets; () if it sets none."""
    if turn.action is None or "plan" not in turn.reply.lower():
        return ()
    try:
        return parse_plan(turn.reply)
    except ReplyFormatError:
        return ()


def parse_plan(reply: str) -> tuple[str, ...]:
    """The sub-goals of a reply, () if it has no "Plan:" line. Raises `ReplyFormatError` for a plan it cannot read."""
    lines = own_lines(reply)
    heads = [number for number, line in enumerate(lines) if after_label(line, "Plan") is not None]
    if not heads:
        return ()
    if len(heads) > 1 or after_label(lines[heads[0]], "Plan"):
        raise ReplyFormatError("write 'Plan:' once, on a line of its own, and one numbered sub-goal on each next line")
    goals: list[str] = []
    for line in lines[heads[0] + 1 :]:
        item = _ITEM.fullmatch(line)
        if item is None:
            break
        if int(item[1]) != len(goals) + 1:
            raise ReplyFormatError(f"number the sub-goals 1, 2, 3 ...: after {len(goals)} came {item[1]}")
        goals.append(item[2])
    if not goals:
        raise ReplyFormatError("'Plan:' must be followed by sub-goals, one a line, numbered 1., 2. and so on")
    return tuple(goals)


def parse_sub_goal(reply: str) -> int:
    """The number on the one "Sub-goal:" line of a reply. Raises `ReplyFormatError` if there is not exactly one."""
    named = [rest for rest in (after_label(line, "Sub-goal") for line in own_lines(reply)) if rest is not None]
    if len(named) != 1:
        raise ReplyFormatError("the reply must name one sub-goal on one line: 'Sub-goal:' and its number in the plan")
    number = re.match(r"[0-9]{1,3}\b", named[0])
    if number is None:
        raise ReplyFormatError(f"'Sub-goal:' must be followed by a number, not {named[0][:40]!r}")
    return int(number[0])
