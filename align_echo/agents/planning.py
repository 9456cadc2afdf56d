"""The planning agent: sub-goals first, then one action a turn that serves the present one. One call a turn.

After the Planning Agent of ALIGN (section 4.1), which takes from RAP (Hao et al., EMNLP 2023; arXiv 2305.14992) that
the model splits the task before it acts; left out is RAP's tree search with the model as the world. Temperature 0.

The first reply holds the plan and the first action; the history carries it, so the agent stays a function of the view.
A later reply may put a new plan in its place. Until an accepted reply holds one every message asks for it, and keeps
asking in the history: the conversation only grows.

With `plan_call` the plan is a call of its own before the first action, in words and on one line, and is not changed
later: ALIGN's public code does so. The first reply's text is then a record of both answers under headings in brackets.
"""

from __future__ import annotations

import re

from align_echo.agents.conversation import MAX_TOKENS, ChatAgent, labelled, said
from align_echo.agents.parsing import after_label, own_lines, parse_action, parse_reasoned_action
from align_echo.errors import ReplyFormatError
from align_echo.prompts import render
from align_echo.types import AgentReply, AgentView, ChatModel, Message, Turn

_PLAN, _REPLY = "[plan]\n", "\n[reply]\n"
"""What stands before a plan that was a call of its own, and between it and the reply."""

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
        """`plan_call`: the plan is a call of its own, before the first action."""
        super().__init__(model, temperature=temperature, max_tokens=max_tokens, raw_replies=raw_replies)
        self._plan_call = plan_call
        if plan_call:
            self.prompts = ("vanilla/system", "planning/first", "planning/begin")

    @property
    def asks_once(self) -> bool:
        """Whether a turn is one call of the model: not where the plan is one more."""
        return type(self).act is Planning.act and not self._plan_call

    def describe(self) -> dict[str, str]:
        """Also that the plan is a call of its own, where it is."""
        return {**super().describe(), **({"plan_call": "True"} if self._plan_call else {})}

    def act(self, view: AgentView) -> AgentReply:
        """The next action, after a plan where that is asked for alone and there is none yet. Raises `ModelError`."""
        if not self._plan_call or recorded_plan(view) is not None:
            return super().act(view)
        plan = self.complete(self.conversation(view))
        text = plan.text.replace(_REPLY, _REPLY.replace("[", " ["))
        reply = self.ask(self._chat_after(text, view), view)
        record = f"{_PLAN}{text}{_REPLY}{reply.text}"
        return reply.model_copy(update={"text": record, "usage": plan.usage + reply.usage, "tokens": None})

    def conversation(self, view: AgentView) -> list[Message]:
        """The chat so far, with a request for a plan in each message to which there was none yet."""
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
        """Return the chat that asks for the plan alone."""
        system, start, *_ = super().conversation(view)
        return [system, Message(role="user", content=f"{start.content}\n\n{render('planning/first', {})}")]

    def _chat_after(self, plan: str, view: AgentView) -> list[Message]:
        """Return the chat so far, with a plan that was asked for alone."""
        begin = Message(role="user", content=render("planning/begin", {}))
        return [*self._chat_for_plan(view), said(plan), begin, *super().conversation(view)[2:]]

    def read(self, reply: str, view: AgentView) -> str:
        """The action, of a reply that names a sub-goal of its own plan or of the one before; of a reply that is the
        action alone, where the plan was a call of its own."""
        if self._plan_call:
            return parse_action(reply, view)
        action = parse_reasoned_action(reply, view)
        plan = parse_plan(reply) or plan_of(view)
        if not plan:
            raise ReplyFormatError("there is no plan yet; begin the reply with 'Plan:' and numbered sub-goals")
        number = parse_sub_goal(reply)
        if not 1 <= number <= len(plan):
            raise ReplyFormatError(f"there is no sub-goal {number}: the plan has {len(plan)}")
        return action

    def told(self, turn: Turn) -> str:
        """Plan, sub-goal and action; the reply alone, where the plan was a call of its own."""
        if self._plan_call:
            return turn.reply.partition(_REPLY)[2] if turn.reply.startswith(_PLAN) else turn.reply
        return labelled(turn)


def recorded_plan(view: AgentView) -> str | None:
    """Return the plan that was a call of its own; None before it."""
    records = (turn.reply for turn in view.turns if turn.reply.startswith(_PLAN))
    return next((record.removeprefix(_PLAN).partition(_REPLY)[0] for record in records), None)


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
