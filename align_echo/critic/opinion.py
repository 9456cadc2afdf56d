"""A critic's opinion of one proposed action: a verdict, and the probability that the action is correct.

Not here: asking for an opinion (`scoring.py`, `reasoning.py`), choosing by opinions (`selection.py`), and the file of
recorded opinions (`gaia/opinions.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from align_echo.critic.verdict import Verdict
from align_echo.errors import UsageError
from align_echo.types import Usage


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
