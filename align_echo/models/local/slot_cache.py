"""Keys and values of many conversations in slots of fixed memory: prefixes shared between slots, idle slots freed.

Not here: attention over the slots (`slot_attention.py`).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from align_echo.models.local.memory import untouched_pages

WORTH_COPYING = 8
"""Minimum shared tokens to copy from another slot; fewer are recomputed."""

BLOCK = 64
"""Tokens by which the memory of a row is counted."""

_GROWTH = 256
_FREE = -1


class SlotCache:
    """Cache of `slots` rows with at most `context` tokens, S and C below.

    A layer's buffers are made when its first keys arrive, so layers may differ. They have a spare column that never
    holds a token: steps of fixed shape write unused values there.

    In a CPU's memory rows are as long as the context from the start, and the operating system provides a page when it
    is first written: only what was written takes memory. `room` is the maximum number of tokens of all rows together;
    the least recently used idle rows are freed to stay within. On other devices, or unless `paged`, memory grows with
    the longest row in use, for as many slots as fit.
    """

    def __init__(self, slots: int, context: int, *, paged: bool = False, room: int | None = None) -> None:
        self.slots = self._most_slots = slots
        self.context = context
        self.room = slots * context if room is None else room
        self.lengths = np.zeros(slots, dtype=np.int64)
        self._tokens = np.full((slots, 0), _FREE, dtype=np.int32)  # [S, longest row so far] token ids
        self._adapters = [""] * slots
        self._used_at = np.zeros(slots, dtype=np.int64)
        self._written = np.zeros(slots, dtype=np.int64)  # columns of each row that take memory, if paged
        self._common = np.zeros((slots, slots), dtype=np.int64)
        self._clock = 0
        self._paged = paged
        self.columns = context if paged else 0
        self.buffers_made = 0  # number of times the buffers were replaced
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._pages: list[mmap.mmap] = []

    # ------------------------------------------------------------ room

    @property
    def used(self) -> int:
        """Number of tokens that memory is held for."""
        return int(self._written.sum()) if self._paged else self.slots * self.columns

    def fits(self, lengths: Sequence[int]) -> bool:
        """Return True if rows that grow to these lengths fit at once."""
        if self._paged:
            return sum(map(_in_blocks, lengths)) <= self.room
        return len(lengths) * _in_blocks(max(lengths)) <= self.room

    def free(self, lengths: Mapping[int, int]) -> None:
        """Free the least recently used idle rows until busy rows, by slot, can grow to these lengths."""
        if not self._paged:
            return
        idle = [int(slot) for slot in np.argsort(self._used_at, kind="stable") if slot not in lengths]
        busy = sum(max(_in_blocks(length), int(self._written[slot])) for slot, length in lengths.items())
        held = sum(int(self._written[slot]) for slot in idle)
        if busy + held <= self.room:
            return
        for slot, length in lengths.items():
            self._release(slot, _in_blocks(length))
        busy = sum(map(_in_blocks, lengths.values()))
        for slot in idle:
            if busy + held <= self.room:
                break
            held -= int(self._written[slot])
            self._release(slot)

    def narrows(self, columns: int) -> bool:
        """Return True if rows of this length fit only in fewer slots, which `narrow` leaves. Never if paged."""
        return not self._paged and self.slots > max(1, self.room // self._width(columns))

    def narrow(self, columns: int) -> None:
        """Drop everything, and leave only as many slots as fit with rows of this length."""
        self.forget()
        self.slots = max(1, min(self._most_slots, self.room // self._width(columns)))

    def _width(self, columns: int) -> int:
        return min(self.context, _in_blocks(max(columns, 1), _GROWTH))

    def _release(self, slot: int, length: int = 0) -> None:
        """Give back the memory of a row behind this length."""
        if self._written[slot] <= length:
            return
        self._cut(slot, min(length, int(self.lengths[slot])))
        np.minimum(self._common[slot], length, out=self._common[slot])
        self._common[:, slot] = self._common[slot]
        for pages, buffer in zip(self._pages, self._buffers(), strict=True):
            row, head, token = (buffer.stride(index) * buffer.element_size() for index in range(3))
            first = _in_blocks(length * token, mmap.PAGESIZE)
            parts = range(slot * row, (slot + 1) * row, head if length else row)
            for start in parts:
                pages.madvise(mmap.MADV_DONTNEED, start + first, parts.step - first)
        self._written[slot] = length

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
            wider = _in_blocks(missing, _GROWTH)
            self._tokens = np.pad(self._tokens, ((0, 0), (0, wider)), constant_values=_FREE)
        self._tokens[slots, columns] = ids
        np.maximum.at(self.lengths, slots, columns + 1)
        np.maximum.at(self._written, slots, columns + 1)

    def forget(self) -> None:
        """Drop all tokens and buffers (after new weights, or after a failed step)."""
        self.lengths[:] = 0
        self._tokens[:] = _FREE
        self._used_at[:] = 0
        self._written[:] = 0
        self._common[:] = 0
        self.columns = self.context if self._paged else 0
        self.buffers_made += 1
        self._layers, self._pages = {}, []

    def wipe(self, slot: int) -> None:
        """Clear this slot, whose values are NaN and would spoil other rows."""
        with torch.inference_mode():  # which the buffers were made in
            for buffer in self._buffers():
                buffer[slot, :, : int(self._written[slot])] = 0
        self._cut(slot, 0)
        self._common[slot] = self._common[:, slot] = 0

    def _shared(self, wanted: np.ndarray, adapter: str) -> np.ndarray:
        """Return each slot's common prefix length with `wanted` [T]: [S]; 0 for another adapter."""
        most = min(len(wanted), self._tokens.shape[1])
        if not most:
            return np.zeros(len(self._tokens), dtype=np.int64)
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
        wide = self._width(max(columns, 2 * self.columns))
        if self.slots * wide > self.room:
            wide = self._width(columns)
        for layer, (keys, values) in self._layers.items():  # layer by layer: old and new buffers exist at once
            self._layers[layer] = (_wider(keys, wide + 1), _wider(values, wide + 1))
        self.columns = wide
        self.buffers_made += 1

    def layer(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a layer's buffers, [S, heads, more than C, head size], for states [1, heads, N, head size]."""
        buffers = self._layers.get(layer)
        if buffers is None:
            buffers = self._layers[layer] = (self._empty(keys), self._empty(values))
        return buffers

    def _empty(self, states: torch.Tensor) -> torch.Tensor:
        # Zeros: masked columns get weight 0, and 0 times NaN is NaN.
        heads, size = states.shape[1], states.shape[3]
        if not self._paged:
            return states.new_zeros(self.slots, heads, self.columns + 1, size)
        columns = _in_blocks(self.columns + 1, max(1, mmap.PAGESIZE // (size * states.element_size())))
        while columns * size * states.element_size() % mmap.PAGESIZE:  # no page has parts of two rows
            columns += 1
        pages = untouched_pages(self.slots * heads * columns * size * states.element_size())
        self._pages.append(pages)
        return torch.frombuffer(pages, dtype=states.dtype).view(self.slots, heads, columns, size)

    def _buffers(self) -> Iterator[torch.Tensor]:
        return (buffer for layer in self._layers.values() for buffer in layer)

    def _copy(self, source: int, target: int, length: int) -> None:
        with torch.inference_mode():  # which the buffers were made in
            for buffer in self._buffers():
                buffer[target, :, :length] = buffer[source, :, :length]
        self._tokens[target, :length] = self._tokens[source, :length]
        self.lengths[target] = max(length, self.lengths[target])  # `take` cuts the rest
        self._written[target] = max(length, self._written[target])


def _in_blocks(columns: int, block: int = BLOCK) -> int:
    """Round up to whole blocks."""
    return -(-columns // block) * block


def _wider(buffer: torch.Tensor, columns: int) -> torch.Tensor:
    slots, heads, columns_before, size = buffer.shape
    wider = buffer.new_zeros(slots, heads, columns, size)
    wider[:, :, :columns_before] = buffer
    return wider
