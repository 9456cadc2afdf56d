"""Evaluation on held-out tasks with the current weights: figures with intervals, one line a step.

The trainer decides when to evaluate and which weights are the best.
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
    """An evaluation on held-out tasks, one episode each. `figures` holds the latest, in the form of `summary.json`:

    `score` (0 to 1) and `success` (percent), each `value`, `n` and `ci95` over tasks, and the number of `faults`. As a
    trainer's callback it appends the figures of every evaluation to `file`, with the step, and passes them to `watch`.
    """

    def __init__(
        self,
        stage: Stage,
        tasks: Sequence[str],
        seed: int,
        file: Path,
        watch: Callable[[int, dict[str, Any]], None],
    ) -> None:
        self._stage = stage
        self._tasks = tasks
        self._seed = seed
        self._file = file
        self._watch = watch
        self.figures: dict[str, Any] | None = None

    def __call__(self) -> Signals:
        """Play the tasks; return mean score and share of wins, both 0 to 1.

        If every episode broke, raises the first episode's fault: that is no score of 0.
        """
        played = self._stage.play([Episode(task) for task in self._tasks])
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
        """Append the figures to the file."""
        if self.figures is not None and state.is_world_process_zero:
            append(self._file, {"step": state.global_step, **self.figures})
            self._watch(state.global_step, self.figures)
