"""Keys and values of many conversations in slots of fixed memory: prefixes shared between slots, idle slots freed.

The idle context used least recently is dropped, while those that go on are still there when they do. Where they are
not (more conversations in turn than fit, or many questions asked once in between), contexts that go on come last, first
the one expected last: so only those too many are read again every turn.
Not here: attention over the slots (`slot_attention.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterator, Mapping, Sequence

import numpy as np
import torch

from align_echo.models.local.row_blocks import BLOCK, RowBlocks

WORTH_COPYING = 8
"""Minimum shared tokens to take from another slot; fewer are recomputed."""

OVERDUE = 2
"""A context has ended if it has not gone on for so many times as long as it took before."""

LOST = 0.25
"""Share of contexts that go on from which the least recently used is the wrong one to drop, among the last few."""

REMEMBERED = 16
"""Contexts remembered by their checksums after they were dropped, for each slot."""

_GROWTH = 256
_FREE = -1


class SlotCache:
    """Cache of `slots` rows with at most `context` tokens, S and C below.

    A layer's buffers are made when its first keys arrive, so layers may differ. They have a spare column that never
    holds a token: steps of fixed shape write unused values there.

    In a CPU's memory rows have addresses for the whole context from the start, and blocks of memory for what is
    written (`RowBlocks`); with `sharing`, common prefixes take them once. `room` is the maximum number of tokens of all
    rows together; idle rows are freed to stay within. On other devices, or unless `paged`, memory grows with the
    longest row in use, for as many slots as fit.
    """

    def __init__(
        self, slots: int, context: int, *, paged: bool = False, sharing: bool = False, room: int | None = None
    ) -> None:
        self.slots = self._most_slots = slots
        self.context = context
        self.room = slots * context if room is None else room
        self.lengths = np.zeros(slots, dtype=np.int64)
        self._tokens = np.full((slots, 0), _FREE, dtype=np.int32)  # [S, longest row so far] token ids
        self._adapters = [""] * slots
        self._used_at = np.zeros(slots, dtype=np.int64)
        self._gaps = np.zeros(slots, dtype=np.int64)  # requests since its context was last used; 0 if it never was
        self._dropped: dict[tuple[str, int, int], int] = {}  # when contexts that lost their slots were last used
        self._lost = 0.0  # recent share of contexts that are gone when they go on, were the least recent dropped
        self._common = np.zeros((slots, slots), dtype=np.int64)
        self._clock = 0
        self._sharing = sharing
        self._blocks = RowBlocks(slots, context + 1, sharing=sharing) if paged else None
        self.columns = context if paged else 0
        self.buffers_made = 0  # number of times the buffers were replaced
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    # ------------------------------------------------------------ room

    @property
    def used(self) -> int:
        """Number of tokens that memory is held for."""
        return self._blocks.used if self._blocks else self.slots * self.columns

    def fits(self, busy: Mapping[int, int], length: int, wanted: np.ndarray, adapter: str) -> bool:
        """Return True if a row of the ids `wanted` [T] that grows to a length fits beside busy ones, by slot, that
        grow too.
        """
        if (len(busy) + 1) * _in_blocks(max(length, *busy.values())) <= self.room:
            return True
        if not (blocks := self._blocks):
            return False
        over = self._growth(blocks, busy) + blocks.held_by(list(busy)) + _in_blocks(length) - self.room
        return over <= 0 or over <= self._shared_with(blocks, busy, wanted, adapter)

    def free(self, lengths: Mapping[int, int]) -> None:
        """Free idle rows until busy rows, by slot, can grow to these lengths."""
        if not (blocks := self._blocks):
            return
        if self._growth(blocks, lengths) + blocks.used <= self.room:
            return
        for slot, length in lengths.items():
            self._release(blocks, slot, length)
        for slot in self._idle(lengths):
            if self._growth(blocks, lengths) + blocks.used <= self.room:
                break
            self._remember(slot)
            self._release(blocks, slot, 0)
            self._used_at[slot] = self._gaps[slot] = 0

    def spares(self, lengths: Mapping[int, int], length: int) -> bool:
        """Return True if one more row of this length beside busy ones, by slot, ends no context that goes on."""
        live = [int(slot) for slot in np.flatnonzero(self._live()) if slot not in lengths]
        if len(lengths) + len(live) >= self.slots:
            return False
        if not self._blocks:
            return True
        held = self._blocks.held_by([*lengths, *live])
        return held + self._growth(self._blocks, lengths) + _in_blocks(length) <= self.room

    @staticmethod
    def _growth(blocks: RowBlocks, lengths: Mapping[int, int]) -> int:
        """Return the tokens of memory that rows, by slot, lack to grow to these lengths."""
        held = blocks.held[list(lengths)].tolist()
        return sum(max(_in_blocks(length) - there, 0) for length, there in zip(lengths.values(), held, strict=True))

    def _shared_with(self, blocks: RowBlocks, busy: Mapping[int, int], wanted: np.ndarray, adapter: str) -> int:
        """Return the tokens that a row of these ids [T] would share with busy ones."""
        if not self._sharing or not busy:
            return 0
        shared = np.minimum(self.shared(wanted, adapter), len(wanted) - 1)
        slot = self._continued(shared, busy)
        if slot is None:
            return int(shared[list(busy)].max()) // BLOCK * BLOCK
        return int(blocks.held[slot]) + blocks.held_by(list(busy)) - blocks.held_by([slot, *busy])

    def narrows(self, columns: int) -> bool:
        """Return True if rows of this length fit only in fewer slots, which `narrow` leaves. Never if paged."""
        return self._blocks is None and self.slots > max(1, self.room // self._width(columns))

    def narrow(self, columns: int) -> None:
        """Drop everything, and leave only as many slots as fit with rows of this length."""
        self.forget()
        self.slots = max(1, min(self._most_slots, self.room // self._width(columns)))

    def _width(self, columns: int) -> int:
        return min(self.context, _in_blocks(max(columns, 1), _GROWTH))

    def _release(self, blocks: RowBlocks, slot: int, length: int) -> None:
        """Give back the memory of a row behind this length."""
        if blocks.held[slot] <= _in_blocks(length):
            return
        self._cut(slot, min(length, int(self.lengths[slot])))
        np.minimum(self._common[slot], length, out=self._common[slot])
        self._common[:, slot] = self._common[slot]
        blocks.release(slot, length)

    # ------------------------------------------------------------ tokens

    def take(
        self, ids: Sequence[int] | np.ndarray, adapter: str, busy: set[int], shared: np.ndarray | None = None
    ) -> tuple[int, int]:
        """Assign a slot to a request of these ids [T]. Return the slot and how many of the ids it already holds; at
        least one is left to compute. `shared` [S] is what `shared` returns for them.

        A slot that the request continues is reused directly. Otherwise an idle slot is taken, and the longest prefix
        in any slot (busy before idle) is shared with it or copied into it. `busy` must leave a free slot.
        """
        wanted = np.asarray(ids, dtype=np.int32)
        shared = np.minimum(self.shared(wanted, adapter) if shared is None else shared, len(wanted) - 1)
        common = shared.copy()
        longest = [int(slot) for slot in np.flatnonzero(shared == shared.max())]
        best = next((slot for slot in longest if slot in busy), longest[0])
        continued = self._continued(shared, busy)
        self._clock += 1
        last = self._last_use(wanted[:-1], adapter) if continued is None else int(self._used_at[continued])
        if last:
            self._lost += (self._was_lost(last, len(wanted)) - self._lost) / 16
        slot = self._idle(busy)[0] if continued is None else continued
        if continued is None:
            self._remember(slot)
        if shared[best] > shared[slot] and shared[best] >= WORTH_COPYING:
            self._copy(best, slot, int(shared[best]))
            shared[slot] = shared[best]
        length = int(shared[slot])
        self._cut(slot, length)
        if self._blocks:
            self._blocks.part(slot, length)
        self._common[slot] = self._common[:, slot] = common
        self._adapters[slot] = adapter
        self._used_at[slot] = self._clock
        self._gaps[slot] = self._clock - last if last else 0
        return slot, length

    def continues(self, shared: np.ndarray, busy: Container[int]) -> bool:
        """Return True if ids with these common prefixes [S] go on from all that an idle slot holds."""
        return any(slot not in busy for slot in np.flatnonzero((shared == self.lengths) & (shared > 0)))

    def _continued(self, shared: np.ndarray, busy: Container[int]) -> int | None:
        """Return an idle slot all of whose tokens a request continues, from its common prefixes [S]; None without."""
        longest = (shared == shared.max()) & (shared == self.lengths) & (shared > 0)
        return next((int(slot) for slot in np.flatnonzero(longest) if slot not in busy), None)

    def _idle(self, busy: Container[int]) -> list[int]:
        """Return the idle slots, those to be taken first in front."""
        live = self._live()
        order = np.lexsort((np.where(live, -self._used_at - self._gaps, self._used_at), live))
        return [int(slot) for slot in order if slot < self.slots and slot not in busy]

    def _live(self) -> np.ndarray:
        """Mark the slots [S] whose contexts are to be dropped last: they went on before, and are not overdue."""
        age = self._clock - self._used_at
        live: np.ndarray = (age <= OVERDUE * self._gaps) & (self._lost > LOST)
        return live

    def _was_lost(self, last: int, length: int) -> bool:
        """Return True if a context used then were gone by now with the least recently used always dropped."""
        since = self._used_at > last
        later = [key[1] for key, used in self._dropped.items() if used > last]
        tokens = sum(map(_in_blocks, (*self.lengths[since].tolist(), *later, length)))
        return int(since.sum()) + len(later) >= self.slots or tokens > self.room

    def _remember(self, slot: int) -> None:
        """Note when the context in a slot that is taken from it was last used."""
        held = self._tokens[slot, : self.lengths[slot]]
        if len(held):
            self._dropped[self._adapters[slot], len(held), zlib.crc32(held.tobytes())] = int(self._used_at[slot])
        if len(self._dropped) > REMEMBERED * self.slots:
            del self._dropped[next(iter(self._dropped))]

    def _last_use(self, wanted: np.ndarray, adapter: str) -> int:
        """Return when a dropped context that the ids [T] continue was last used, and forget it; 0 if there is none."""
        lengths = sorted({length for name, length, _ in self._dropped if name == adapter and length <= len(wanted)})
        checksum, begin, last = 0, 0, 0
        for length in lengths:
            checksum, begin = zlib.crc32(wanted[begin:length].tobytes(), checksum), length
            last = self._dropped.pop((adapter, length, checksum), last)
        return last

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

    def forget(self) -> None:
        """Drop all tokens and buffers (after new weights, or after a failed step)."""
        self.lengths[:] = 0
        self._tokens[:] = _FREE
        self._used_at[:] = self._gaps[:] = 0
        self._dropped.clear()
        self._common[:] = 0
        if self._blocks:
            self._blocks = RowBlocks(len(self.lengths), self.context + 1, sharing=self._sharing)
        self.columns = self.context if self._blocks else 0
        self.buffers_made += 1
        self._layers = {}

    def wipe(self, slot: int) -> None:
        """Clear this slot, whose values are NaN and would spoil other rows."""
        if self._blocks:
            self._release(self._blocks, slot, 0)
        else:
            with torch.inference_mode():  # which the buffers were made in
                for buffer in self._buffers():
                    buffer[slot, :, : int(self.lengths[slot])] = 0
        self._cut(slot, 0)
        self._common[slot] = self._common[:, slot] = 0

    def shared(self, wanted: np.ndarray, adapter: str) -> np.ndarray:
        """Return each slot's common prefix length with the ids `wanted` [T]: [S]; 0 for another adapter."""
        most = min(len(wanted), self._tokens.shape[1])
        shared = np.zeros(len(self._tokens), dtype=np.int64)
        equal = np.array([slot for slot, name in enumerate(self._adapters) if name == adapter], dtype=np.int64)
        begin, end = 0, _GROWTH  # most slots differ soon
        while begin < most and len(equal):
            end = min(end, most)
            differs = self._tokens[equal, begin:end] != wanted[begin:end]
            some = differs.any(axis=1)
            shared[equal] = begin + np.where(some, differs.argmax(axis=1), end - begin)
            equal, begin, end = equal[~some], end, 2 * end
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

    def hold(self, slots: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> None:
        """Make columns `begins` to `ends` [B] of these slots [B] writable, beside `reserve`."""
        if self._blocks:
            self._blocks.hold(slots, begins, ends)

    def layer(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a layer's buffers, [S, heads, more than C, head size], for states [1, heads, N, head size]."""
        buffers = self._layers.get(layer)
        if buffers is None:
            buffers = self._layers[layer] = (self._empty(keys), self._empty(values))
        return buffers

    def _empty(self, states: torch.Tensor) -> torch.Tensor:
        # Zeros: masked columns get weight 0, and 0 times NaN is NaN.
        heads, size = states.shape[1], states.shape[3]
        if self._blocks:
            return self._blocks.buffer(heads, size, states.dtype)
        return states.new_zeros(self.slots, heads, self.columns + 1, size)

    def _buffers(self) -> Iterator[torch.Tensor]:
        return (buffer for layer in self._layers.values() for buffer in layer)

    def _copy(self, source: int, target: int, length: int) -> None:
        if self._blocks:
            self._blocks.share(source, target, length)
        else:
            with torch.inference_mode():  # which the buffers were made in
                for buffer in self._buffers():
                    buffer[target, :, :length] = buffer[source, :, :length]
        self._tokens[target, :length] = self._tokens[source, :length]
        self.lengths[target] = max(length, self.lengths[target])  # `take` cuts the rest


def _in_blocks(columns: int, block: int = BLOCK) -> int:
    """Round up to whole blocks."""
    return -(-columns // block) * block


def _wider(buffer: torch.Tensor, columns: int) -> torch.Tensor:
    slots, heads, columns_before, size = buffer.shape
    wider = buffer.new_zeros(slots, heads, columns, size)
    wider[:, :, :columns_before] = buffer
    return wider
