"""The end of a run by what it has played rather than by steps: methods are compared at equal turns in environments.

Left out: budgets of tokens or of time.
"""

from __future__ import annotations

from pathlib import Path

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from align_echo.train.run_folder import steps_in


class Budget(TrainerCallback):
    """Ends a run after the step that brings it to `most` turns; its weights at that step are evaluated and kept.

    `played` is what was played before, by the run that this one goes on with.
    """

    def __init__(self, most: int, played: int = 0) -> None:
        self._most = most
        self._played = played

    def add(self, turns: int) -> None:
        """Count `turns` that were played just now."""
        self._played += turns

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """As `transformers` asks after each step."""
        if self._played >= self._most:
            control.should_training_stop = True
            control.should_save = True
            control.should_evaluate = args.eval_strategy != "no"


def played_before(signals: Path, updates: int) -> int:
    """Turns that a run's file of signals tells of; `updates` steps learn from one harvest and all tell of it.

    Raises `UsageError` for a line that is damaged.
    """
    first = (record for record in steps_in(signals) if (record["step"] - 1) % updates == 0)
    return sum(int(record.get("environment_steps", 0)) for record in first)
