"""Planning agent: sub-goals first, then one action a turn towards the present sub-goal. One call a turn.

After the Planning Agent of ALIGN (section 4.1). Like RAP (Hao et al., EMNLP 2023; arXiv 2305.14992), the model splits
the task before it acts; RAP's tree search with a world model is not included. Temperature 0.

The first reply holds the plan and the first action; the history carries it, so the agent stays a function of the view.
A later reply may replace the plan. Until an accepted reply holds a plan, every message asks for one, also in the
history: the conversation only grows.

With `plan_call` the plan is a separate call before the first action, in words and on one line, and never changes, as in
ALIGN's public code. The first reply's text then records both answers under headings in brackets.
"""

from __future__ import annotations

import re

from align_echo.agents.conversation import MAX_TOKENS, ChatAgent, assistant_message, labelled_reply
from align_echo.agents.parsing import after_label, own_lines, parse_action, parse_reasoned_action
from align_echo.errors import ReplyFormatError
from align_echo.prompts import render
from align_echo.types import AgentReply, AgentView, ChatModel, Message, Turn

_PLAN, _REPLY = "[plan]\n", "\n[reply]\n"
"""Headings of a separate plan and of the reply after it in a record."""

_ITEM = re.compile(r"([0-9]{1,3})[.)]\s+(.+)")


class Planning(ChatAgent):
    """A chat model that plans sub-goals first and then acts on them."""

    kind = "planning"
    prompts: tuple[str, ...] = ("planning/system", "planning/ask")

    def __init__(
        self,
        model: ChatModel,
        *,
        plan_call: bool = False,
        temperature: float = 0.0,
        max_tokens: int = MAX_TOKENS,
        raw_replies: bool = False,
    ) -> None:
        """`plan_call`: ask for the plan in a separate call before the first action."""
        super().__init__(model, temperature=temperature, max_tokens=max_tokens, raw_replies=raw_replies)
        self._plan_call = plan_call
        if plan_call:
            self.prompts = ("vanilla/system", "planning/first", "planning/begin")

    @property
    def asks_once(self) -> bool:
        """Return whether each turn is exactly one model call; False with a separate plan call."""
        return type(self).act is Planning.act and not self._plan_call

    def describe(self) -> dict[str, str]:
        """Add whether the plan is a separate call."""
        return {**super().describe(), **({"plan_call": "True"} if self._plan_call else {})}

    def act(self, view: AgentView) -> AgentReply:
        """Return the next action, after a separate plan call if one is due. Raises `ModelError`."""
        if not self._plan_call or recorded_plan(view) is not None:
            return super().act(view)
        plan = self.complete(self.conversation(view))
        text = plan.text.replace(_REPLY, _REPLY.replace("[", " ["))
        reply = self.ask(self._chat_after(text, view), view)
        record = f"{_PLAN}{text}{_REPLY}{reply.text}"
        return reply.model_copy(update={"text": record, "usage": plan.usage + reply.usage, "tokens": None})

    def conversation(self, view: AgentView) -> list[Message]:
        """Build the chat so far, with a request for a plan in each message until there is a plan."""
        if self._plan_call:
            plan = recorded_plan(view)
            return self._chat_after(plan, view) if plan is not None else self._chat_for_plan(view)
        system, *chat = super().conversation(view)
        planned = next((number for number, turn in enumerate(view.turns) if plan_in(turn)), len(view.turns))
        asking = render("planning/ask", {})
        for index in range(0, 2 * planned + 1, 2):
            chat[index] = Message(role="user", content=f"{chat[index].content}\n\n{asking}")
        return [system, *chat]

    def _chat_for_plan(self, view: AgentView) -> list[Message]:
        """Build the chat that asks for the plan alone."""
        system, start, *_ = super().conversation(view)
        return [system, Message(role="user", content=f"{start.content}\n\n{render('planning/first', {})}")]

    def _chat_after(self, plan: str, view: AgentView) -> list[Message]:
        """Build the chat so far with the plan of a separate call."""
        begin = Message(role="user", content=render("planning/begin", {}))
        return [*self._chat_for_plan(view), assistant_message(plan), begin, *super().conversation(view)[2:]]

    def read(self, reply: str, view: AgentView) -> str:
        """Parse the action of a reply that names a sub-goal of its own plan or of the plan before.

        With a separate plan call, the reply is the action alone.
        """
        if self._plan_call:
            return parse_action(reply, view)
        action = parse_reasoned_action(reply, view)
        plan = parse_plan(reply) or find_plan(view)
        if not plan:
            raise ReplyFormatError("there is no plan yet; begin the reply with 'Plan:' and numbered sub-goals")
        number = parse_sub_goal(reply)
        if not 1 <= number <= len(plan):
            raise ReplyFormatError(f"there is no sub-goal {number}: the plan has {len(plan)}")
        return action

    def history_text(self, turn: Turn) -> str:
        """Return plan, sub-goal and action; with a separate plan call, the reply alone."""
        if self._plan_call:
            return turn.reply.partition(_REPLY)[2] if turn.reply.startswith(_PLAN) else turn.reply
        return labelled_reply(turn)


def recorded_plan(view: AgentView) -> str | None:
    """Return the plan of a separate call; None before that call."""
    records = (turn.reply for turn in view.turns if turn.reply.startswith(_PLAN))
    return next((record.removeprefix(_PLAN).partition(_REPLY)[0] for record in records), None)


def find_plan(view: AgentView) -> tuple[str, ...]:
    """Return the sub-goals of the newest plan in an accepted reply; () if there is none."""
    return next((plan for turn in reversed(view.turns) if (plan := plan_in(turn))), ())


def plan_in(turn: Turn) -> tuple[str, ...]:
    """Return the sub-goals of an accepted reply; () if it sets none."""
    if turn.action is None or "plan" not in turn.reply.lower():
        return ()
    try:
        return parse_plan(turn.reply)
    except ReplyFormatError:
        return ()


def parse_plan(reply: str) -> tuple[str, ...]:
    """Parse the sub-goals of a reply; () without a "Plan:" line. Raises `ReplyFormatError` for a malformed plan."""
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
    """Parse the number on the one "Sub-goal:" line of a reply. Raises `ReplyFormatError` if there is not exactly one.
    """
    named = [rest for rest in (after_label(line, "Sub-goal") for line in own_lines(reply)) if rest is not None]
    if len(named) != 1:
        raise ReplyFormatError("the reply must name one sub-goal on one line: 'Sub-goal:' and its number in the plan")
    number = re.match(r"[0-9]{1,3}\b", named[0])
    if number is None:
        raise ReplyFormatError(f"'Sub-goal:' must be followed by a number, not {named[0][:40]!r}")
    return int(number[0])
