"""Memory of a cache's rows on a CPU, in blocks of columns: what is not written takes none, equal prefixes take it once.

A row's keys and values lie at neighbouring addresses, so that attention reads them without a copy. The blocks behind
the addresses are those of a file in memory; the system's page table says which. Rows with a common prefix are given
the same blocks, and a row that writes into a block of several rows gets its own first. Without `sharing`, and where the
system has no files in memory, every row has blocks of its own. Not here: which rows share, and which are dropped.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from align_echo.errors import ModelError
from align_echo.models.local.memory import NO_RESERVE, untouched_pages

BLOCK = 64 * mmap.PAGESIZE // 4096
"""Columns of a block."""

NONE = -1
"""Home of a block that takes no memory."""

SHARE = 0.75
"""Share of the process's mappings (`vm.max_map_count`) that the rows of its caches may use."""

_A_ROW = 3
"""Mappings of a head's columns in one row: those of another's blocks, its own, and what is not written."""

_FIXED = 0x10  # as on Linux
_PUNCH = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE


class Mappings:
    """Mappings of addresses to memory that the caches of a process may make."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claimed = 0

    def claim(self, rows: int, layers: int, heads: int) -> int:
        """Claim what rows of a model with so many layers and heads of keys need to share blocks. Return how many; 0 if
        the system has too few, or no files in memory.
        """
        wanted = rows * layers * 2 * heads * _A_ROW
        with self._lock:
            if self._claimed + wanted > SHARE * most_mappings():
                return 0
            self._claimed += wanted
        return wanted

    def give_back(self, claimed: int) -> None:
        """Give back what was claimed."""
        with self._lock:
            self._claimed -= claimed


MAPPINGS = Mappings()
"""Those of this process."""


@cache
def most_mappings() -> int:
    """Return how many mappings a process may have; 0 where rows cannot share blocks."""
    try:
        os.close(os.memfd_create("align_echo_rows"))
        return int(Path("/proc/sys/vm/max_map_count").read_text(encoding="ascii"))
    except (AttributeError, OSError, ValueError):  # another system, or a container that forbids it
        return 0


@cache
def _system() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    return library


@dataclass(frozen=True)
class _Buffer:
    """Keys or values of one layer [S, K, C, D], its addresses, and where its blocks begin in the file."""

    tensor: torch.Tensor
    pages: mmap.mmap
    address: int
    offset: int

    def spans(self, row: int, begin: int, end: int) -> list[tuple[int, int]]:
        """Return (start, size) in bytes of these blocks of a row, for each head."""
        whole, head, column = (self.tensor.stride(axis) * self.tensor.element_size() for axis in range(3))
        first, size = begin * BLOCK * column, (end - begin) * BLOCK * column
        return [(row * whole + number * head + first, size) for number in range(self.tensor.shape[1])]


class RowBlocks:
    """Blocks of `rows` rows of at most `columns` columns; S rows, N blocks below.

    A block of the file is named by its home, a row's number, and its place in the row. A home never moves, but other
    rows may use its blocks.
    """

    def __init__(self, rows: int, columns: int, *, sharing: bool) -> None:
        self._sharing = sharing
        self._columns = -(-columns // BLOCK) * BLOCK
        self._homes = np.full((rows, self._columns // BLOCK), NONE, dtype=np.int32)  # [S, N]
        self._users = np.zeros_like(self._homes)  # rows that use a home's block [S, N]
        self.used = 0
        """Number of columns that take memory."""
        self.held = np.zeros(rows, dtype=np.int64)
        """Number of columns of each row [S] that take memory, its own or shared."""
        self._buffers: list[_Buffer] = []
        self._file = NONE
        if sharing:
            self._file = os.memfd_create("align_echo_rows", os.MFD_CLOEXEC)
            weakref.finalize(self, os.close, self._file)
        self._size = 0

    def held_by(self, rows: list[int]) -> int:
        """Return the number of columns that take memory for any of these rows."""
        homes = np.sort(self._homes[rows], axis=0)
        if not len(homes):
            return 0
        first = np.vstack([np.full((1, homes.shape[1]), NONE), homes[:-1]])
        return int(((homes != NONE) & (homes != first)).sum()) * BLOCK

    # ------------------------------------------------------------ what rows hold

    def hold(self, rows: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> None:
        """Give rows [B] blocks of their own for columns `begins` to `ends` [B], which are to be written."""
        first, last = begins // BLOCK, (ends - 1) // BLOCK
        homes = self._homes[rows, first]
        ready = (first == last) & (homes != NONE) & (self._users[homes, first] == 1)
        for index in np.flatnonzero(~ready):
            self._hold(int(rows[index]), int(begins[index]), int(first[index]), int(last[index]) + 1)

    def _hold(self, row: int, begin: int, first: int, end: int) -> None:
        missing = [
            place for place in range(first, end)
            if (home := self._homes[row, place]) == NONE or self._users[home, place] > 1
        ]  # fmt: skip
        stay = slice(first * BLOCK, begin if first in missing else first * BLOCK)  # columns of the first block
        with torch.inference_mode():  # which the buffers were made in
            before = [buffer.tensor[row, :, stay].clone() for buffer in self._buffers]
            for home, start, stop in self._free_runs(row, missing):
                self._leave(row, start, stop)
                self._use(row, start, stop, home)
            for buffer, columns in zip(self._buffers, before, strict=True):
                buffer.tensor[row, :, stay] = columns

    def _free_runs(self, row: int, places: list[int]) -> list[tuple[int, int, int]]:
        """Divide places [M] into runs (home, first, end) of blocks that no row uses, as few as possible."""
        runs: list[tuple[int, int, int]] = []
        homes = [row, *(home for home in range(len(self._homes)) if home != row)] if self._sharing else [row]
        for place in places:
            if runs and runs[-1][2] == place and not self._users[runs[-1][0], place]:
                runs[-1] = (runs[-1][0], runs[-1][1], place + 1)
                continue
            before = int(self._homes[row, place - 1]) if place else NONE
            near = [before] if before != NONE else []
            runs.append((next(home for home in (*near, *homes) if not self._users[home, place]), place, place + 1))
        return runs

    def share(self, source: int, target: int, columns: int) -> None:
        """Give `target` the first columns of `source`: its blocks, and a copy of what is no whole block.

        The columns of `target` behind them have no values any more.
        """
        whole = columns // BLOCK if self._sharing else 0
        differs = self._homes[source, :whole] != self._homes[target, :whole]
        for home, first, end in _runs(self._homes[source, :whole], differs):
            self._leave(target, first, end)
            self._use(target, first, end, home)
        begin = whole * BLOCK
        if begin < columns:
            self.hold(np.array([target]), np.array([begin]), np.array([columns]))
            with torch.inference_mode():
                for buffer in self._buffers:
                    buffer.tensor[target, :, begin:columns] = buffer.tensor[source, :, begin:columns]

    def part(self, row: int, columns: int) -> None:
        """Take the blocks that other rows use, too, from a row behind its first columns: it goes on by its own."""
        homes = self._homes[row]
        shared = (homes != NONE) & (self._users[homes, np.arange(len(homes))] > 1)
        shared[: -(-columns // BLOCK)] = False
        for _, first, end in _runs(homes, shared):
            self._drop(row, first, end)
        if columns % BLOCK:
            self.hold(np.array([row]), np.array([columns]), np.array([columns + 1]))

    def release(self, row: int, columns: int) -> None:
        """Take the blocks behind the first columns from a row. They read as zeros."""
        first = -(-columns // BLOCK)
        end = int((self._homes[row] != NONE).nonzero()[0].max(initial=NONE)) + 1
        if first < end:
            self._drop(row, first, end)

    def _drop(self, row: int, first: int, end: int) -> None:
        self._leave(row, first, end)
        for buffer in self._buffers:
            self._clear(buffer, row, first, end)

    def _use(self, row: int, first: int, end: int, home: int) -> None:
        self._homes[row, first:end] = home
        self._users[home, first:end] += 1
        self.held[row] += (end - first) * BLOCK
        self.used += int(np.count_nonzero(self._users[home, first:end] == 1)) * BLOCK
        for buffer in self._buffers:
            self._map(buffer, row, first, end, home)

    def _leave(self, row: int, first: int, end: int) -> None:
        """Count a row out of blocks, and free those that no row uses. Its addresses are for the caller to change."""
        for home, begin, stop in _runs(self._homes[row, first:end], self._homes[row, first:end] != NONE):
            places = slice(first + begin, first + stop)
            self._users[home, places] -= 1
            self.held[row] -= (stop - begin) * BLOCK
            for _, free, used in _runs(self._homes[row, places], self._users[home, places] == 0):
                self.used -= (used - free) * BLOCK
                for buffer in self._buffers:
                    self._free(buffer, home, places.start + free, places.start + used)
        self._homes[row, first:end] = NONE

    # ------------------------------------------------------------ buffers

    def buffer(self, heads: int, size: int, dtype: torch.dtype) -> torch.Tensor:
        """Make a buffer [S, heads, columns, size] of zeros for all rows."""
        unit = mmap.PAGESIZE // (BLOCK * dtype.itemsize) or 1  # no page has parts of two blocks
        wide = -(-size // unit) * unit
        total = len(self._homes) * heads * self._columns * wide * dtype.itemsize
        pages = untouched_pages(total)
        flat = torch.frombuffer(pages, dtype=dtype)
        made = _Buffer(flat.view(len(self._homes), heads, self._columns, wide), pages, flat.data_ptr(), self._size)
        self._size += total
        if self._sharing:
            os.ftruncate(self._file, self._size)
        self._buffers.append(made)
        for row, homes in enumerate(self._homes):
            for home, first, end in _runs(homes, homes != NONE):
                self._map(made, row, first, end, home)
        return made.tensor[..., :size]

    def _map(self, buffer: _Buffer, row: int, first: int, end: int, home: int) -> None:
        if self._sharing:
            spans = zip(buffer.spans(row, first, end), buffer.spans(home, first, end), strict=True)
            for (start, size), (place, _) in spans:
                _put(buffer.address + start, size, mmap.MAP_SHARED, self._file, buffer.offset + place)

    def _clear(self, buffer: _Buffer, row: int, first: int, end: int) -> None:
        for start, size in buffer.spans(row, first, end):
            if self._sharing:
                _put(buffer.address + start, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE, NONE, 0)
            else:
                buffer.pages.madvise(mmap.MADV_DONTNEED, start, size)

    def _free(self, buffer: _Buffer, home: int, first: int, end: int) -> None:
        """Give blocks of the file back to the system. Raises `ModelError`."""
        if self._sharing:
            for start, size in buffer.spans(home, first, end):
                if _system().fallocate(self._file, _PUNCH, buffer.offset + start, size):
                    raise ModelError(f"memory of a conversation stays taken: {os.strerror(ctypes.get_errno())}")


def _runs(homes: np.ndarray, wanted: np.ndarray) -> list[tuple[int, int, int]]:
    """Divide the wanted places into runs (home, first, end) of one home."""
    places = np.flatnonzero(wanted)
    parts = np.split(places, np.flatnonzero((np.diff(places) != 1) | (np.diff(homes[places]) != 0)) + 1)
    return [(int(homes[part[0]]), int(part[0]), int(part[-1]) + 1) for part in parts if len(part)]


def _put(address: int, size: int, flags: int, file: int, offset: int) -> None:
    """Replace what lies at the addresses. Raises `ModelError`."""
    made = _system().mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags | _FIXED, file, offset)
    if made != address:
        raise ModelError(f"no memory can be put behind a conversation: {os.strerror(ctypes.get_errno())}")
