"""How right a reasoning critic holds proposed actions to be: its verdict on each, or a vote of several.

The same question as in `scoring.py`, asked of a critic that writes a reason first. One reply has a verdict and no
probability. Of several the share that says "correct" is one. Left out: what is asked and how a reply is read
(`reasoned_verdict.py`), and calibration: the share of a few votes is coarse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from align_echo.critic.reasoned_verdict import MAX_TOKENS, Judgement, judge
from align_echo.critic.scoring import probability
from align_echo.critic.selection import Judged
from align_echo.critic.verdict import Verdict
from align_echo.errors import UsageError
from align_echo.halting import on_threads
from align_echo.prompts import prompt_hash
from align_echo.types import ChatModel, Message, Usage

AT_ONCE = 32
"""Replies that are asked for at once."""


@dataclass(frozen=True)
class Reasoner:
    """A critic that writes a reason and then a verdict. Thread-safe where the model is.

    With `votes` 1 it is asked once, greedily; with more, so often at temperature 1. Raises `UsageError` for none.
    """

    model: ChatModel
    votes: int = 1
    max_tokens: int = MAX_TOKENS

    def __post_init__(self) -> None:
        if self.votes < 1:
            raise UsageError(f"a critic votes once or more often, not {self.votes} times")

    def score(self, conversation: Sequence[Message], actions: Sequence[str]) -> list[Judged]:
        """What it says of each action that an agent proposes next in a conversation, in order.

        A fault of the model and a reply that cannot be read are no verdict; a fault is marked as `broken`.
        """
        asked = [(action, sample) for action in actions for sample in range(self.votes)]
        if not asked:
            return []
        said = on_threads(lambda vote: self._judge(conversation, *vote), asked, min(len(asked), AT_ONCE))
        return [counted(said[index : index + self.votes]) for index in range(0, len(said), self.votes)]

    def describe(self) -> dict[str, str]:
        """What its verdicts depend on beside its model, for run records."""
        prompt = "critic/reasoned_verdict"
        return {"votes.judge": str(self.votes), f"prompt.{prompt}": prompt_hash(prompt)}

    def _judge(self, conversation: Sequence[Message], action: str, sample: int) -> Judgement:
        temperature = 0.0 if self.votes == 1 else 1.0
        return judge(
            self.model, conversation, action, sample=sample, temperature=temperature, max_tokens=self.max_tokens
        )


def counted(said: Sequence[Judgement]) -> Judged:
    """The verdict of most of the replies about one action, "wrong" where they are even; None if none can be read.

    Of several, the logit is log (correct + 1/2) - log (wrong + 1/2), which is finite (Haldane's and Anscombe's). It is
    `broken` if the model was in any of them.
    """
    usage = sum((verdict.usage for verdict in said), Usage())
    broken = any(verdict.fault is not None for verdict in said)
    verdicts = [verdict.said.verdict for verdict in said if verdict.said is not None]
    if not verdicts:
        return Judged(None, usage=usage, broken=broken)
    correct = verdicts.count("correct")
    wrong = len(verdicts) - correct
    verdict: Verdict = "correct" if correct > wrong else "wrong"
    if len(said) == 1:
        return Judged(verdict, usage=usage, broken=broken)
    logit = math.log(correct + 0.5) - math.log(wrong + 0.5)
    return Judged(verdict, probability(logit), usage, logit, broken)
