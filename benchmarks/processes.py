"""What this process and all below it use together (Linux): bytes of memory, and CPU seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def family() -> Iterator[tuple[int, list[str]]]:
    """This process and all that descend from it: their numbers, and of `/proc/N/stat` what follows the name."""
    found: dict[int, list[str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            found[int(stat.parent.name)] = stat.read_text().rpartition(")")[2].split()
    members = {os.getpid()}
    while grown := {pid for pid, fields in found.items() if int(fields[1]) in members} - members:
        members |= grown
    return ((pid, found[pid]) for pid in members)


def family_bytes() -> int:
    """Resident memory."""
    pages = 0
    for pid, _ in family():
        with suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def family_cpu() -> float:
    """CPU seconds since they began, with those of processes that have ended and were waited for."""
    seconds = 0.0
    for pid, fields in family():
        with suppress(OSError):
            seconds += time.clock_gettime((~pid << 3) | 2)  # the clock of another process
            seconds += (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    return seconds
