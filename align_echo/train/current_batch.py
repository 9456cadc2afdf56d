"""A batch in training, and its file in a checkpoint made between two of its steps.

Not here: playing it and learning from it (`trainer.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

from align_echo.train.batching import TensorBatch
from align_echo.train.signals import Signals
from align_echo.train.tree_attention import TokenTree

HARVEST = "harvest.pt"


@dataclass
class CurrentBatch:
    """A batch divided into micro-batches, with their log-probabilities under earlier weights (`old`).

    `steps` is the number of steps behind the weights that played it. Each of its steps reports `signals`; only the
    first reports the seconds of play.
    """

    batches: list[TensorBatch]
    old: list[torch.Tensor | None]
    steps: int
    signals: Signals = field(default_factory=dict)

    def write(self, file: Path) -> None:
        """Write the batch as plain values."""
        batches = [{**vars(batch), "tree": batch.tree and vars(batch.tree)} for batch in self.batches]
        torch.save({"batches": batches, "old": self.old, "steps": self.steps, "signals": self.signals}, file)

    @classmethod
    def read(cls, file: Path, device: torch.device) -> CurrentBatch:
        """Read a file of `write`. Files hold values only: no code in them is run."""
        values = torch.load(file, weights_only=True, map_location="cpu")
        batches = [
            TensorBatch(**{**each, "tree": each["tree"] and TokenTree(**each["tree"])}) for each in values["batches"]
        ]
        old = [each if each is None else each.to(device) for each in values["old"]]
        return cls(batches, old, values["steps"], values["signals"])
