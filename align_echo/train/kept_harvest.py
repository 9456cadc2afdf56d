"""A harvest while it is learned from, and its file in a checkpoint of which steps are still to be made with it.

Left out: playing it, and learning from it (`trainer.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

from align_echo.train.batching import Batch
from align_echo.train.signals import Signals
from align_echo.train.trees import Tree

HARVEST = "harvest.pt"


@dataclass
class KeptHarvest:
    """A harvest's batches, and what earlier weights said of them.

    `steps` had made the weights that played it. `signals` are told with each of its steps; the seconds that it took
    with the first alone.
    """

    batches: list[Batch]
    old: list[torch.Tensor | None]
    steps: int
    signals: Signals = field(default_factory=dict)

    def write(self, file: Path) -> None:
        """Write it as plain values."""
        batches = [{**vars(batch), "tree": batch.tree and vars(batch.tree)} for batch in self.batches]
        torch.save({"batches": batches, "old": self.old, "steps": self.steps, "signals": self.signals}, file)

    @classmethod
    def read(cls, file: Path, device: torch.device) -> KeptHarvest:
        """Read what `write` wrote. A file holds values alone: none of its code is run."""
        values = torch.load(file, weights_only=True, map_location="cpu")
        batches = [Batch(**{**each, "tree": each["tree"] and Tree(**each["tree"])}) for each in values["batches"]]
        old = [each if each is None else each.to(device) for each in values["old"]]
        return cls(batches, old, values["steps"], values["signals"])
