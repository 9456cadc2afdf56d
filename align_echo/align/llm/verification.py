"""The verification dialogue that Analyzer and Optimizer share: one operation a turn until the model concludes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from align_echo.align.experiments import Outcome, Simulator, clip
from align_echo.align.llm.dialogue import Dialogue
from align_echo.align.llm.replies import ExperimentRequest
from align_echo.align.llm.settings import LlmSettings
from align_echo.errors import NoAnswerError
from align_echo.prompts import render

Concluded = TypeVar("Concluded")
SHOWN_OF_ARGUMENT = 300
"""Characters of an argument that its outcome repeats."""

MoveParser = Callable[[str, Sequence[Outcome], bool], ExperimentRequest | Concluded]
"""(reply, experiments so far, whether another is allowed) -> the next experiment or the conclusion."""


def verify(
    dialogue: Dialogue,
    simulator: Simulator,
    opening: str,
    parse: MoveParser[Concluded],
    settings: LlmSettings,
) -> Concluded:
    """The conclusion after at most `settings.operations` experiments.

    Raises `NoAnswerError` if there is none, and `ModelError`.
    """
    prompt = opening
    for left in range(settings.operations, -1, -1):
        move = _next_move(dialogue, simulator, prompt, parse, left > 0, settings.format_tries)
        if not isinstance(move, ExperimentRequest):
            return move
        prompt = outcome_text(simulator.perform(move.operation, move.argument), left - 1, move.dropped)
    raise NoAnswerError("the experiments came to no conclusion")


def _next_move(
    dialogue: Dialogue,
    simulator: Simulator,
    prompt: str,
    parse: MoveParser[Concluded],
    may_request: bool,
    tries: int,
) -> ExperimentRequest | Concluded:
    return dialogue.ask(prompt, lambda reply: parse(reply, simulator.outcomes, may_request), tries=tries)


def outcome_text(outcome: Outcome, left: int, dropped: int = 0) -> str:
    """An experiment's outcome for the model: `left` operations remain, `dropped` of its message are left out."""
    values = {
        "number": outcome.number,
        "operation": outcome.operation,
        "ok": outcome.ok,
        "argument": clip(outcome.argument, SHOWN_OF_ARGUMENT),
        "dropped": dropped,
        "text": outcome.text,
        "left": left,
    }
    return render("shared/outcome", values)
