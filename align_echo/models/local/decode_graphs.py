"""Steps in which every row draws one token, replayed on a GPU as CUDA graphs: the GPU works, and Python does not.

A step launches some thousand kernels, and launching takes a small model many times as long as computing. A graph has
fixed shapes, so it computes all slots up to a power of two, over columns up to one; slots that draw nothing write their
token into the cache's spare column, and nobody looks at their logits. Left out: steps that read contexts, whose shapes
are never the same, and processors without graphs, where a fixed step is computed as any other (tests do).
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
    """A step of fixed shapes, the graph that computes it (None: it is computed anew) and where its logits [R, V] are.
    """

    step: FixedStep
    graph: torch.cuda.CUDAGraph | None
    logits: torch.Tensor | None


class DecodeGraphs:
    """The graphs of one model over one cache. Whatever changes the model otherwise than in place must `forget` them."""

    def __init__(self, model: PreTrainedModel, cache: SlotCache) -> None:
        self._model = model
        self._cache = cache
        self._recorded: dict[tuple[int, int, str], _Recorded] = {}
        self._buffers = -1
        self._broken = False

    def forget(self) -> None:
        """Record anew."""
        self._recorded.clear()

    def fits(self, parts: Sequence[SlotPart]) -> bool:
        """Whether a step of these parts can be replayed: all draw, and graphs could be recorded so far."""
        return not self._broken and all(len(part.ids) == 1 for part in parts)

    def logits(self, parts: Sequence[SlotPart], adapter: str) -> torch.Tensor | None:
        """One step: the logits [B, V] after the one token of each part.

        None, with a warning, where no graph can be recorded of this model.
        """
        columns = max(part.start for part in parts) + 1
        self._cache.reserve(columns)
        if self._buffers != self._cache.buffers_made:
            self.forget()
            self._buffers = self._cache.buffers_made
        rows = min(_power_of_two(max(part.slot for part in parts) + 1), self._cache.slots)
        key = (rows, min(max(_power_of_two(columns), LEAST_COLUMNS), self._cache.columns), adapter)
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
        """Record a graph; whether that went well."""
        rows, columns, _ = key
        step = FixedStep(self._cache, rows, columns, self._model.device)
        if self._model.device.type != "cuda":
            self._recorded[key] = _Recorded(step, None, None)
            return True
        step.take(parts)
        graph = torch.cuda.CUDAGraph()
        try:
            self._computed(step)  # what is set up once is not part of a graph
            torch.cuda.synchronize()
            # Other threads may go on using the GPU meanwhile: a trainer that learns while the next harvest is played.
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


def _power_of_two(count: int) -> int:
    """The least power of two that is not below."""
    return 1 << (count - 1).bit_length()
