"""Self-refine agent (Madaan et al., NeurIPS 2023; arXiv 2303.17651): propose, criticise, improve, then act.

The model proposes an action as the vanilla agent does and reviews it. Unless the review ends with "Verdict: keep", it
gives a better action; at most `rounds` times a turn. 2 to 1 + 2 * rounds calls a turn, temperature 0. A review without
exactly one verdict, or an improved reply without an action, ends the refinement with the last action.

With `review="final-action"` there is one review a turn, which gives the action to send, as in ALIGN's public code. 2
calls a turn; the proposal is not parsed.

The reply's text records all steps under headings in brackets, with any parsing problem; the history shows the model the
final action alone. A proposal without an action is returned as it is, without a review.
"""

from __future__ import annotations

from typing import Literal, get_args

from align_echo.agents.conversation import MAX_TOKENS, ChatAgent, action_or_reply, assistant_message
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
        usage, record = best.usage, [f"[proposal]\n{best.text}"]
        for number in range(1, self._rounds + 1):
            messages += [assistant_message(best.text), ask_for("critique")]
            critique = self.complete(messages)
            usage += critique.usage
            record.append(f"[review {number}]\n{critique.text}")
            try:
                if not parse_verdict(self.full_text(critique)):
                    break
            except ReplyFormatError as error:
                record.append(f"[review {number} not read] {error}")
                break
            messages += [assistant_message(critique.text), ask_for("refine")]
            refined = self.ask(messages, view)
            usage += refined.usage
            record.append(f"[improved {number}]\n{refined.text}")
            if refined.action is None:
                record.append(f"[improved {number} not read] {refined.problem}")
                break
            best = refined
        return AgentReply(text="\n".join(record), action=best.action, usage=usage)

    def _review_once(self, view: AgentView) -> AgentReply:
        """Propose, review once, and return the action of the review."""
        messages = self.conversation(view)
        proposal = self.complete(messages)
        reply = self.ask([*messages, assistant_message(proposal.text), ask_for("final")], view)
        record = f"[proposal]\n{proposal.text}\n[review 1]\n{reply.text}"
        return reply.model_copy(update={"text": record, "usage": proposal.usage + reply.usage, "tokens": None})

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
