"""The self-refine agent (Madaan et al., NeurIPS 2023; arXiv 2303.17651): propose, criticise, improve, then act.

The model proposes an action as the vanilla agent does, reviews it, and unless the review ends with "Verdict: keep" it
names a better one; at most `rounds` times a turn. 2 to 1 + 2 * rounds calls a turn, temperature 0. A review without
exactly one verdict, and an improved reply without an action, end the refinement and leave the last action as it is.

With `review="final-action"` there is one review a turn, which names the action that is sent: ALIGN's public code does
so. 2 calls a turn; the proposal is not read.

The reply's text is a record of all of it under headings in brackets, with what could not be read; the history shows the
model the final action alone. A proposal without an action is returned as it is, without a review.
"""

from __future__ import annotations

from typing import Literal, get_args

from align_echo.agents.conversation import MAX_TOKENS, ChatAgent, action_alone, said
from align_echo.agents.parsing import (
    after_label,
    parse_action,
    parse_reasoned_action,
    reply_lines,
    text_after_label,
)
from align_echo.errors import ReplyFormatError, UsageError
from align_echo.prompts import render
from align_echo.types import AgentReply, AgentView, ChatModel, Message, Turn

ReviewForm = Literal["verdict", "final-action"]
"""How a review ends: with a verdict, after which an improved action is asked for, or with the action itself."""


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
        """`rounds` is the most reviews that end with a verdict. Raises `UsageError` for fewer than one round, and for
        another review."""
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
        """Also how many rounds, or that there is one review which names the action."""
        own = {"review": self._review} if self._review == "final-action" else {"rounds": str(self._rounds)}
        return {**super().describe(), **own}

    def act(self, view: AgentView) -> AgentReply:
        """The last action that could be read; `usage` is that of all calls. Raises `ModelError`."""
        if self._review == "final-action":
            return self._review_once(view)
        messages = self.conversation(view)
        best = self.ask(messages, view)
        if best.action is None:
            return best
        usage, record = best.usage, [f"[proposal]\n{best.text}"]
        for number in range(1, self._rounds + 1):
            messages += [said(best.text), ask_for("critique")]
            critique = self.complete(messages)
            usage += critique.usage
            record.append(f"[review {number}]\n{critique.text}")
            try:
                if not parse_verdict(self.whole(critique)):
                    break
            except ReplyFormatError as error:
                record.append(f"[review {number} not read] {error}")
                break
            messages += [said(critique.text), ask_for("refine")]
            refined = self.ask(messages, view)
            usage += refined.usage
            record.append(f"[improved {number}]\n{refined.text}")
            if refined.action is None:
                record.append(f"[improved {number} not read] {refined.problem}")
                break
            best = refined
        return AgentReply(text="\n".join(record), action=best.action, usage=usage)

    def _review_once(self, view: AgentView) -> AgentReply:
        """Propose, review once, and send what the review names."""
        messages = self.conversation(view)
        proposal = self.complete(messages)
        reply = self.ask([*messages, said(proposal.text), ask_for("final")], view)
        record = f"[proposal]\n{proposal.text}\n[review 1]\n{reply.text}"
        return reply.model_copy(update={"text": record, "usage": proposal.usage + reply.usage, "tokens": None})

    def read(self, reply: str, view: AgentView) -> str:
        """The action of a proposal or an improved reply, by `parse_action`; of a review that names it, its last line's.
        """
        if self._review == "final-action":
            return parse_reasoned_action(reply, view)
        return parse_action(reply, view)

    def raw_action(self, reply: str, view: AgentView) -> str:
        """Return what stands behind the last "Action:" of a review; the whole of it without one."""
        return text_after_label(reply, view, last=True)

    def told(self, turn: Turn) -> str:
        """The final action."""
        return action_alone(turn)


def ask_for(step: str) -> Message:
    """The request for a "critique", to "refine", or for the "final" action."""
    return Message(role="user", content=render(f"self_refine/{step}", {}))


def parse_verdict(review: str) -> bool:
    """Whether something is to be changed. Raises `ReplyFormatError` unless exactly one verdict ends the review."""
    lines = reply_lines(review)
    verdicts = [rest for rest in (after_label(line, "Verdict") for line in lines) if rest is not None]
    if len(verdicts) != 1 or after_label(lines[-1], "Verdict") is None:
        raise ReplyFormatError("the review must end with its one line 'Verdict: keep' or 'Verdict: change'")
    verdict = verdicts[0].rstrip(".* ").lower()
    if verdict not in ("keep", "change"):
        raise ReplyFormatError(f"the verdict is neither keep nor change: {verdict[:40]!r}")
    return verdict == "change"
