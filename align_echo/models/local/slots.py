"""Keys and values of many conversations in rows ("slots") of one buffer per layer, and the tokens in each slot.

A slot is looked up by its token ids, never by a conversation's name. Not here: scheduling of slots (see the engine),
and attention over slots (`slot_attention`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

WORTH_COPYING = 8
"""Minimum shared tokens to copy from another slot; fewer are recomputed."""

_GROWTH = 256
_FREE = -1


class SlotCache:
    """Cache of `slots` rows with at most `context` tokens, S and C below. Memory grows with the longest row in use.

    A layer's buffers are made when its first keys arrive, so layers may differ. They have one spare column that never
    holds a token: steps of fixed shape write unused values there.
    """

    def __init__(self, slots: int, context: int) -> None:
        self.slots = slots
        self.context = context
        self.lengths = np.zeros(slots, dtype=np.int64)
        self._tokens = np.full((slots, 0), _FREE, dtype=np.int32)  # [S, longest row so far] token ids
        self._adapters = [""] * slots
        self._used_at = np.zeros(slots, dtype=np.int64)
        self._common = np.zeros((slots, slots), dtype=np.int64)
        self._clock = 0
        self.columns = 0
        self.buffers_made = 0  # number of times the buffers were replaced
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    # ------------------------------------------------------------ tokens

    def take(self, ids: Sequence[int], adapter: str, busy: set[int]) -> tuple[int, int]:
        """Assign a slot to a request. Return the slot and how many of the ids it already holds; at least one is left
        to compute.

        A slot that the request continues is reused directly. Otherwise the least recently used idle slot is taken, and
        the longest prefix in any slot (busy or idle) is copied into it. `busy` must leave a free slot.
        """
        wanted = np.asarray(ids, dtype=np.int32)
        shared = self._shared(wanted[:-1], adapter)  # [S]
        common = shared.copy()
        idle = [slot for slot in range(self.slots) if slot not in busy]
        best = int(shared.argmax())
        continued = [slot for slot in idle if shared[slot] == shared[best] == self.lengths[slot] > 0]
        slot = continued[0] if continued else min(idle, key=lambda index: (self._used_at[index], index))
        if shared[best] > shared[slot] and shared[best] >= WORTH_COPYING:
            self._copy(best, slot, int(shared[best]))
            shared[slot] = shared[best]
        length = int(shared[slot])
        self._cut(slot, length)
        self._common[slot] = self._common[:, slot] = common
        self._adapters[slot] = adapter
        self._clock += 1
        self._used_at[slot] = self._clock
        return slot, length

    def holds(self, ids: Sequence[int], adapter: str) -> int:
        """Return the length of the longest prefix of the ids in any slot."""
        return int(self._shared(np.asarray(ids, dtype=np.int32), adapter).max())

    def common(self, slots: Sequence[int]) -> np.ndarray:
        """Return a lower bound of the common prefix length of each pair of slots [B, B], once their contexts are
        computed.
        """
        common: np.ndarray = self._common[np.ix_(slots, slots)]
        return common

    def wrote(self, slots: np.ndarray, columns: np.ndarray, ids: np.ndarray) -> None:
        """Record tokens [N] in these slots [N] and columns [N], each slot's in order."""
        missing = int(columns.max(initial=-1)) + 1 - self._tokens.shape[1]
        if missing > 0:
            wider = -(-missing // _GROWTH) * _GROWTH
            self._tokens = np.pad(self._tokens, ((0, 0), (0, wider)), constant_values=_FREE)
        self._tokens[slots, columns] = ids
        np.maximum.at(self.lengths, slots, columns + 1)

    def forget(self) -> None:
        """Drop all tokens and buffers (after new weights, or after a failed step)."""
        self.lengths[:] = 0
        self._tokens[:] = _FREE
        self._used_at[:] = 0
        self._common[:] = 0
        self.columns = 0
        self.buffers_made += 1
        self._layers = {}

    def wipe(self, slot: int) -> None:
        """Clear this slot, whose values are NaN and would spoil other rows."""
        self._cut(slot, 0)
        self._common[slot] = self._common[:, slot] = 0
        with torch.inference_mode():  # which the buffers were made in
            for buffer in self._buffers():
                buffer[slot] = 0

    def _shared(self, wanted: np.ndarray, adapter: str) -> np.ndarray:
        """Return each slot's common prefix length with `wanted` [T]: [S]; 0 for another adapter."""
        most = min(len(wanted), self._tokens.shape[1])
        if not most:
            return np.zeros(self.slots, dtype=np.int64)
        differs = self._tokens[:, :most] != wanted[:most]
        shared: np.ndarray = np.where(differs.any(axis=1), differs.argmax(axis=1), most)
        shared[[slot_adapter != adapter for slot_adapter in self._adapters]] = 0
        return shared

    def _cut(self, slot: int, length: int) -> None:
        self._tokens[slot, length : self.lengths[slot]] = _FREE
        self.lengths[slot] = length

    # ------------------------------------------------------------ keys and values

    def reserve(self, columns: int) -> None:
        """Make room for rows of up to `columns` tokens."""
        if columns <= self.columns:
            return
        wanted = max(columns, 2 * self.columns)
        wide = min(self.context, -(-wanted // _GROWTH) * _GROWTH)
        for layer, (keys, values) in self._layers.items():  # layer by layer: old and new buffers exist at once
            self._layers[layer] = (_wider(keys, wide + 1), _wider(values, wide + 1))
        self.columns = wide
        self.buffers_made += 1

    def layer(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a layer's buffers, [S, heads, C + 1, head size], for states [1, heads, N, head size]."""
        buffers = self._layers.get(layer)
        if buffers is None:
            buffers = self._layers[layer] = (self._empty(keys), self._empty(values))
        return buffers

    def _empty(self, states: torch.Tensor) -> torch.Tensor:
        # Zeros: masked columns get weight 0, and 0 times NaN is NaN.
        return states.new_zeros(self.slots, states.shape[1], self.columns + 1, states.shape[3])

    def _buffers(self) -> Iterator[torch.Tensor]:
        return (buffer for layer in self._layers.values() for buffer in layer)

    def _copy(self, source: int, target: int, length: int) -> None:
        with torch.inference_mode():  # which the buffers were made in
            for buffer in self._buffers():
                buffer[target, :, :length] = buffer[source, :, :length]
        self._tokens[target, :length] = self._tokens[source, :length]
        self.lengths[target] = max(length, self.lengths[target])  # `take` cuts the rest


def _wider(buffer: torch.Tensor, columns: int) -> torch.Tensor:
    slots, heads, columns_before, size = buffer.shape
    wider = buffer.new_zeros(slots, heads, columns, size)
    wider[:, :, :columns_before] = buffer
    return wider
