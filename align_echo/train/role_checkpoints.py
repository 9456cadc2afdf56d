"""Common base of both trainers: a checkpoint folder for each role, and evaluation on held-out tasks.

Not here: steps (`trainer.py`, `trl_trainer.py`). `transformers` saves optimizer, schedule and state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from align_echo import stopping
from align_echo.train import processes
from align_echo.train.backbone import Backbone
from align_echo.train.keeping import KeepingTrainer
from align_echo.train.rows import Role
from align_echo.train.signals import Signals

Evaluation = Callable[[], Signals]


class RoleCheckpoints(KeepingTrainer):
    """A trainer of both roles. Subclasses set the attributes below.

    `transformers` loads weights divided among processes.
    """

    _backbone: Backbone
    _tokenizers: Mapping[Role, PreTrainedTokenizerBase]
    _evaluation: Evaluation | None
    _publish: Callable[[], None]
    _last: Path | None

    def close(self) -> None:
        """Stop a batch played ahead. Nothing to do here."""

    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
        """Play the held-out tasks with the current weights and log the figures."""
        if self._evaluation is None:
            return {}
        with stopping.interruptible():
            self._publish()
            figures = self._evaluation()
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in figures.items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save_rng_state(self, output_dir: str) -> None:
        if processes.is_first():  # draws are seeded one by one, and those of all processes are alike
            super()._save_rng_state(output_dir)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        for role in self._backbone.kept:
            folder = Path(output_dir or str(self.args.output_dir)) / role
            self._backbone.save(role, folder, writes=processes.is_first())
            if role in self._tokenizers and processes.is_first():
                self._tokenizers[role].save_pretrained(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self._load_roles(resume_from_checkpoint, model)

    def _load_roles(self, checkpoint: str, model: Any) -> None:
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            super()._load_from_checkpoint(checkpoint, model)
            return
        for role in self._backbone.kept:
            self._backbone.load(role, Path(checkpoint) / role)

    def _load_best_model(self) -> None:
        if self._last is not None:
            self._save(str(self._last))
        if self.is_deepspeed_enabled:
            super()._load_best_model()
        elif self.state.best_model_checkpoint is not None:
            self._load_roles(self.state.best_model_checkpoint, self.model_wrapped)
