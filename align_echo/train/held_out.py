"""Held-out tasks: played with the weights of now, measured with intervals, kept as a curve over steps.

Left out: when that is done, and which weights are the best (the trainer).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from align_echo.errors import EngineError
from align_echo.faults import ERRORS, fault_text
from align_echo.intervals import mean_score, scored, success_rate
from align_echo.session import Episode
from align_echo.train.run_folder import append
from align_echo.train.signals import Signals
from align_echo.train.stage import Stage


@dataclass
class HeldOut:
    """Tasks played one episode each. `figures` are those of the last time, as `summary.json` writes them:

    `score` (0 to 1) and `success` (percent), each `value`, `n` and `ci95` over tasks, and how many episodes broke.
    """

    stage: Stage
    queries: Sequence[str]
    seed: int = 0
    figures: dict[str, Any] | None = field(default=None, init=False)

    def __call__(self) -> Signals:
        """Mean score and share of won episodes, both 0 to 1. Raises what broke the first if every episode broke: that
        is no 0.
        """
        played = self.stage.play([Episode(query) for query in self.queries])
        done = scored(played)
        if not done:
            first = next((trajectory.fault for trajectory in played if trajectory.fault is not None), None)
            kind = ERRORS[first.source] if first else EngineError
            raise kind(f"every held-out episode broke; the first: {fault_text(first) if first else 'there are none'}")
        score, success = mean_score(done, seed=self.seed), success_rate(done)
        self.figures = {
            "score": score.model_dump(mode="json"),
            "success": success.model_dump(mode="json"),
            "faults": len(played) - len(done),
        }
        return {"score": score.value, "won": success.value / 100, "n": float(len(done))}


class Curve(TrainerCallback):
    """Keeps the figures of every evaluation, with how many steps are behind it: a line of `file` each.

    `told` is given the same.
    """

    def __init__(self, held_out: HeldOut, file: Path, told: Callable[[int, dict[str, Any]], None]) -> None:
        self._held_out = held_out
        self._file = file
        self._told = told

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """As `transformers` asks after each evaluation."""
        figures = self._held_out.figures
        if figures is not None:
            append(self._file, {"step": state.global_step, **figures})
            self._told(state.global_step, figures)
