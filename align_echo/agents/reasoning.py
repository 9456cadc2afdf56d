"""Chat agents of the ALIGN paper: vanilla, self-consistency, self-refine, planning and ReAct.

ReAct (Yao et al., ICLR 2023; arXiv 2210.03629) has a thought and an action in each reply, one call a turn. The history
keeps both. Zero-shot: the method's worked examples are not included, as they belong to one environment. A
reply without a thought is accepted, since the method thinks only now and then on such tasks; a reply must end with
exactly one action. An observation after the action is made up by the model and is dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal, get_args

from align_echo.agents.conversation import (
    MAX_TOKENS,
    ChatAgent,
    action_or_reply,
    assistant_message,
    labelled_reply,
    with_action,
)
from align_echo.agents.parsing import (
    after_label,
    own_lines,
    parse_action,
    parse_reasoned_action,
    reply_lines,
    split_thoughts,
    text_after_label,
)
from align_echo.errors import ReplyFormatError, UsageError
from align_echo.models.drawing import model_for_sample
from align_echo.models.tool_calls import without_tools
from align_echo.prompts import render
from align_echo.types import AgentReply, AgentView, ChatModel, Completion, Message, Turn, Usage


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


# ---------------------------------------------------------------- vanilla agent


class Vanilla(ChatAgent):
    """A chat model that gets the task, the rules and the turns so far, and answers one action."""

    kind = "vanilla"
    prompts = ("vanilla/system",)

    def read(self, reply: str, view: AgentView) -> str:
        """Parse the action with `parse_action`."""
        return parse_action(reply, view)


# ---------------------------------------------------------------- self-consistency agent (Wang et al., ICLR 2023)


class SelfConsistency(ChatAgent):
    """A chat model sampled several times; the most frequent action wins."""

    kind = "self-consistency"
    prompts = ("vanilla/system",)

    def __init__(
        self,
        model: ChatModel,
        *,
        samples: int = 5,
        temperature: float = 0.7,
        max_tokens: int = MAX_TOKENS,
        raw_replies: bool = False,
    ) -> None:
        """Raises `UsageError` for fewer than one sample."""
        super().__init__(model, temperature=temperature, max_tokens=max_tokens, raw_replies=raw_replies)
        if samples < 1:
            raise UsageError(f"samples must be at least 1, not {samples}")
        self._samples = samples

    def describe(self) -> dict[str, str]:
        """Add the number of samples."""
        return {**super().describe(), "samples": str(self._samples)}

    def act(self, view: AgentView) -> AgentReply:
        """Return the action with the most votes; `usage` sums over all samples. Raises `ModelError`."""
        messages = self.conversation(view)
        first = self._sample * self._samples
        models = [model_for_sample(self._model, first + sample) for sample in range(self._samples)]
        replies = [self.ask(messages, view, model=model) for model in models]
        return vote(replies)

    def read(self, reply: str, view: AgentView) -> str:
        """Parse the action of one sample with `parse_action`."""
        return parse_action(reply, view)

    def history_text(self, turn: Turn) -> str:
        """Return the chosen action."""
        return action_or_reply(turn)


def vote(replies: list[AgentReply]) -> AgentReply:
    """Count the actions of at least one reply and return the most frequent."""
    usage, thinking = sum((reply.usage for reply in replies), Usage()), join_texts(*(each.thinking for each in replies))
    votes = Counter(reply.action for reply in replies if reply.action is not None)
    if not votes:
        problem = f"none of {len(replies)} samples holds exactly one action; of the first: {replies[0].problem}"
        return AgentReply(text=replies[0].text, action=None, thinking=thinking, problem=problem, usage=usage)
    ranked = votes.most_common()  # equal counts stay in order of first appearance
    lost = len(replies) - votes.total()
    counted = [f"{count} {action}" for action, count in ranked] + ([f"{lost} without an action"] if lost else [])
    action, verbatim = ranked[0][0], replies[0].verbatim
    call = next(reply.call for reply in replies if reply.action == action)
    text = f"{action}\nvotes: {' | '.join(counted)}"
    return AgentReply(text=text, action=action, thinking=thinking, call=call, verbatim=verbatim, usage=usage)


def join_texts(*texts: str) -> str:
    """Join texts by an empty line, without empty ones."""
    return "\n\n".join(filter(None, (text.strip() for text in texts)))


# ---------------------------------------------------------------- self-refine agent (Madaan et al., NeurIPS 2023

ReviewForm = Literal["verdict", "final-action"]
"""End of a review: a verdict, followed by a request for an improved action, or the action itself."""


class SelfRefine(ChatAgent):
    """A chat model that reviews its action and improves it before it acts."""

    kind = "self-refine"
    prompts: tuple[str, ...] = ("vanilla/system", "self_refine/critique", "self_refine/refine")

    def __init__(
        self,
        model: ChatModel,
        *,
        rounds: int = 2,
        review: ReviewForm = "verdict",
        temperature: float = 0.0,
        max_tokens: int = MAX_TOKENS,
        raw_replies: bool = False,
    ) -> None:
        """`rounds`: most reviews with a verdict a turn. Raises `UsageError` for fewer than 1 and for an unknown review.
        """
        super().__init__(model, temperature=temperature, max_tokens=max_tokens, raw_replies=raw_replies)
        if rounds < 1:
            raise UsageError(f"rounds must be at least 1, not {rounds}")
        if review not in get_args(ReviewForm):
            raise UsageError(f"a review is one of {', '.join(get_args(ReviewForm))}, not {review!r}")
        self._rounds = rounds
        self._review = review
        if review == "final-action":
            self.prompts = ("vanilla/system", "self_refine/final")

    def describe(self) -> dict[str, str]:
        """Add the number of rounds, or the form of the single review."""
        own = {"review": self._review} if self._review == "final-action" else {"rounds": str(self._rounds)}
        return {**super().describe(), **own}

    def act(self, view: AgentView) -> AgentReply:
        """Return the last action parsed; `usage` sums over all calls. Raises `ModelError`."""
        if self._review == "final-action":
            return self._review_once(view)
        messages = self.conversation(view)
        best = self.ask(messages, view)
        if best.action is None:
            return best
        usage, record, thinking = best.usage, [f"[proposal]\n{with_action(best)}"], [best.thinking]
        for number in range(1, self._rounds + 1):
            messages += [assistant_message(with_action(best)), ask_for("critique")]
            critique = self.complete(without_tools(messages))
            thoughts, review = split_thoughts(critique.text)
            thinking += [critique.thinking, thoughts]
            usage += critique.usage
            record.append(f"[review {number}]\n{review}")
            try:
                if not parse_verdict(self.full_text(critique)):
                    break
            except ReplyFormatError as error:
                record.append(f"[review {number} not read] {error}")
                break
            messages += [assistant_message(review), ask_for("refine")]
            refined = self.ask(messages, view)
            usage, thinking = usage + refined.usage, [*thinking, refined.thinking]
            record.append(f"[improved {number}]\n{with_action(refined)}")
            if refined.action is None:
                record.append(f"[improved {number} not read] {refined.problem}")
                break
            best = refined
        text, thought = "\n".join(record), join_texts(*thinking)
        return AgentReply(text=text, action=best.action, thinking=thought, call=best.call, usage=usage)

    def _review_once(self, view: AgentView) -> AgentReply:
        """Propose, review once, and return the action of the review."""
        messages = self.conversation(view)
        proposal = self.complete(without_tools(messages))
        thoughts, proposed = split_thoughts(proposal.text)
        reply = self.ask([*messages, assistant_message(proposed), ask_for("final")], view)
        record = f"[proposal]\n{proposed}\n[review 1]\n{with_action(reply)}"
        return join_calls(proposal, thoughts, reply, record)

    def read(self, reply: str, view: AgentView) -> str:
        """Parse the action of a proposal or improved reply; of a "final-action" review, the action on its last line."""
        if self._review == "final-action":
            return parse_reasoned_action(reply, view)
        return parse_action(reply, view)

    def raw_action(self, reply: str, view: AgentView) -> str:
        """Return the text after the last "Action:" of a review; the full text without one."""
        return text_after_label(reply, view, last=True)

    def history_text(self, turn: Turn) -> str:
        """Return the final action."""
        return action_or_reply(turn)


def join_calls(first: Completion, thoughts: str, reply: AgentReply, record: str) -> AgentReply:
    """Return a turn of two calls: the reply of the second, with the first's usage and thoughts, and `record` as text.
    """
    thinking = join_texts(first.thinking, thoughts, reply.thinking)
    spent = {"usage": first.usage + reply.usage, "tokens": None}
    return reply.model_copy(update={"text": record, "thinking": thinking, **spent})


def ask_for(step: str) -> Message:
    """Build the request for a "critique", to "refine", or for the "final" action."""
    return Message(role="user", content=render(f"self_refine/{step}", {}))


def parse_verdict(review: str) -> bool:
    """Return whether the action should change. Raises `ReplyFormatError` unless exactly one verdict ends the review."""
    lines = reply_lines(review)
    verdicts = [rest for rest in (after_label(line, "Verdict") for line in lines) if rest is not None]
    if len(verdicts) != 1 or after_label(lines[-1], "Verdict") is None:
        raise ReplyFormatError("the review must end with its one line 'Verdict: keep' or 'Verdict: change'")
    verdict = verdicts[0].rstrip(".* ").lower()
    if verdict not in ("keep", "change"):
        raise ReplyFormatError(f"the verdict is neither keep nor change: {verdict[:40]!r}")
    return verdict == "change"


# ---------------------------------------------------------------- planning agent

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
        plan = self.complete(without_tools(self.conversation(view)))
        thoughts, text = split_thoughts(plan.text)
        text = text.replace(_REPLY, _REPLY.replace("[", " ["))
        reply = self.ask(self._chat_after(text, view), view)
        return join_calls(plan, thoughts, reply, f"{_PLAN}{text}{_REPLY}{reply.text}")

    def conversation(self, view: AgentView) -> list[Message]:
        """Build the chat so far, with a request for a plan in each message until there is a plan.

        A plan in a turn that is left out stands in the opening.
        """
        if self._plan_call:
            plan = recorded_plan(view)
            return self._chat_after(plan, view) if plan is not None else self._chat_for_plan(view)
        system, *chat = super().conversation(view)
        planned = next((number for number, turn in enumerate(view.turns) if plan_in(turn)), len(view.turns))
        asking = render("planning/ask", {})
        hidden = len(view.turns) - len(chat) // 2
        for index in range(0, 2 * max(0, planned - hidden) + 1, 2):
            chat[index] = chat[index].model_copy(update={"content": f"{chat[index].content}\n\n{asking}"})
        if sub_goals := find_plan(view.model_copy(update={"turns": view.turns[:hidden]})):
            listed = "\n".join(f"{number}. {goal}" for number, goal in enumerate(sub_goals, start=1))
            chat[0] = Message(role="user", content=f"{chat[0].content}\n\nPlan:\n{listed}")
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
