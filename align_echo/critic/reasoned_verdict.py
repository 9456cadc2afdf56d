"""Reasoning critic (RCM, the baseline of GAIA): a reason first, then whether a proposed action is correct or wrong.

It is asked like the intuitive critic, but answers in two lines, "Reason: ..." and "Verdict: correct" or "wrong". An
unreadable reply is recorded with its problem. Not here: the reward of a verdict (`train.methods.rcm`).
"""

from __future__ import annotations

from collections.abc import Sequence

from align_echo.agents.parsing import after_label, reply_lines, uncut_text
from align_echo.critic.transcript import one_line
from align_echo.critic.verdict import Verdict, parse_verdict
from align_echo.errors import ContextOverflowError, ModelError, ReplyFormatError
from align_echo.models.drawing import model_for_sample
from align_echo.prompts import render
from align_echo.types import ChatModel, Fault, Frozen, Message, Tokens, Usage

MAX_TOKENS = 160


class ReasonedVerdict(Frozen):
    """A critic's reply about an action: a one-line `reason` and a `verdict`. Without a readable verdict, `verdict` is
    None and `problem` says why.

    `fault` is set if the critic's model failed; there is then no reply to train on.
    """

    reply: str = ""
    reason: str = ""
    verdict: Verdict | None = None
    problem: str = ""
    fault: Fault | None = None
    usage: Usage = Usage()
    tokens: Tokens | None = None


def judge(
    model: ChatModel,
    conversation: Sequence[Message],
    action: str,
    *,
    sample: int = 0,
    temperature: float = 1.0,
    max_tokens: int = MAX_TOKENS,
) -> ReasonedVerdict:
    """Ask once about an action in the agent's conversation. `sample` seeds repeated replies about it."""
    question = reasoned_verdict_messages(conversation, action)
    try:
        answer = model_for_sample(model, sample).complete(question, temperature=temperature, max_tokens=max_tokens)
    except ContextOverflowError as error:
        return ReasonedVerdict(problem=str(error))
    except ModelError as error:
        fault = Fault(source="model", error=type(error).__name__, message=str(error))
        return ReasonedVerdict(problem=str(error), fault=fault)
    judgement = ReasonedVerdict(reply=answer.text, usage=answer.usage, tokens=answer.tokens)
    try:
        reason, verdict = parse_reasoned_verdict(uncut_text(answer, max_tokens))
    except ReplyFormatError as error:
        return judgement.model_copy(update={"problem": str(error)})
    return judgement.model_copy(update={"reason": reason, "verdict": verdict})


def reasoned_verdict_messages(conversation: Sequence[Message], action: str) -> list[Message]:
    """Build the prompt: the agent's conversation before its next reply, and the question about the proposed action.

    The conversation loses its token ids: the critic reads the replies but did not sample them.
    """
    history = [Message(role=message.role, content=message.content) for message in conversation]
    question = render("critic/reasoned_verdict", {"action": one_line(action)})
    return [*history, Message(role="user", content=question)]


def parse_reasoned_verdict(reply: str) -> tuple[str, Verdict]:
    """Parse reason and verdict from a reply of exactly two lines. Raises `ReplyFormatError` with the problem."""
    lines = reply_lines(reply)
    if len(lines) != 2:
        raise ReplyFormatError(f'the reply must be a line "Reason: ..." and a line "Verdict: ...", not {len(lines)}')
    reason, verdict = after_label(lines[0], "Reason"), after_label(lines[1], "Verdict")
    if reason is None or verdict is None:
        raise ReplyFormatError('the first line must begin with "Reason:" and the second with "Verdict:"')
    if not reason.strip():
        raise ReplyFormatError("the reply gives no reason")
    return reason.strip(), parse_verdict(verdict)


def write_reasoned_verdict(reason: str, verdict: Verdict) -> str:
    """Write reason and verdict as a reply for `parse_reasoned_verdict`: the training target of a critic."""
    return f"Reason: {' '.join(reason.split())}\nVerdict: {verdict}"
