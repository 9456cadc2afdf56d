"""What a part of the check tells: rows of what was measured and of the figures, and the memory it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Row:
    """`key` says what was measured, its `part` first; `figures` what came of it, or why there is nothing (`skipped`,
    `fault`).
    """

    key: Mapping[str, Any]
    figures: Mapping[str, Any]

    @property
    def record(self) -> dict[str, Any]:
        """As it stands in the JSON, with four digits."""
        return {**self.key, **{name: rounded(value) for name, value in self.figures.items()}}

    @property
    def line(self) -> str:
        """As it stands on the terminal."""
        what = ", ".join(str(value) for value in self.key.values())
        return f"{what}: " + ", ".join(f"{name} {rounded(value)}" for name, value in self.figures.items())


def rounded(value: Any) -> Any:
    """Numbers to four digits, lists of them too."""
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


@dataclass
class Memory:
    """The most that tensors on the GPU took, in GiB; None on a CPU, or before it was read."""

    gib: float | None = None


@contextmanager
def peak_memory() -> Iterator[Memory]:
    """Within, the most memory that is in use is watched; what is there from before counts."""
    memory = Memory()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    yield memory
    if torch.cuda.is_available():
        memory.gib = torch.cuda.max_memory_allocated() / 2**30
