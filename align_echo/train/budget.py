"""End a run by turns played rather than by steps, to compare methods at equal turns in environments.

There are no budgets of tokens or of time.
"""

from __future__ import annotations

from pathlib import Path

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from align_echo.train.run_folder import steps_in


class TurnBudget(TrainerCallback):
    """Callback that ends a run after the step with which it reaches `most` turns. The weights of this step are
    evaluated and saved.

    `played` counts the turns before this process, for a resumed run.
    """

    def __init__(self, most: int, played: int = 0) -> None:
        self._most = most
        self._played = played

    def add(self, turns: int) -> None:
        """Add turns to the count."""
        self._played += turns

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Stop, save and evaluate once the budget is spent."""
        if self._played >= self._most:
            control.should_training_stop = True
            control.should_save = True
            control.should_evaluate = args.eval_strategy != "no"


def played_before(signals: Path, updates: int) -> int:
    """Count the turns recorded in a run's `signals.jsonl`.

    The `updates` steps of a batch all record its turns; only the first counts. Raises `UsageError` for a damaged line.
    """
    first = (record for record in steps_in(signals) if (record["step"] - 1) % updates == 0)
    return sum(int(record.get("environment_steps", 0)) for record in first)
