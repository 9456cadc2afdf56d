"""Opinions of a reasoning critic on proposed actions: its verdict on each, or a majority vote.

The same question as in `scoring.py`, for a critic that writes a reason first. One reply gives a verdict and no
probability; with several replies, the share of "correct" is the probability. Not here: prompt and parsing
(`reasoned_verdict.py`), and calibration: the share of a few votes is coarse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from align_echo.critic.opinion import CriticOpinion
from align_echo.critic.reasoned_verdict import MAX_TOKENS, ReasonedVerdict, judge
from align_echo.critic.verdict import Verdict
from align_echo.errors import UsageError
from align_echo.halting import on_threads
from align_echo.prompts import prompt_hash
from align_echo.types import ChatModel, Message, Usage

AT_ONCE = 32
"""Most parallel requests."""


@dataclass(frozen=True)
class ReasoningCritic:
    """A critic that writes a reason and then a verdict. Thread-safe if the model is.

    With `votes` 1 it is asked once, greedily; otherwise `votes` times at temperature 1. Raises `UsageError` for 0
    votes.
    """

    model: ChatModel
    votes: int = 1
    max_tokens: int = MAX_TOKENS

    def __post_init__(self) -> None:
        if self.votes < 1:
            raise UsageError(f"a critic votes once or more often, not {self.votes} times")

    def score(self, conversation: Sequence[Message], actions: Sequence[str]) -> list[CriticOpinion]:
        """Return an opinion on each action as the next one in a conversation, in order.

        A fault of the model or an unreadable reply gives no verdict; a fault is marked as `broken`.
        """
        questions = [(action, sample) for action in actions for sample in range(self.votes)]
        if not questions:
            return []
        replies = on_threads(lambda vote: self._judge(conversation, *vote), questions, min(len(questions), AT_ONCE))
        starts = range(0, len(replies), self.votes)
        return [
            count_verdicts(action, replies[start : start + self.votes])
            for action, start in zip(actions, starts, strict=True)
        ]

    def describe(self) -> dict[str, str]:
        """Return the settings behind its verdicts, besides its model, for run records."""
        prompt = "critic/reasoned_verdict"
        return {"votes.judge": str(self.votes), f"prompt.{prompt}": prompt_hash(prompt)}

    def _judge(self, conversation: Sequence[Message], action: str, sample: int) -> ReasonedVerdict:
        temperature = 0.0 if self.votes == 1 else 1.0
        return judge(
            self.model, conversation, action, sample=sample, temperature=temperature, max_tokens=self.max_tokens
        )


def count_verdicts(action: str, replies: Sequence[ReasonedVerdict]) -> CriticOpinion:
    """Return the majority verdict on an action, "wrong" for a tie; None if no reply is readable.

    With several replies, the logit is log (correct + 1/2) - log (wrong + 1/2), which is finite (Haldane and Anscombe).
    The opinion is `broken` if any reply has a fault.
    """
    usage = sum((reply.usage for reply in replies), Usage())
    broken = any(reply.fault is not None for reply in replies)
    verdicts = [reply.verdict for reply in replies if reply.verdict is not None]
    correct, wrong = verdicts.count("correct"), verdicts.count("wrong")
    verdict: Verdict | None = None if not verdicts else "correct" if correct > wrong else "wrong"
    logit = math.log(correct + 0.5) - math.log(wrong + 0.5) if verdicts and len(replies) > 1 else None
    return CriticOpinion(action=action, verdict=verdict, logit=logit, broken=broken, usage=usage).at(1.0)
