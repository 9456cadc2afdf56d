"""A critic's opinion of one proposed action: a verdict, and the probability that the action is correct.

Not here: asking for an opinion (`best_of.py`), choosing by opinions (`best_of.py`), and the file of
recorded opinions (`gaia/opinions.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from align_echo.critic.verdict import MAX_TOKENS, ReasonedVerdict, Verdict, judge
from align_echo.errors import UsageError
from align_echo.halting import on_threads
from align_echo.prompts import prompt_hash
from align_echo.types import ChatModel, Message, Usage


@dataclass(frozen=True)
class CriticOpinion:
    """A critic's opinion of an action. `verdict` is None if the reply cannot be parsed or the critic's model failed.

    `logit` is log P(correct) - log P(wrong) before any temperature and may be infinite; `p_correct` in [0, 1] is
    computed from it (`probability`). Both are None if the critic gives no probabilities. `broken` marks a fault of the
    model, which may be asked again, as opposed to an unreadable reply. Files hold neither `p_correct` nor `usage`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", ser_json_inf_nan="constants")

    action: str
    verdict: Verdict | None
    logit: float | None = None
    broken: bool = False
    p_correct: Annotated[float | None, Field(exclude=True)] = None
    usage: Annotated[Usage, Field(exclude=True)] = field(default_factory=Usage)

    def __post_init__(self) -> None:
        """Raises `UsageError` for a probability outside [0, 1]."""
        if self.p_correct is not None and not 0 <= self.p_correct <= 1:
            raise UsageError(f"a probability lies in [0, 1], unlike {self.p_correct}")

    def at(self, temperature: float) -> CriticOpinion:
        """Copy the opinion with the probability of its logit at this temperature."""
        return replace(self, p_correct=None if self.logit is None else probability(self.logit, temperature))


def logit(correct: float, wrong: float) -> float | None:
    """Compute log P(correct) - log P(wrong) from both logarithms; None if both probabilities are 0."""
    return None if correct == wrong == -math.inf else correct - wrong


def probability(logit: float, temperature: float = 1.0) -> float:
    """Compute P(correct) among the two verdicts: sigmoid(logit / temperature)."""
    scaled = logit / temperature
    return 1 / (1 + math.exp(-scaled)) if scaled >= 0 else math.exp(scaled) / (1 + math.exp(scaled))


# ---------------------------------------------------------------- opinions of a reasoning critic on proposed actions

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
