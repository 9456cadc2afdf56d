"""Intuitive critic (GAIA): whether a proposed action is correct or wrong, in one word, before it is sent.

Its prompt is the agent's conversation, unchanged so that a local model's caches apply, and one more user message with
the action. Not here: probabilities (`best_of.py`), and choosing among candidates (`best_of.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal, get_args

from align_echo.agents.parsing import after_label, reply_lines, uncut_text
from align_echo.errors import ContextOverflowError, ModelError, ReplyFormatError, UsageError
from align_echo.models.drawing import model_for_sample
from align_echo.prompts import render
from align_echo.types import ChatModel, Fault, Frozen, Message, Step, Tokens, Usage

# ---------------------------------------------------------------- A trajectory as text for a critic

BUDGET = 5000
"""Characters for all turns together: about 1,500 tokens."""

LEAST_BUDGET = 500

TAGS = (
    *("task", "rules", "advice", "start", "response", "feedback", "criteria", "score", "action"),
    *("reason", "suggestions"),
)
"""All tags in the critics' prompts and replies."""

NO_ACTION = "(no action)"
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(TAGS)}))", re.IGNORECASE)
_NOTE = len("\n(9999 turns left out)\n")

Part = tuple[str, int]
"""A text and the number of turns in it."""


def plain(text: str) -> str:
    """Escape the start of every tag as `&lt;`, so that the text cannot open or close one.

    Longer names with a tag's name as prefix are escaped too, so that shortening the text cannot create a tag.
    """
    return _TAG.sub("&lt;", text)


def one_line(text: str) -> str:
    """Escape tags as `plain` does, and collapse white space."""
    return plain(" ".join(text.split()))


def clipped(text: str, longest: int) -> str:
    """Shorten a text to `longest` characters: its beginning and end around a note of how many are missing."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} ({len(text) - 2 * half} characters left out) {text[-half:]}"


def transcript(steps: Sequence[Step], budget: int = BUDGET) -> str:
    """Write turns, responses and feedback in tags, in at most `budget` characters.

    Raises `UsageError` for a budget under `LEAST_BUDGET`, too small for a turn.
    """
    if budget < LEAST_BUDGET:
        raise UsageError(f"a transcript needs at least {LEAST_BUDGET} characters, not {budget}")
    return _shortened(list(_blocks(steps, budget)), budget)


def _blocks(steps: Sequence[Step], budget: int) -> Iterator[Part]:
    """Generate consecutive turns with the same feedback as one text."""
    for feedback, block in groupby(steps, key=lambda step: step.observation):
        responses: list[Part] = []
        for action, run in groupby(block, key=lambda step: step.action):
            times = len(list(run))
            response = clipped(one_line(action or NO_ACTION), budget // 8)
            responses.append((f"<response>{response}</response>{f' ({times} times)' if times > 1 else ''}", times))
        answer = clipped(plain(feedback.strip()), budget // 3)
        text = f"{_shortened(responses, budget // 3)}<feedback>{answer}</feedback>"
        yield text, sum(times for _, times in responses)


def _shortened(parts: Sequence[Part], room: int) -> str:
    """Join the parts, one a line: always the last, the others alternately from the end and the beginning while they
    fit.
    """
    room -= _NOTE
    first, last = 0, len(parts)
    from_end = True
    while first < last:
        length = len(parts[last - 1][0] if from_end else parts[first][0]) + 1
        if length > room and last < len(parts):
            break
        room -= length
        first, last = (first, last - 1) if from_end else (first + 1, last)
        from_end = not from_end
    left_out = sum(times for _, times in parts[first:last])
    note = [f"({left_out} turn{'' if left_out == 1 else 's'} left out)"] if left_out else []
    return "\n".join([text for text, _ in parts[:first]] + note + [text for text, _ in parts[last:]])


# ---------------------------------------------------------------- intuitive critic (GAIA)

Verdict = Literal["correct", "wrong"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


def verdict_messages(conversation: Sequence[Message], action: str) -> list[Message]:
    """Build the prompt: the agent's conversation before its next reply, and the question about the proposed action."""
    question = render("critic/verdict", {"action": one_line(action)})
    return [*conversation, Message(role="user", content=question)]


def parse_verdict(reply: str) -> Verdict:
    """Parse a reply of one word, in any case. Raises `ReplyFormatError` for anything else."""
    match reply.strip().rstrip(".").lower():
        case "correct":
            return "correct"
        case "wrong":
            return "wrong"
    raise ReplyFormatError(f"the verdict must be the one word correct or wrong, not {reply.strip()[:40]!r}")


# ---------------------------------------------------------------- reasoning critic (RCM, the baseline of GAIA)

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
