"""Draw pictures with matplotlib's figures, without the shared state of `pyplot`: the same bytes for the same data.

A user's own style has no effect. Texts come from runs and may hold anything: they pass `plain`, so that none is parsed
as a formula. Not here: the content of the pictures.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Sequence
from contextlib import chdir, nullcontext
from typing import TYPE_CHECKING

from align_echo.errors import MissingExtraError, printable
from align_echo.report.plots import ColourPalette, PlotPanel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, DOTS = 4.6, 180
"""Width in inches, and dots an inch; a page shows pictures at half their dots."""

SMALL, TEXT = 7.5, 8.5
"""Font sizes in points: numbers at an axis, and all other text."""

LONGEST = 34
"""Most characters of a name in a picture."""

LAST_DRAWN = 0x530
"""End of the letters in matplotlib's font: Latin, Greek and Cyrillic."""

SETTINGS = "matplotlibrc"
"""A file of the current folder that could make matplotlib run programs on import."""


def require_drawing() -> None:
    """Raise `MissingExtraError` if matplotlib is not installed."""
    try:
        with chdir(os.sep) if os.path.lexists(SETTINGS) else nullcontext():
            import matplotlib  # noqa: F401
    except ImportError as error:
        if (error.name or "").split(".")[0] != "matplotlib":
            raise
        raise MissingExtraError("a report", "report") from None


def picture(panel: PlotPanel, palette: ColourPalette) -> bytes:
    """Draw a panel as PNG, independent of the user's own settings."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(WIDTH, panel.height), dpi=DOTS, facecolor=palette.back, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        axes.grid(visible=True, color=palette.line, linewidth=0.6)
        axes.set_axisbelow(True)
        panel.draw(axes, palette)
        _tint(axes, palette)
        figure.suptitle(plain(panel.title, 60), x=0.015, ha="left", color=palette.ink, fontsize=TEXT + 0.5)
        out = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a layout that is too small for its texts, and signs that a font lacks
            figure.savefig(out, format="png", facecolor=palette.back, metadata={"Software": None})
    return out.getvalue()


def _tint(axes: Axes, palette: ColourPalette) -> None:
    axes.set_facecolor(palette.back)
    for spine in axes.spines.values():
        spine.set_color(palette.line)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=palette.quiet, labelsize=SMALL, length=2.5)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(palette.ink)
        label.set_fontsize(TEXT)
    legend = axes.get_legend()
    if legend is not None:
        legend.set_frame_on(False)
        for text in legend.get_texts():
            text.set_color(palette.ink)
            text.set_fontsize(SMALL)


def plain(text: str, longest: int = LONGEST) -> str:
    """Prepare a text of a run for a picture: no formula, no letter missing in the font, shortened if it is long."""
    visible = "".join(letter if ord(letter) < LAST_DRAWN else "?" for letter in " ".join(printable(text).split()))
    cut = visible if len(visible) <= longest else f"{visible[: longest - 3]}..."
    return (f" {cut}" if cut.startswith("_") else cut).replace("$", r"\$")


def name_rows(axes: Axes, names: Sequence[str], longest: int = 24) -> None:
    """Label the rows of a picture, the first on top, at 0, 1, 2 ... of its vertical axis."""
    axes.set_yticks(range(len(names)), [plain(name, longest) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def number_steps(axes: Axes, label: str) -> None:
    """Use whole numbers (of steps, rounds or candidates) on the horizontal axis."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(label)


def whisker(axes: Axes, at: float, ends: tuple[float, float], colour: str) -> None:
    """Draw a horizontal interval in the row `at`."""
    axes.hlines(at, *ends, color=colour, linewidth=1.8)
