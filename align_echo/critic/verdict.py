"""Intuitive critic (GAIA): whether a proposed action is correct or wrong, in one word, before it is sent.

Its prompt is the agent's conversation, unchanged so that a local model's caches apply, and one more user message with
the action. Not here: probabilities (`scoring.py`), and choosing among candidates (`selection.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from align_echo.critic.transcript import one_line
from align_echo.errors import ReplyFormatError
from align_echo.prompts import render
from align_echo.types import Message

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
