"""Held-out tasks: played with the weights of now, measured with intervals, kept as a curve over steps.

Left out: when that is done, and which weights are the best (the trainer).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class HeldOut(TrainerCallback):
    """Tasks played one episode each. `figures` are those of the last time, as `summary.json` writes them:

    `score` (0 to 1) and `success` (percent), each `value`, `n` and `ci95` over tasks, and how many episodes broke.
    As a callback of a trainer it writes the figures of every evaluation as a line of `file`, with how many steps are
    behind it, and gives `watch` the same.
    """

    def __init__(
        self,
        stage: Stage,
        queries: Sequence[str],
        seed: int,
        file: Path,
        watch: Callable[[int, dict[str, Any]], None],
    ) -> None:
        self._stage = stage
        self._queries = queries
        self._seed = seed
        self._file = file
        self._watch = watch
        self.figures: dict[str, Any] | None = None

    def __call__(self) -> Signals:
        """Mean score and share of won episodes, both 0 to 1. Raises what broke the first if every episode broke: that
        is no 0.
        """
        played = self._stage.play([Episode(query) for query in self._queries])
        done = scored(played)
        if not done:
            first = next((trajectory.fault for trajectory in played if trajectory.fault is not None), None)
            kind = ERRORS[first.source] if first else EngineError
            raise kind(f"every held-out episode broke; the first: {fault_text(first) if first else 'there are none'}")
        score, success = mean_score(done, seed=self._seed), success_rate(done)
        self.figures = {
            "score": score.model_dump(mode="json"),
            "success": success.model_dump(mode="json"),
            "faults": len(played) - len(done),
        }
        return {"score": score.value, "won": success.value / 100, "n": float(len(done))}

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """As `transformers` asks after each evaluation."""
        if self.figures is not None and state.is_world_process_zero:
            append(self._file, {"step": state.global_step, **self.figures})
            self._watch(state.global_step, self.figures)
