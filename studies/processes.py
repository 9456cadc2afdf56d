"""What this process and all below it use together (Linux): bytes of memory, and CPU seconds of a span."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def family() -> set[int]:
    """The numbers of this process and of all that descend from it."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    members = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in members} - members:
        members |= grown
    return members


def family_bytes() -> int:
    """Resident memory."""
    pages = 0
    for pid in family():
        with suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def family_cpu() -> dict[int, float]:
    """CPU seconds of each process since it began."""
    seconds = {}
    for pid in family():
        with suppress(OSError):
            seconds[pid] = time.clock_gettime((~pid << 3) | 2)  # the clock of another process
    return seconds


def cpu_since(before: Mapping[int, float]) -> float:
    """CPU seconds of all since `family_cpu` gave `before`. A process that has ended by now is left out."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in family_cpu().items())
