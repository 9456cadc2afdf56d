"""Decoding steps with one new token per row, replayed on a GPU as CUDA graphs without Python overhead.

A step launches about a thousand kernels; for a small model, launching takes many times longer than computing. A graph
has fixed shapes, so it computes a power of two of slots over a power of two of columns. Idle slots write their token
into the cache's spare column, and their logits are ignored. Not here: steps that read contexts, whose shapes vary, and
devices without graphs, where a fixed step runs like any other (used in tests).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from align_echo.errors import first_line
from align_echo.models.local.slot_attention import FixedStep, SlotPart, forward
from align_echo.models.local.slots import SlotCache

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LEAST_COLUMNS = 256


@dataclass(frozen=True)
class _Recorded:
    """A fixed-shape step, its graph (None: recompute each time) and the tensor of its logits [R, V]."""

    step: FixedStep
    graph: torch.cuda.CUDAGraph | None
    logits: torch.Tensor | None


class DecodeGraphs:
    """CUDA graphs of one model over one cache. Call `forget` after changing the model other than in place."""

    def __init__(self, model: PreTrainedModel, cache: SlotCache) -> None:
        self._model = model
        self._cache = cache
        self._recorded: dict[tuple[int, int, str], _Recorded] = {}
        self._buffers = -1
        self._broken = False

    def forget(self) -> None:
        """Drop all graphs."""
        self._recorded.clear()

    def fits(self, parts: Sequence[SlotPart]) -> bool:
        """Return True if a step of these parts can be replayed: all draw a token, and recording has not failed so far.
        """
        return not self._broken and all(len(part.ids) == 1 for part in parts)

    def logits(self, parts: Sequence[SlotPart], adapter: str) -> torch.Tensor | None:
        """Compute one step: the logits [B, V] after the single token of each part.

        Returns None, with a warning, if the model cannot be recorded as a graph.
        """
        columns = max(part.start for part in parts) + 1
        self._cache.reserve(columns)
        if self._buffers != self._cache.buffers_made:
            self.forget()
            self._buffers = self._cache.buffers_made
        rows = min(_round_up_pow2(max(part.slot for part in parts) + 1), self._cache.slots)
        key = (rows, min(max(_round_up_pow2(columns), LEAST_COLUMNS), self._cache.columns), adapter)
        if key not in self._recorded and not self._record(key, parts):
            return None
        recorded = self._recorded[key]
        recorded.step.take(parts)
        if recorded.graph is None:
            logits = self._computed(recorded.step)
        else:
            recorded.graph.replay()
            assert recorded.logits is not None
            logits = recorded.logits
        recorded.step.record()
        return logits[[part.slot for part in parts]]

    def _record(self, key: tuple[int, int, str], parts: Sequence[SlotPart]) -> bool:
        """Record a graph. Return False on failure."""
        rows, columns, _ = key
        step = FixedStep(self._cache, rows, columns, self._model.device)
        if self._model.device.type != "cuda":
            self._recorded[key] = _Recorded(step, None, None)
            return True
        step.take(parts)
        graph = torch.cuda.CUDAGraph()
        try:
            self._computed(step)  # one-time setup is not part of a graph
            torch.cuda.synchronize()
            # Other threads may use the GPU meanwhile: a trainer that learns while the next batch is played.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                logits = self._computed(step)
        except RuntimeError as error:
            self._broken = True
            why = first_line(error)
            warnings.warn(f"replies take longer: no CUDA graph can be made of the model: {why}", stacklevel=2)
            return False
        self._recorded[key] = _Recorded(step, graph, logits)
        return True

    def _computed(self, step: FixedStep) -> torch.Tensor:
        return forward(self._model, step, step.rows)


def _round_up_pow2(count: int) -> int:
    """Round up to a power of two."""
    return 1 << (count - 1).bit_length()
