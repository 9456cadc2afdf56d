"""Opinions of the intuitive critic on proposed actions: one forward pass for all, one token each (GAIA, paper 3).

The critic reads the agent's conversation and a question about each action. Only the token that distinguishes "correct"
from "wrong" is used (`models/choosing.py`). Works with a local model, vLLM and endpoints. Not here: the prompt
(`verdict.py`), and choosing by the opinions (`selection.py`, `best_of.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import Field, ValidationError

from align_echo.critic.opinion import CriticOpinion, logit
from align_echo.critic.verdict import VERDICTS, verdict_messages
from align_echo.errors import ContextOverflowError, ModelError, UsageError
from align_echo.files import write_atomically
from align_echo.models.choosing import choose
from align_echo.prompts import prompt_hash
from align_echo.reading import parse_json
from align_echo.regular_files import read_text
from align_echo.types import ChatModel, Frozen, Message, WordChoice

FILE = "calibration.json"
"""File beside the weights of a calibrated critic."""


class CriticCalibration(Frozen):
    """A critic's temperature (`calibration.fit_temperature`), and the number of actions it was fitted on."""

    temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    n: int = 0


class ActionCritic(Protocol):
    """A judge of proposed actions: a `IntuitiveCritic`, or a `reasoning.Reasoner`."""

    @property
    def model(self) -> ChatModel: ...

    def score(self, conversation: Sequence[Message], actions: Sequence[str]) -> list[CriticOpinion]: ...

    def describe(self) -> dict[str, str]: ...


@dataclass(frozen=True)
class IntuitiveCritic:
    """An intuitive critic: a model and the temperature of its probabilities. Thread-safe if the model is."""

    model: ChatModel
    temperature: float = 1.0

    def score(self, conversation: Sequence[Message], actions: Sequence[str]) -> list[CriticOpinion]:
        """Return an opinion on each action as the next one in a conversation, in order.

        A fault of the model gives no verdict and is marked as `broken`; a prompt too long for its context gives no
        verdict either. Raises as `choose` does for a model that cannot be asked.
        """
        questions = [verdict_messages(conversation, action) for action in actions]
        answers = choose(self.model, questions, VERDICTS)
        return [self._opinion(action, answer) for action, answer in zip(actions, answers, strict=True)]

    def describe(self) -> dict[str, str]:
        """Return the settings behind its verdicts, besides its model, for run records."""
        return {"temperature.judge": str(self.temperature), "prompt.critic/verdict": prompt_hash("critic/verdict")}

    def _opinion(self, action: str, answer: WordChoice | ModelError) -> CriticOpinion:
        if isinstance(answer, ModelError):
            return CriticOpinion(action=action, verdict=None, broken=not isinstance(answer, ContextOverflowError))
        verdict = next((verdict for verdict in VERDICTS if verdict == answer.said), None)
        log_odds = None if answer.logprobs is None else logit(*answer.logprobs)
        return CriticOpinion(action=action, verdict=verdict, logit=log_odds, usage=answer.usage).at(self.temperature)


def write_calibration(calibration: CriticCalibration, folder: Path) -> None:
    """Write the calibration beside the critic's weights."""
    write_atomically(folder / FILE, calibration.model_dump_json(indent=2) + "\n")


def read_calibration(folder: Path) -> CriticCalibration:
    """Read the calibration beside a critic's weights; temperature 1 without a file. Raises `UsageError` for a damaged
    file.
    """
    file = folder / FILE
    if not file.is_file():
        return CriticCalibration()
    try:
        return CriticCalibration.model_validate(parse_json(read_text(file)))
    except (ValueError, ValidationError) as error:
        raise UsageError(f"{file} is damaged: delete it, or train the critic again") from error
