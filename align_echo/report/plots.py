"""Data types of a plot: pictures with a table of their figures, their n, their commands and their control.

A plot that cannot be drawn gives a reason instead. Not here: drawing pictures (`drawing.py`), and their content
(`variants.py`, `trained.py`, `refined.py`, `critiques.py`, `drift.py`, `action_critics.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from align_echo.intervals import Estimate
from align_echo.report.material import RecordedRun, ReportData

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 12
"""Most pictures of one plot; the table has the rest."""

MOST_COMMANDS = 6


@dataclass(frozen=True)
class PlotPanel:
    """One picture. `draw` is called once for each palette, on empty axes; `alt` describes the picture in words."""

    title: str
    draw: Callable[[Axes, ColourPalette], None]
    alt: str
    height: float = 3.0


@dataclass(frozen=True)
class PlotTable:
    """The figures of a plot as rows of text."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class DrawnPlot:
    """A plot with data. `n` describes the amount of data, `control` the comparison to read it against; `commands` made
    the data.
    """

    n: str
    control: str
    commands: tuple[str, ...]
    panels: tuple[PlotPanel, ...]
    table: PlotTable
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class PlotKind:
    """A kind of plot. `draw` returns the plot of some runs, or a one-line reason why there is none; `command` makes
    data for it.
    """

    key: str
    title: str
    shows: str
    command: str
    draw: Callable[[ReportData], DrawnPlot | str]


def list_commands(runs: Iterable[RecordedRun]) -> tuple[str, ...]:
    """Return the commands behind runs, each once, at most `MOST_COMMANDS`."""
    commands = list(dict.fromkeys(run.command for run in runs))
    more = len(commands) - MOST_COMMANDS
    return (*commands[:MOST_COMMANDS], *([f"... and {more} more"] if more > 0 else []))


def first_panels(panels: Sequence[PlotPanel]) -> tuple[tuple[PlotPanel, ...], tuple[str, ...]]:
    """Limit panels to `MOST_PANELS`, with a note about the rest."""
    more = len(panels) - MOST_PANELS
    notes = (f"{more} more pictures are left out; their figures are in the table.",) if more > 0 else ()
    return tuple(panels[:MOST_PANELS]), notes


def figure(estimate: Estimate | None, digits: int = 1, *, signed: bool = False) -> str:
    """Format a figure with its 95% interval, as "66.7 [39.1, 86.2]"; "66.7 -" without one, "-" for none."""
    if estimate is None:
        return "-"
    sign = "+" if signed else ""
    return f"{estimate.value:{sign}.{digits}f} {estimate.interval(digits, signed=signed)}"


def ends(estimate: Estimate) -> tuple[float, float]:
    """Return the ends of an interval for drawing; NaN without an interval, so that nothing is drawn."""
    return (math.nan, math.nan) if estimate.ci95 is None else estimate.ci95


# ---------------------------------------------------------------- colours of pictures, for a light and a dark system


@dataclass(frozen=True)
class ColourPalette:
    """Colours of one theme. `series` distinguish methods and rules; `faint` is a light shade of the first. The others
    have fixed meanings.
    """

    back: str
    ink: str
    quiet: str
    line: str
    faint: str
    good: str
    bad: str
    series: tuple[str, ...]

    def colour(self, number: int) -> str:
        """Return the colour of a series by its number."""
        return self.series[number % len(self.series)]


LIGHT = ColourPalette(
    back="#ffffff",
    ink="#1c2128",
    quiet="#6b7480",
    line="#d9dde3",
    faint="#b9cdf3",
    good="#1a7f4b",
    bad="#b3261e",
    series=("#1556c0", "#c25700", "#1a7f4b", "#8a3ffc", "#b3261e", "#00727a", "#7a5200", "#5f6875"),
)
DARK = ColourPalette(
    back="#15181d",
    ink="#dfe3e9",
    quiet="#98a2b0",
    line="#323842",
    faint="#34538a",
    good="#74d79b",
    bad="#ff9b92",
    series=("#86b3ff", "#ffb27a", "#74d79b", "#c9a6ff", "#ff9b92", "#5fd3dc", "#e6c27a", "#98a2b0"),
)
