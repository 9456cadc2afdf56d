"""Two ways that took turns, round by round: what the last line of a benchmark says of them.

A round is what one way did in its turn, by the clock and in CPU seconds, which other work on the machine hardly
changes. Figures are medians over the rounds. A ratio is that of the same round of both ways, and the median of those:
it need not be the quotient of the medians. An interval is from the least round to the most, which holds the median with
95% from 6 rounds on (94% with 5); it does not cover what all rounds have in common, the machine or the weights.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple


class Round(NamedTuple):
    """What one way did in a round (`work`: steps, tokens, searches), and the seconds and CPU seconds that it took."""

    work: float
    seconds: float
    cpu: float


class Watch:
    """The seconds since it was made, and the CPU seconds of this process and of all below it (Linux)."""

    def __init__(self) -> None:
        self._cpu, self._clock = family_cpu(), time.perf_counter()

    def round(self, work: float) -> Round:
        """Return what was done since then."""
        return Round(work, time.perf_counter() - self._clock, cpu_since(self._cpu))


def rate(round_: Round) -> float:
    """Work a second."""
    return round_.work / round_.seconds


def cpu_rate(round_: Round) -> float:
    """Work a CPU second."""
    return round_.work / round_.cpu


def cost(round_: Round) -> float:
    """Seconds a piece of work."""
    return round_.seconds / round_.work


def cpu_cost(round_: Round) -> float:
    """CPU seconds a piece of work."""
    return round_.cpu / round_.work


def rates(ours: Sequence[Round], baseline: Sequence[Round]) -> dict[str, Any]:
    """Both ways by what they do a second; see `compared`."""
    return compared(ours, baseline, rate, cpu_rate)


def costs(ours: Sequence[Round], baseline: Sequence[Round]) -> dict[str, Any]:
    """Both ways by the seconds that a piece of work takes; see `compared`."""
    return compared(ours, baseline, cost, cpu_cost)


def compared(
    ours: Sequence[Round],
    baseline: Sequence[Round],
    by_clock: Callable[[Round], float],
    by_cpu: Callable[[Round], float],
) -> dict[str, Any]:
    """`value` and `baseline` by the clock, `ratio` with its `interval`; `cpu_ratio` with its own, of CPU seconds;
    `seconds` and `cpu_seconds` of all rounds of both ways, how many `rounds`, and the `load` of the last minute.

    Raises `ValueError` where the ways have not the same number of rounds, or none.
    """
    clock, processor = pairs(ours, baseline, by_clock), pairs(ours, baseline, by_cpu)
    return {
        "value": shortened(statistics.median(map(by_clock, ours))),
        "baseline": shortened(statistics.median(map(by_clock, baseline))),
        "ratio": shortened(statistics.median(clock)),
        "interval": [shortened(min(clock)), shortened(max(clock))],
        "cpu_ratio": shortened(statistics.median(processor)),
        "cpu_interval": [shortened(min(processor)), shortened(max(processor))],
        "seconds": [shortened(sum(round_.seconds for round_ in way)) for way in (ours, baseline)],
        "cpu_seconds": [shortened(sum(round_.cpu for round_ in way)) for way in (ours, baseline)],
        "rounds": len(ours),
        "load": round(os.getloadavg()[0], 1),
    }


def pairs(ours: Sequence[Round], baseline: Sequence[Round], figure: Callable[[Round], float]) -> list[float]:
    """A figure of each of our rounds by that of the baseline's same round."""
    return [figure(mine) / figure(theirs) for mine, theirs in zip(ours, baseline, strict=True)]


def shortened(value: float) -> float:
    """To four significant digits."""
    return float(f"{value:.4g}")


def rounded(value: Any) -> Any:
    """Numbers to four digits, in dicts and lists too."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return shortened(value) if isinstance(value, float) else value


def at_least_one(text: str) -> int:
    """A whole number of at least 1, as argparse's type. Raises `ArgumentTypeError`."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


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
