"""What a plot is: pictures with a table of their figures, their n, the commands behind them and their control.

A plot that cannot be drawn says why, in place of all these. Left out: how pictures are made (`drawing.py`), and what
is in each of them (`variants.py`, `trained.py`, `refined.py`, `critiques.py`, `drift.py`, `judged.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from align_echo.intervals import Estimate
from align_echo.report.finding import RecordedRun
from align_echo.report.material import Material

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from align_echo.report.palette import Palette

MOST_PANELS = 12
"""Pictures of one plot; what is beyond them is in its table."""

MOST_COMMANDS = 6


@dataclass(frozen=True)
class Panel:
    """One picture. `draw` is called once for each palette, on empty axes; `alt` says in words what is to be seen."""

    title: str
    draw: Callable[[Axes, Palette], None]
    alt: str
    height: float = 3.0


@dataclass(frozen=True)
class PlotTable:
    """The figures of a plot as rows of text."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class DrawnPlot:
    """A plot that could be drawn. `n` says how much is behind it, `control` beside what it is to be read; `commands`
    made the data.
    """

    n: str
    control: str
    commands: tuple[str, ...]
    panels: tuple[Panel, ...]
    table: PlotTable
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Plot:
    """A kind of plot. `draw` gives what there is to see in some runs, or says in a line why there is nothing; `command`
    makes data for it.
    """

    key: str
    title: str
    shows: str
    command: str
    draw: Callable[[Material], DrawnPlot | str]


def commands_of(runs: Iterable[RecordedRun]) -> tuple[str, ...]:
    """The commands that made runs, each once; of many the first."""
    every = list(dict.fromkeys(run.command for run in runs))
    more = len(every) - MOST_COMMANDS
    return (*every[:MOST_COMMANDS], *([f"... and {more} more"] if more > 0 else []))


def first_panels(panels: Sequence[Panel]) -> tuple[tuple[Panel, ...], tuple[str, ...]]:
    """As many pictures as a plot has at most, and a note of those that are left out."""
    more = len(panels) - MOST_PANELS
    notes = (f"{more} more pictures are left out; their figures are in the table.",) if more > 0 else ()
    return tuple(panels[:MOST_PANELS]), notes


def figure(estimate: Estimate | None, digits: int = 1, *, signed: bool = False) -> str:
    """A figure with its 95% interval, as "66.7 [39.1, 86.2]"; "66.7 -" without one, "-" for none."""
    if estimate is None:
        return "-"
    sign = "+" if signed else ""
    return f"{estimate.value:{sign}.{digits}f} {estimate.interval(digits, signed=signed)}"


def ends(estimate: Estimate) -> tuple[float, float]:
    """The ends of an interval as they are drawn: nothing is, where they are NaN for want of one."""
    return (math.nan, math.nan) if estimate.ci95 is None else estimate.ci95
