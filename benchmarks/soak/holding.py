"""What this process holds: memory, handles, threads, processes below it, temporary files. Linux only (`/proc`)."""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
import threading
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from align_echo.halting import pause

SETTLING = 10
"""Times, a quarter of a second each, that processes and threads which are ending are waited for."""


@dataclass(frozen=True)
class Held:
    """`seconds` since the first sample; the rest are counts, but for what is in MiB, of this process alone: what is
    `resident`, and of it what glibc's allocator lent out (`allocated`) and what it was given back and keeps (`kept`).

    A leak shows in `allocated`. Both are 0 where there is no such allocator.
    """

    seconds: float
    resident: float
    allocated: float
    kept: float
    handles: int
    threads: int
    processes: int
    temporary: int


FIGURES = tuple(field.name for field in fields(Held) if field.name != "seconds")


def held_now(seconds: float) -> Held:
    """A sample, once counts have stopped falling."""
    gc.collect()
    held = _held(seconds)
    for _ in range(SETTLING):
        pause(0.25)
        later = _held(seconds)
        if (later.threads, later.processes, later.temporary) >= (held.threads, held.processes, held.temporary):
            return later
        held = later
    return held


def _held(seconds: float) -> Held:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    allocated, kept = in_allocator()
    return Held(
        seconds=seconds,
        resident=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        allocated=allocated,
        kept=kept,
        handles=len(os.listdir("/proc/self/fd")),
        threads=threading.active_count(),
        processes=len(below(os.getpid())),
        temporary=sum(1 for _ in Path(tempfile.gettempdir()).iterdir()),
    )


_OF_MALLINFO = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _Mallinfo(ctypes.Structure):
    """What `mallinfo2` of glibc 2.33 and later returns, in bytes, summed over all arenas."""

    _fields_ = [(name, ctypes.c_size_t) for name in _OF_MALLINFO]


def in_allocator() -> tuple[float, float]:
    """MiB that glibc's allocator has lent out, and MiB that it was given back and keeps; 0 for another allocator."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0.0, 0.0
    mallinfo.restype = _Mallinfo
    now = mallinfo()
    return (now.uordblks + now.hblkhd) / 2**20, now.fordblks / 2**20


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_AT_MOST = 128 * 2**10


def keep_little() -> None:
    """Make glibc's allocator give back what is free, as it does until the first large text; another is left as it is.

    After that it keeps what each of its arenas needed at most. So a process with threads grows for hours, until each
    arena has seen the largest text: that is no leak, and hides a small one.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
            mallopt(option, _KEPT_AT_MOST)


def below(ancestor: int) -> dict[int, str]:
    """Process ids and names of all processes that this one started, and those that they started."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            parents[int(entry.name)] = int(rest.split()[1]), name
    descendants: dict[int, str] = {}
    waiting = [ancestor]
    while waiting:
        parent = waiting.pop()
        children = {pid: name for pid, (above, name) in parents.items() if above == parent}
        descendants |= children
        waiting += children
    return descendants


def slope(samples: list[Held], figure: str) -> tuple[float, float, float]:
    """By how much a figure rises in an hour, by least squares, and its 95% interval.

    The interval resamples blocks of six neighbouring residuals: samples near each other are alike.
    """
    hours = np.array([sample.seconds / 3600 for sample in samples])
    values = np.array([float(getattr(sample, figure)) for sample in samples])
    rise, start = np.polyfit(hours, values, 1)
    rest = values - (start + rise * hours)
    dice, block = np.random.default_rng(0), min(6, len(samples))
    firsts = dice.integers(0, len(samples) - block + 1, size=(1000, -(-len(samples) // block)))
    drawn = rest[(firsts[..., None] + np.arange(block)).reshape(1000, -1)[:, : len(samples)]]
    rises = [np.polyfit(hours, start + rise * hours + each, 1)[0] for each in drawn]
    low, high = np.percentile(rises, [2.5, 97.5])
    return float(rise), float(low), float(high)
