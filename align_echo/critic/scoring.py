"""How right a critic holds proposed actions to be: one forward pass for all of them, one token each (GAIA, paper 3).

The critic reads the agent's conversation and a question about each action; of its answer only the token that tells
"correct" from "wrong" is looked at (`models/choosing.py`). Over a local model, vLLM and endpoints alike. Left out: what
is asked (`verdict.py`), and what is done with the answers (`selection.py`, `best_of.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import Field, ValidationError

from align_echo.critic.selection import Judged
from align_echo.critic.verdict import VERDICTS, verdict_messages
from align_echo.errors import ContextOverflowError, ModelError, UsageError
from align_echo.files import write_atomically
from align_echo.models.choosing import choose
from align_echo.prompts import prompt_hash
from align_echo.reading import parse_json
from align_echo.types import ChatModel, Frozen, Message, WordChoice

FILE = "calibration.json"
"""Beside the weights of a critic that was calibrated."""


class Calibrated(Frozen):
    """By what a critic's logits are divided (`calibration.fit_temperature`), and on how many actions that was found."""

    temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    n: int = 0


class Critic(Protocol):
    """Who says of proposed actions whether they are correct: a `Scorer`, or a `reasoning.Reasoner`."""

    @property
    def model(self) -> ChatModel: ...

    def score(self, conversation: Sequence[Message], actions: Sequence[str]) -> list[Judged]: ...

    def describe(self) -> dict[str, str]: ...


@dataclass(frozen=True)
class Scorer:
    """A critic: a model, and the temperature of its probabilities. Thread-safe where the model is."""

    model: ChatModel
    temperature: float = 1.0

    def score(self, conversation: Sequence[Message], actions: Sequence[str]) -> list[Judged]:
        """What it says of each action that an agent proposes next in a conversation, in order.

        A fault of the model is no verdict, marked as `broken`; what does not fit into its context is none either.
        Raises what `choose` does for a model that cannot be asked.
        """
        asked = [verdict_messages(conversation, action) for action in actions]
        return [self._judged(said) for said in choose(self.model, asked, VERDICTS)]

    def describe(self) -> dict[str, str]:
        """What its verdicts depend on beside its model, for run records."""
        return {"temperature.judge": str(self.temperature), "prompt.critic/verdict": prompt_hash("critic/verdict")}

    def _judged(self, said: WordChoice | ModelError) -> Judged:
        if isinstance(said, ModelError):
            return Judged(None, broken=not isinstance(said, ContextOverflowError))
        verdict = next((verdict for verdict in VERDICTS if verdict == said.said), None)
        log_odds = None if said.logprobs is None else logit(*said.logprobs)
        p_correct = None if log_odds is None else probability(log_odds, self.temperature)
        return Judged(verdict, p_correct, said.usage, log_odds)


def logit(correct: float, wrong: float) -> float | None:
    """log P(correct) - log P(wrong), from both logarithms; None where both are 0 and say nothing."""
    return None if correct == wrong == -math.inf else correct - wrong


def probability(logit: float, temperature: float = 1.0) -> float:
    """P(correct) among the two verdicts: sigmoid(logit / temperature)."""
    scaled = logit / temperature
    return 1 / (1 + math.exp(-scaled)) if scaled >= 0 else math.exp(scaled) / (1 + math.exp(scaled))


def write_calibration(calibrated: Calibrated, folder: Path) -> None:
    """Put it beside the critic's weights."""
    write_atomically(folder / FILE, calibrated.model_dump_json(indent=2) + "\n")


def read_calibration(folder: Path) -> Calibrated:
    """What lies beside a critic's weights; temperature 1 where there is nothing. Raises `UsageError` if it is damaged.
    """
    file = folder / FILE
    if not file.is_file():
        return Calibrated()
    try:
        return Calibrated.model_validate(parse_json(file.read_text(encoding="utf-8")))
    except (ValueError, ValidationError) as error:
        raise UsageError(f"{file} is damaged: delete it, or train the critic again") from error
