"""Keys and values of many conversations in rows ("slots") of one buffer a layer, and which tokens each slot holds.

A slot is found by the token ids it holds, never by a conversation's name. Left out: who uses a slot when (that is the
engine's), and attention over slots (`slot_attention`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

WORTH_COPYING = 8
"""Fewer shared tokens than this are computed again rather than copied from another slot."""

_GROWTH = 256
_FREE = -1


class SlotCache:
    """`slots` rows of at most `context` tokens, S and C below; memory grows with the longest row in use.

    The buffers of a layer are made when its first keys come, so a model's layers may differ. They have one column more,
    the spare one, which no token ever stands in: steps of fixed shapes write there what is not wanted.
    """

    def __init__(self, slots: int, context: int) -> None:
        self.slots = slots
        self.context = context
        self.lengths = np.zeros(slots, dtype=np.int64)
        self._held = np.full((slots, 0), _FREE, dtype=np.int32)  # [S, longest row so far] token ids
        self._adapters = [""] * slots
        self._used_at = np.zeros(slots, dtype=np.int64)
        self._common = np.zeros((slots, slots), dtype=np.int64)
        self._clock = 0
        self.columns = 0
        self.buffers_made = 0  # how many times there were new buffers
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    # ------------------------------------------------------------ tokens

    def take(self, ids: Sequence[int], adapter: str, busy: set[int]) -> tuple[int, int]:
        """A slot for a request and how many of its ids the slot already holds; at least one is left to compute.

        A slot that the request continues is taken as it is. Otherwise the idle slot unused for longest is taken, and
        what any slot (busy ones too) shares with the request is copied into it. `busy` must leave a slot.
        """
        wanted = np.asarray(ids, dtype=np.int32)
        shared = self._shared(wanted[:-1], adapter)  # [S]
        common = shared.copy()
        idle = [slot for slot in range(self.slots) if slot not in busy]
        best = int(shared.argmax())
        whole = [slot for slot in idle if shared[slot] == shared[best] == self.lengths[slot] > 0]
        slot = whole[0] if whole else min(idle, key=lambda slot_index: (self._used_at[slot_index], slot_index))
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
        """How many leading ids some slot holds."""
        return int(self._shared(np.asarray(ids, dtype=np.int32), adapter).max())

    def common(self, slots: Sequence[int]) -> np.ndarray:
        """How many leading ids two of these slots [B] surely hold alike [B, B], once what they took is read."""
        common: np.ndarray = self._common[np.ix_(slots, slots)]
        return common

    def wrote(self, slots: np.ndarray, columns: np.ndarray, ids: np.ndarray) -> None:
        """Record that these tokens [N] now stand in these slots [N] and columns [N], each slot's in order."""
        missing = int(columns.max(initial=-1)) + 1 - self._held.shape[1]
        if missing > 0:
            wider = -(-missing // _GROWTH) * _GROWTH
            self._held = np.pad(self._held, ((0, 0), (0, wider)), constant_values=_FREE)
        self._held[slots, columns] = ids
        np.maximum.at(self.lengths, slots, columns + 1)

    def forget(self) -> None:
        """Nothing is held any more, neither tokens nor buffers (the weights changed, or a step failed half-way)."""
        self.lengths[:] = 0
        self._held[:] = _FREE
        self._used_at[:] = 0
        self._common[:] = 0
        self.columns = 0
        self.buffers_made += 1
        self._layers = {}

    def wipe(self, slot: int) -> None:
        """Nothing of this slot is left: what it holds are no numbers, which would spoil what is computed beside it."""
        self._cut(slot, 0)
        self._common[slot] = self._common[:, slot] = 0
        with torch.inference_mode():  # which the buffers were made in
            for buffer in self._buffers():
                buffer[slot] = 0

    def _shared(self, wanted: np.ndarray, adapter: str) -> np.ndarray:
        """How many leading ids of `wanted` [T] each slot holds [S]; 0 where another adapter computed them."""
        most = min(len(wanted), self._held.shape[1])
        if not most:
            return np.zeros(self.slots, dtype=np.int64)
        differs = self._held[:, :most] != wanted[:most]
        shared: np.ndarray = np.where(differs.any(axis=1), differs.argmax(axis=1), most)
        shared[[other != adapter for other in self._adapters]] = 0
        return shared

    def _cut(self, slot: int, length: int) -> None:
        self._held[slot, length : self.lengths[slot]] = _FREE
        self.lengths[slot] = length

    # ------------------------------------------------------------ keys and values

    def reserve(self, columns: int) -> None:
        """Make room for rows of so many tokens."""
        if columns <= self.columns:
            return
        wanted = max(columns, 2 * self.columns)
        wide = min(self.context, -(-wanted // _GROWTH) * _GROWTH)
        for layer, (keys, values) in self._layers.items():  # one by one: old and new are both there for a moment
            self._layers[layer] = (_wider(keys, wide + 1), _wider(values, wide + 1))
        self.columns = wide
        self.buffers_made += 1

    def layer(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The buffers of a layer, [S, heads, C + 1, head size], for states like these [1, heads, N, head size]."""
        buffers = self._layers.get(layer)
        if buffers is None:
            buffers = self._layers[layer] = (self._empty(keys), self._empty(values))
        return buffers

    def _empty(self, states: torch.Tensor) -> torch.Tensor:
        # Zeros: columns that are masked out still meet a weight of 0, and 0 times NaN is NaN.
        return states.new_zeros(self.slots, states.shape[1], self.columns + 1, states.shape[3])

    def _buffers(self) -> Iterator[torch.Tensor]:
        return (buffer for layer in self._layers.values() for buffer in layer)

    def _copy(self, source: int, target: int, length: int) -> None:
        with torch.inference_mode():  # which the buffers were made in
            for buffer in self._buffers():
                buffer[target, :, :length] = buffer[source, :, :length]
        self._held[target, :length] = self._held[source, :length]
        self.lengths[target] = max(length, self.lengths[target])  # what is beyond is cut by `take`


def _wider(buffer: torch.Tensor, columns: int) -> torch.Tensor:
    slots, heads, columns_before, size = buffer.shape
    wider = buffer.new_zeros(slots, heads, columns, size)
    wider[:, :, :columns_before] = buffer
    return wider
