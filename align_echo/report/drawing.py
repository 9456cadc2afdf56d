"""Pictures by matplotlib's own figures, without the state that its `pyplot` shares: the same bytes for the same data.

Nothing of a user's own style is read into what matters here. Texts come from runs and may hold anything: they pass
`plain`, so that none is taken for a formula. Left out: what is drawn.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Sequence
from contextlib import chdir, nullcontext
from typing import TYPE_CHECKING

from align_echo.errors import MissingExtraError
from align_echo.report.palette import Palette
from align_echo.report.plots import Panel
from align_echo.sandbox.session import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, DOTS = 4.6, 180
"""Inches, and dots an inch: on a page a picture is half as wide as its dots."""

SMALL, TEXT = 7.5, 8.5
"""Points of the numbers at an axis, and of all other text."""

LONGEST = 34
"""Characters of a name in a picture."""

LAST_DRAWN = 0x530
"""Letters up to this one, which are Latin, Greek and Cyrillic, are in the font that comes with matplotlib."""

SETTINGS = "matplotlibrc"
"""A file of the current folder from which matplotlib takes settings, and programs to run, when it is imported."""


def require_drawing() -> None:
    """Raises `MissingExtraError` where matplotlib is not installed."""
    try:
        with chdir(os.sep) if os.path.lexists(SETTINGS) else nullcontext():
            import matplotlib  # noqa: F401
    except ImportError as error:
        if (error.name or "").split(".")[0] != "matplotlib":
            raise
        raise MissingExtraError("a report", "report") from None


def picture(panel: Panel, palette: Palette) -> bytes:
    """A panel as PNG. Settings of the user's own do not change it."""
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


def _tint(axes: Axes, palette: Palette) -> None:
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
    """A text of a run as a picture can show it: no formula, no letter that the font lacks, cut where it is long."""
    seen = "".join(letter if ord(letter) < LAST_DRAWN else "?" for letter in " ".join(printable(text).split()))
    cut = seen if len(seen) <= longest else f"{seen[: longest - 3]}..."
    return (f" {cut}" if cut.startswith("_") else cut).replace("$", r"\$")


def name_rows(axes: Axes, names: Sequence[str], longest: int = 24) -> None:
    """Names for the rows of a picture, the first on top, at 0, 1, 2 ... of its vertical axis."""
    axes.set_yticks(range(len(names)), [plain(name, longest) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def number_steps(axes: Axes, what: str) -> None:
    """Whole numbers, of steps, rounds or candidates, along a picture."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(what)


def whisker(axes: Axes, at: float, ends: tuple[float, float], colour: str) -> None:
    """A horizontal interval in the row `at`."""
    axes.hlines(at, *ends, color=colour, linewidth=1.8)
